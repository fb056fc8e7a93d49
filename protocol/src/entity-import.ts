import type { EntityFormat, FileRecord } from "./entity-files.ts";
import { decodeEntity } from "./entity-json.ts";
import type { KeyedChange, Refused } from "./entity-writes.ts";
import { ServiceError } from "./errors.ts";

/** The last record of a file that, with all before it, is written or reported. */
export interface ImportState {
  line: number;
  written: number;
}

export interface ImportedEntity extends KeyedChange {
  readonly entity: Uint8Array;
  readonly record: FileRecord;
}

export interface ImportSteps {
  readonly format: EntityFormat;
  /** How many entities are written, and then counted as written, together. */
  readonly atOnce: number;
  /** Writes entities in their order; nothing, where it is only tried. */
  readonly write: (
    entities: readonly ImportedEntity[],
  ) => Promise<readonly Refused<ImportedEntity>[]>;
  readonly reject: (record: FileRecord, reason: string) => void;
  /** After `state` was moved on, by so many entities, up to a record. */
  readonly moved: (entities: number, upTo: FileRecord) => void;
}

/** Writes the entities of a file, in the order of its records, from the state on, which it keeps. */
export async function importRecords(
  records: AsyncIterable<FileRecord>,
  state: ImportState,
  { format, atOnce, write, reject, moved }: ImportSteps,
): Promise<void> {
  let entities: ImportedEntity[] = [];
  const writeAll = async (upTo: FileRecord) => {
    const refused = await write(entities);
    for (const { change, reason } of refused) reject(change.record, reason);
    state.line = upTo.number;
    state.written += entities.length - refused.length;
    moved(entities.length, upTo);
    entities = [];
  };
  let last: FileRecord | undefined;
  for await (const record of records) {
    if (record.number <= state.line) continue;
    last = record;
    try {
      if (record.fault !== undefined) throw new Error(record.fault);
      const { partitionKey, rowKey } = decodeEntity(record.body);
      entities.push({ partitionKey, rowKey, entity: record.body, record });
    } catch (error) {
      const unread = format === "jsonl" ? whyNotJson(record.body) : undefined;
      reject(record, unread ?? reasonOf(error));
    }
    if (entities.length === atOnce) await writeAll(record);
  }
  if (last !== undefined) await writeAll(last);
}

/** The service only says that it is InvalidInput. */
function whyNotJson(line: Uint8Array): string | undefined {
  try {
    JSON.parse(UTF8.decode(line));
  } catch (error) {
    return `it is no JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
  return undefined;
}

function reasonOf(error: unknown): string {
  if (error instanceof ServiceError) return `${error.code}: ${error.message.split("\n")[0]}`;
  return error instanceof Error ? error.message : String(error);
}

const UTF8 = new TextDecoder();
