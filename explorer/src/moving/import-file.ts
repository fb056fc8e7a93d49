import type { EdmType } from "@rowhouse/protocol/edm";
import { type EntityFormat, type KeyColumns, readRecords } from "@rowhouse/protocol/entity-files";
import {
  type ImportedEntity,
  type ImportState,
  importRecords,
} from "@rowhouse/protocol/entity-import";
import { entityPath } from "@rowhouse/protocol/entity-url";
import {
  type Failure,
  type WriteMode,
  writeInTransactions,
} from "@rowhouse/protocol/entity-writes";
import { accountAddress, sendChangeset } from "../changeset.ts";
import { ServerError, session } from "../session.ts";
import { chunksOf } from "./chunks.ts";

/** Written together, and then counted as written. */
const ENTITIES_AT_ONCE = 500;
const TRANSACTIONS_AT_ONCE = 4;

/** What was not taken, as `rowhouse import --rejects` writes it. */
export interface Reject {
  readonly where: string;
  readonly reason: string;
  readonly found: string;
}

export interface LineReject {
  readonly line: number;
  readonly reject: Reject;
}

export interface ImportWork {
  readonly table: string;
  readonly file: File;
  readonly format: EntityFormat;
  readonly mode: WriteMode;
  readonly types: ReadonlyMap<string, EdmType> | undefined;
  readonly keys: KeyColumns;
  /** Reads and checks everything, and writes nothing. */
  readonly isDryRun: boolean;
  readonly signal: AbortSignal;
  readonly onReject: (reject: LineReject) => void;
  /** @param share of the file that was worked through */
  readonly moved: (state: ImportState, share: number) => void;
}

/**
 * Imports a file from a state on, which it keeps.
 * @throws ServerError where nothing more can be written; AbortError, between two groups of entities
 */
export async function importFile(work: ImportWork, state: ImportState): Promise<void> {
  const { table, file, format, mode, types, keys, isDryRun, signal, onReject, moved } = work;
  const { name } = file;
  const records = readRecords(chunksOf(file), { format, name, keys, ...(types && { types }) });
  await importRecords(records, state, {
    format,
    atOnce: ENTITIES_AT_ONCE,
    async write(entities) {
      signal.throwIfAborted();
      if (isDryRun) return [];
      return writeInTransactions(entities, TRANSACTIONS_AT_ONCE, (group) =>
        send(table, mode, group),
      );
    },
    reject({ number, body }, reason) {
      const found = new TextDecoder().decode(body);
      onReject({ line: number, reject: { where: `${name} line ${number}`, reason, found } });
    },
    moved(_, upTo) {
      moved({ ...state }, upTo.bytes / Math.max(1, file.size));
    },
  });
}

const METHODS = { insert: "POST", merge: "MERGE", replace: "PUT" } as const;

async function send(
  table: string,
  mode: WriteMode,
  group: readonly ImportedEntity[],
): Promise<Failure | undefined> {
  const method = METHODS[mode];
  const answer = await sendChangeset(
    group.map(({ partitionKey, rowKey, entity }) => {
      const path = method === "POST" ? table : entityPath(table, partitionKey, rowKey);
      const body = new TextDecoder().decode(entity);
      return { method, url: `${accountAddress()}/${path}`, body };
    }),
  );
  if (answer.kind === "done") return undefined;
  const { status, code, message, index } = answer;
  if (index === undefined || status === 401 || status === 403 || code === "TableNotFound")
    throw new ServerError(status, code, message);
  return { index, status, reason: `${status} ${code}: ${message}` };
}

/** How far an import came that was not finished, so that it goes on when the same file is chosen again. */
export interface Begun extends ImportState {
  readonly mode: WriteMode;
  readonly types: readonly (readonly [string, EdmType])[];
  /** Those of an earlier version have none. */
  readonly keys?: KeyColumns;
}

/** Kept by this browser, for each table and file. */
export class BegunImports {
  readonly #key: string;

  constructor(table: string, { name, size, lastModified }: File) {
    const account = session.value?.account;
    this.#key = `rowhouse.import.${account}.${table}.${JSON.stringify([name, size, lastModified])}`;
  }

  read(): Begun | undefined {
    try {
      const begun = JSON.parse(localStorage.getItem(this.#key) ?? "") as Begun;
      return begun.line > 0 ? begun : undefined;
    } catch {
      return undefined;
    }
  }

  write(begun: Begun): void {
    localStorage.setItem(this.#key, JSON.stringify(begun));
  }

  remove(): void {
    localStorage.removeItem(this.#key);
  }
}

export interface Cause {
  /** Of the first of them. */
  readonly first: Reject;
  readonly count: number;
}

/** Rejects with the same cause, whatever value it names. */
export function causesOf(rejects: readonly LineReject[]): Cause[] {
  const causes = new Map<string, { first: Reject; count: number }>();
  for (const { reject } of rejects) {
    const key = reject.reason.replace(/"[^"]*"/g, '""').replace(/\d+/g, "0");
    const cause = causes.get(key) ?? { first: reject, count: 0 };
    causes.set(key, cause);
    cause.count++;
  }
  return [...causes.values()].sort((a, b) => b.count - a.count);
}
