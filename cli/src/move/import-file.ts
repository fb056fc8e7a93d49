import { createReadStream, statSync } from "node:fs";
import {
  type EntityFormat,
  type FileRecord,
  type KeyColumns,
  readRecords,
} from "@rowhouse/protocol/entity-files";
import { type ImportState, importRecords } from "@rowhouse/protocol/entity-import";
import type { WriteMode } from "@rowhouse/protocol/entity-writes";
import type { Checkpoint } from "./checkpoint.ts";
import type { Pace } from "./copy-table.ts";
import { createTable } from "./read-table.ts";
import type { Reject } from "./rejects.ts";
import type { TableConnection } from "./table-endpoint.ts";
import type { TransferProgress } from "./transfer-progress.ts";
import { writeChanges } from "./write-table.ts";

export interface ImportOptions {
  readonly path: string;
  readonly format: EntityFormat;
  readonly connection: TableConnection;
  readonly table: string;
  readonly mode: WriteMode;
  readonly keys?: KeyColumns;
  readonly dryRun: boolean;
  readonly pace: Pace;
  readonly progress: TransferProgress;
  readonly onReject: (reject: Reject) => void;
}

/** How far each file is. */
export type ImportStates = Record<string, ImportState>;

/** Enough for the transactions that are in flight together. */
const CHANGES_AT_ONCE = 2000;

/** Writes a file's entities to a table, in the order of its lines. @returns how many were written */
export async function importFile(
  options: ImportOptions,
  states: ImportStates,
  checkpoint: Checkpoint<ImportStates>,
): Promise<number> {
  const { path, format, connection, table, mode, keys, dryRun, pace, progress, onReject } = options;
  const size = Math.max(1, statSync(path).size);
  const state = states[path] ?? { line: 0, written: 0 };
  states[path] = state;
  if (!dryRun) await createTable(connection, table);
  await importRecords(recordsOf(path, format, keys), state, {
    format,
    atOnce: CHANGES_AT_ONCE,
    async write(entities) {
      await pace.wait(entities.length);
      return dryRun ? [] : writeChanges(connection, table, mode, entities);
    },
    reject({ number, body }, reason) {
      const found = Buffer.from(body).toString("utf8");
      onReject({ where: `${path} line ${number}`, reason, found });
    },
    moved(entities, upTo) {
      progress.add(entities, upTo.bytes / size);
      checkpoint.write(states);
    },
  });
  return state.written;
}

/** The records of a file on this machine. */
export function recordsOf(
  path: string,
  format: EntityFormat,
  keys: KeyColumns = {},
): AsyncGenerator<FileRecord> {
  const chunks = createReadStream(path, { highWaterMark: 1 << 20 });
  return readRecords(chunks, { format, name: path, keys });
}
