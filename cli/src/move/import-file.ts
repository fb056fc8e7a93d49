import { statSync } from "node:fs";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { ServiceError } from "@rowhouse/protocol/errors";
import type { Checkpoint } from "./checkpoint.ts";
import type { Pace } from "./copy-table.ts";
import { type EntityFormat, type FileRecord, readRecords } from "./entity-files.ts";
import { createTable } from "./read-table.ts";
import type { Reject } from "./rejects.ts";
import type { TableConnection } from "./table-endpoint.ts";
import type { TransferProgress } from "./transfer-progress.ts";
import { type Change, type WriteMode, writeChanges } from "./write-table.ts";

export interface ImportOptions {
  readonly path: string;
  readonly format: EntityFormat;
  readonly connection: TableConnection;
  readonly table: string;
  readonly mode: WriteMode;
  readonly dryRun: boolean;
  readonly pace: Pace;
  readonly progress: TransferProgress;
  readonly onReject: (reject: Reject) => void;
}

/** The last line of each file whose entities, and those before it, are all written or reported. */
export type ImportState = Record<string, { line: number; written: number }>;

interface LineChange extends Change {
  readonly record: FileRecord;
}

/** Enough for the transactions that are in flight together. */
const CHANGES_AT_ONCE = 2000;

/** Writes a file's entities to a table, in the order of its lines. @returns how many were written */
export async function importFile(
  options: ImportOptions,
  state: ImportState,
  checkpoint: Checkpoint<ImportState>,
): Promise<number> {
  const { path, format, connection, table, mode, dryRun, pace, progress, onReject } = options;
  const size = Math.max(1, statSync(path).size);
  const done = state[path] ?? { line: 0, written: 0 };
  state[path] = done;
  if (!dryRun) await createTable(connection, table);
  const reject = ({ number, body }: FileRecord, reason: string) =>
    onReject({ where: `${path} line ${number}`, reason, found: body.toString("utf8") });
  let changes: LineChange[] = [];
  const write = async (upTo: FileRecord) => {
    await pace.wait(changes.length);
    let refusals = 0;
    if (!dryRun) {
      for (const { change, reason } of await writeChanges(connection, table, mode, changes)) {
        reject(change.record, reason);
        refusals++;
      }
    }
    done.line = upTo.number;
    done.written += changes.length - refusals;
    progress.add(changes.length, upTo.bytes / size);
    checkpoint.write(state);
    changes = [];
  };
  let last: FileRecord | undefined;
  for await (const record of readRecords(path, format)) {
    if (record.number <= done.line) continue;
    last = record;
    try {
      if (record.fault !== undefined) throw new Error(record.fault);
      const { partitionKey, rowKey } = decodeEntity(record.body);
      changes.push({ partitionKey, rowKey, entity: record.body, record });
    } catch (error) {
      const unread = format === "jsonl" ? whyNotJson(record.body) : undefined;
      reject(record, unread ?? reasonOf(error));
    }
    if (changes.length === CHANGES_AT_ONCE) await write(record);
  }
  if (last !== undefined) await write(last);
  return done.written;
}

/** The service only says that it is InvalidInput. */
function whyNotJson(line: Buffer): string | undefined {
  try {
    JSON.parse(line.toString("utf8"));
  } catch (error) {
    return `it is no JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
  return undefined;
}

function reasonOf(error: unknown): string {
  if (error instanceof ServiceError) return `${error.code}: ${error.message.split("\n")[0]}`;
  return error instanceof Error ? error.message : String(error);
}
