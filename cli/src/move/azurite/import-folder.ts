import { existsSync } from "node:fs";
import { join } from "node:path";
import { ServiceError } from "@rowhouse/protocol/errors";
import { openAccountIds } from "@rowhouse/server/catalog/account-ids";
import type { Foundation } from "@rowhouse/server/catalog/open-catalog";
import { systemClock } from "@rowhouse/server/clock";
import { CONTENTS_FOLDER, FileContentStore } from "@rowhouse/server/content/file-content-store";
import type { LmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import type { Reject } from "../rejects.ts";
import { BlobImport } from "./blob-import.ts";
import { type LokiRow, lokiRows } from "./loki-rows.ts";
import { QueueImport } from "./queue-import.ts";
import type { ImportCounts, RowImport } from "./row-import.ts";
import { parseRow } from "./row-members.ts";
import { TableImport } from "./table-import.ts";

export interface FolderImportOptions {
  /** The emulator's folder. */
  readonly folder: string;
  /** Where the data goes; the caller closes it. */
  readonly engine: LmdbEngine;
  readonly onReject: (reject: Reject) => void;
  /** @param done the part of the present file, from 0 to 1 */
  readonly onProgress: (things: number, done: number) => void;
}

const FILES = {
  table: "__azurite_db_table__.json",
  queue: "__azurite_db_queue__.json",
  blob: "__azurite_db_blob__.json",
} as const;

/**
 * Takes over the tables, queues and blobs of the emulator's folder. Entities keep their Timestamp, so ETags that
 * clients have cached stay valid. Running it again changes nothing but what the emulator wrote since; what was
 * written here meanwhile is newer and stays.
 */
export async function importAzuriteFolder(options: FolderImportOptions): Promise<ImportCounts> {
  const { folder, engine } = options;
  const paths = Object.values(FILES).map((name) => join(folder, name));
  if (!paths.some((path) => existsSync(path))) {
    throw new Error(`${folder} has no ${FILES.table}, nor the files of its queues or blobs.`);
  }
  const counts: ImportCounts = {
    tables: 0,
    entities: 0,
    queues: 0,
    messages: 0,
    containers: 0,
    blobs: 0,
    newerHere: 0,
  };
  const accountIds = new Map<string, number>();
  const admit: Admit = async (account) => {
    if (accountIds.has(account)) return;
    for (const [name, id] of await openAccountIds(engine, [account])) accountIds.set(name, id);
  };
  const foundation: Foundation = {
    engine,
    clock: systemClock,
    ageClock: systemClock,
    accountIds,
    onError: (error) => {
      throw error;
    },
  };
  const contentStore = await FileContentStore.open(join(engine.path, CONTENTS_FOLDER));
  try {
    const tables = new TableImport({ foundation, counts });
    await importFile(options, { name: FILES.table, into: tables, admit });
    const queues = new QueueImport({ foundation, counts, folder });
    await importFile(options, { name: FILES.queue, into: queues, admit });
    const blobs = new BlobImport({ foundation, counts, folder, contentStore });
    await importFile(options, { name: FILES.blob, into: blobs, admit });
  } finally {
    await contentStore.close();
  }
  return counts;
}

/** Makes an account known, whose things follow. */
type Admit = (account: string) => Promise<void>;

interface FileImport {
  readonly name: string;
  readonly into: RowImport;
  readonly admit: Admit;
}

async function importFile(
  { folder, onReject, onProgress }: FolderImportOptions,
  { name, into, admit }: FileImport,
): Promise<void> {
  const path = join(folder, name);
  if (!existsSync(path)) return;
  try {
    for await (const { rows, done } of lokiRows(path)) {
      let taken = 0;
      for (const row of rows) {
        try {
          const account = accountOf(row);
          if (account !== undefined) await admit(account);
          // Most entities are only put with others, and a promise for each takes as long as reading it.
          const taking = into.take(row.collection, row.bytes);
          if (taking) await taking;
        } catch (error) {
          onReject({ where: `${name} ${describeRow(row)}`, reason: reasonOf(error) });
        }
        taken++;
      }
      onProgress(taken, done);
    }
  } finally {
    // Also what was read of a file that is torn: another run takes the rest.
    await into.finish();
  }
}

/** The account that a table, queue or container names, in which all else lies that comes after it. */
function accountOf({ collection, bytes }: LokiRow): string | undefined {
  if (!PARENTS.has(collection)) return undefined;
  const row = parseRow(bytes);
  const name = row.account ?? row.accountName;
  return typeof name === "string" ? name : undefined;
}

const PARENTS = new Set(["$TABLES_COLLECTION$", "$QUEUES_COLLECTION$", "$CONTAINERS_COLLECTION$"]);

function describeRow({ collection, bytes }: LokiRow): string {
  const row = parseRow(bytes);
  const keys = [
    row.PartitionKey,
    row.RowKey,
    row.queueName,
    row.messageId,
    row.containerName,
    row.name,
  ];
  return `${collection} ${JSON.stringify(keys.filter((key) => key !== undefined))}`;
}

function reasonOf(error: unknown): string {
  if (error instanceof ServiceError) return `${error.code}: ${error.message.split("\n")[0]}`;
  return error instanceof Error ? error.message : String(error);
}
