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
  const foundation: Foundation = {
    engine,
    clock: systemClock,
    ageClock: systemClock,
    accountIds: await openAccountIds(engine, await accountsIn(paths)),
    onError: (error) => {
      throw error;
    },
  };
  const contentStore = await FileContentStore.open(join(engine.path, CONTENTS_FOLDER));
  try {
    await importFile(options, FILES.table, new TableImport({ foundation, counts }));
    await importFile(options, FILES.queue, new QueueImport({ foundation, counts, folder }));
    await importFile(
      options,
      FILES.blob,
      new BlobImport({ foundation, counts, folder, contentStore }),
    );
  } finally {
    await contentStore.close();
  }
  return counts;
}

async function importFile(
  { folder, onReject, onProgress }: FolderImportOptions,
  name: string,
  into: RowImport,
): Promise<void> {
  const path = join(folder, name);
  if (!existsSync(path)) return;
  for await (const { rows, done } of lokiRows(path)) {
    let taken = 0;
    for (const row of rows) {
      try {
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
  await into.finish();
}

async function accountsIn(paths: readonly string[]): Promise<string[]> {
  const names = new Set<string>();
  for (const path of paths) {
    if (!existsSync(path)) continue;
    for await (const { rows } of lokiRows(path)) {
      for (const row of rows) {
        const name = accountOf(row);
        if (name !== undefined) names.add(name);
      }
    }
  }
  return [...names];
}

/** Every thing lies in a table, queue or container, whose rows name the account. */
function accountOf({ collection, bytes }: LokiRow): string | undefined {
  if (!/^\$(TABLES|QUEUES|CONTAINERS)_COLLECTION\$$/.test(collection)) return undefined;
  const row = parseRow(bytes);
  const name = row.account ?? row.accountName;
  return typeof name === "string" ? name : undefined;
}

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
