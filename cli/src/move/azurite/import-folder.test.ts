import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { startServer } from "@rowhouse/server/server";
import { splitList, withoutEtag } from "../raw-entity.ts";
import type { Reject } from "../rejects.ts";
import { parseTableEndpoint, TableConnection } from "../table-endpoint.ts";
import { change, fill } from "../test-entities.ts";
import { importAzuriteFolder } from "./import-folder.ts";

const ACCOUNT = DEVELOPMENT_ACCOUNT.name;
const TIMESTAMP = "2026-11-28T15:44:07.8045940Z";

/** The emulator's files as version 3.37 writes them, less the members that nobody reads. */
function writeFolder(folder: string, rows: readonly object[]): void {
  const document = (collections: Readonly<Record<string, readonly object[]>>) =>
    JSON.stringify({
      filename: "x.json",
      collections: Object.entries(collections).map(([name, data]) => ({
        name,
        data,
        binaryIndices: { name: { name: "name", dirty: false, values: [{ data: "}]" }] } },
        uniqueNames: [],
      })),
      databaseVersion: 1.5,
      options: { persistenceMethod: "fs", destructureDelimiter: "$<\n" },
    });
  const persistency = (offset: number, count: number) => ({ id: "0a-0b", offset, count });
  writeFileSync(
    join(folder, "__azurite_db_table__.json"),
    document({
      $TABLES_COLLECTION$: [{ account: ACCOUNT, table: "Types", $loki: 1 }],
      $SERVICES_COLLECTION$: [],
      [`${ACCOUNT}$Types`]: rows,
    }),
  );
  writeFileSync(
    join(folder, "__azurite_db_queue__.json"),
    document({
      $QUEUES_COLLECTION$: [{ accountName: ACCOUNT, name: "work", metadata: { a: "b" } }],
      $MESSAGES_COLLECTION$: [
        {
          accountName: ACCOUNT,
          queueName: "work",
          messageId: "db53ad14-0482-4e76-91c0-8f82ebf01301",
          timeNextVisible: 1,
          persistency: persistency(0, 5),
          insertionTime: "2026-11-28T15:44:15.917Z",
          expirationTime: "9999-12-05T15:44:15.917Z",
          dequeueCount: 4,
        },
      ],
    }),
  );
  const blob = (name: string, blobType: string, rest: object) => ({
    accountName: ACCOUNT,
    containerName: "pictures",
    name,
    metadata: { m: "1" },
    snapshot: "",
    isCommitted: true,
    properties: {
      blobType,
      creationTime: "2026-11-28T15:44:16.379Z",
      lastModified: "2026-11-28T15:44:17.000Z",
      contentType: "text/plain",
    },
    ...rest,
  });
  writeFileSync(
    join(folder, "__azurite_db_blob__.json"),
    document({
      $CONTAINERS_COLLECTION$: [
        {
          accountName: ACCOUNT,
          name: "pictures",
          properties: { lastModified: "2026-11-28T15:44:16.278Z" },
        },
      ],
      $BLOBS_COLLECTION$: [
        blob("a/b.txt", "BlockBlob", { persistency: persistency(5, 5) }),
        blob("blocks", "BlockBlob", {
          committedBlocksInOrder: [
            { persistency: persistency(5, 5) },
            { persistency: persistency(0, 5) },
          ],
        }),
        blob("log", "AppendBlob", {
          committedBlocksInOrder: [
            { persistency: persistency(0, 5) },
            { persistency: persistency(0, 5) },
          ],
        }),
        blob("page", "PageBlob", {}),
        blob("gone", "BlockBlob", { persistency: persistency(5, 500) }),
      ],
    }),
  );
  for (const name of ["__queuestorage__", "__blobstorage__"]) {
    mkdirSync(join(folder, name), { recursive: true });
    writeFileSync(join(folder, name, "0a-0b"), "helloworld");
  }
}

function row(rowKey: string, properties: object): object {
  return {
    PartitionKey: "p",
    RowKey: rowKey,
    properties: { PartitionKey: "p", RowKey: rowKey, ...properties },
    lastModifiedTime: TIMESTAMP,
    $loki: 1,
  };
}

const TYPES = {
  s: 'a "quoted" } text',
  i: 7,
  big: "9007199254740993",
  "big@odata.type": "Edm.Int64",
  d: 1,
  "d@odata.type": "Edm.Double",
  guid: Buffer.from("c9da6455-213d-42c9-9a79-3e9149a57833").toString("base64"),
  "guid@odata.type": "Edm.Guid",
  bin: "AQID",
  "bin@odata.type": "Edm.Binary",
  Timestamp: TIMESTAMP,
  "Timestamp@odata.type": "Edm.DateTime",
};

async function imported(
  rows: readonly object[],
  use: (context: {
    readonly rejects: readonly Reject[];
    readonly table: TableConnection;
    readonly connection: string;
    readonly folder: string;
    again(): Promise<{ readonly entities: number; readonly newerHere: number }>;
  }) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-azurite-"));
  const from = join(folder, "from");
  mkdirSync(from);
  writeFolder(from, rows);
  const engine = await openLmdbEngine({ path: join(folder, "data") });
  const rejects: Reject[] = [];
  const again = () =>
    importAzuriteFolder({
      folder: from,
      engine,
      onReject: (reject) => rejects.push(reject),
      onProgress() {},
    });
  await again();
  const host = { host: "127.0.0.1", port: 0 };
  const server = await startServer({
    accounts: new Accounts([DEVELOPMENT_ACCOUNT]),
    engine,
    listen: { table: host, queue: host, blob: host },
  });
  try {
    const { blob, queue, table } = server.urls;
    const key = Buffer.from(DEVELOPMENT_ACCOUNT.keys[0]!).toString("base64");
    const connection = `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${key};BlobEndpoint=${blob}/${ACCOUNT};QueueEndpoint=${queue}/${ACCOUNT}`;
    const endpoint = parseTableEndpoint(`${table}/${ACCOUNT}`, {});
    await use({
      rejects,
      table: new TableConnection({ endpoint }),
      connection,
      folder: from,
      again,
    });
  } finally {
    await server.close();
    rmSync(folder, { recursive: true });
  }
}

async function list(table: TableConnection): Promise<readonly string[]> {
  const { body } = await table.send({ method: "GET", path: "/Types()" });
  return splitList(body).map((entity) => withoutEtag(entity).toString("utf8"));
}

describe("Taking over the emulator's folder", () => {
  it("keeps every type and Timestamp of entities", () =>
    imported([row("all", TYPES)], async ({ table }) => {
      assert.deepEqual(await list(table), [
        `{"PartitionKey":"p","RowKey":"all","Timestamp":"2026-11-28T15:44:07.804594Z","s":"a \\"quoted\\" } text","i":7,"big@odata.type":"Edm.Int64","big":"9007199254740993","d":1.0,"guid@odata.type":"Edm.Guid","guid":"c9da6455-213d-42c9-9a79-3e9149a57833","bin@odata.type":"Edm.Binary","bin":"AQID"}`,
      ]);
    }));

  it("reports rows that break the service's rules, and takes all others", () =>
    imported(
      [row("ok", {}), row("large", { s: "x".repeat(40_000) }), row("bad/key", {})],
      async ({ table, rejects }) => {
        assert.equal((await list(table)).length, 1);
        assert.match(rejects[0]!.reason, /^PropertyValueTooLarge/);
        assert.match(rejects[1]!.reason, /^OutOfRangeInput/);
      },
    ));

  it("takes what is whole of a torn file, and says so", () =>
    imported([], async ({ table, folder, again }) => {
      writeFolder(folder, [row("1", TYPES), row("2", TYPES)]);
      const file = join(folder, "__azurite_db_table__.json");
      const whole = readFileSync(file);
      writeFileSync(file, whole.subarray(0, whole.lastIndexOf('"RowKey":"2"')));
      await assert.rejects(again(), /ends in the middle.*Run this again with the whole file/);
      assert.equal((await list(table)).length, 1);
      writeFileSync(file, whole);
      assert.equal((await again()).entities, 1);
      assert.equal((await list(table)).length, 2);
    }));

  it("run again, keeps what was written here meanwhile", () =>
    imported([row("1", { n: 1 }), row("2", { n: 1 })], async ({ table, again }) => {
      await fill(table, "Types", [change("p", "1", '"n":2')]);
      const { entities, newerHere } = await again();
      assert.deepEqual([entities, newerHere], [0, 1]);
      assert.match((await list(table))[0]!, /"n":2/);
    }));

  it("keeps messages with their ids and counts, and blobs with content, metadata and times", () =>
    imported([], async ({ connection, rejects }) => {
      const queue = QueueServiceClient.fromConnectionString(connection).getQueueClient("work");
      const [message] = (await queue.receiveMessages()).receivedMessageItems;
      assert.equal(message?.messageText, "hello");
      assert.equal(message?.messageId, "db53ad14-0482-4e76-91c0-8f82ebf01301");
      assert.equal(message?.dequeueCount, 5);

      const container =
        BlobServiceClient.fromConnectionString(connection).getContainerClient("pictures");
      const text = async (name: string) =>
        (await container.getBlobClient(name).downloadToBuffer()).toString("utf8");
      assert.equal(await text("a/b.txt"), "world");
      assert.equal(await text("blocks"), "worldhello");
      assert.equal(await text("log"), "hellohello");
      const { lastModified, metadata, contentType, blobCommittedBlockCount } = await container
        .getBlobClient("log")
        .getProperties();
      assert.deepEqual(
        [lastModified?.toISOString(), metadata, contentType, blobCommittedBlockCount],
        ["2026-11-28T15:44:17.000Z", { m: "1" }, "text/plain", 2],
      );
      assert.match(rejects[0]!.reason, /PageBlob/);
      assert.match(rejects[1]!.reason, /shorter than its rows say/);
    }));
});
