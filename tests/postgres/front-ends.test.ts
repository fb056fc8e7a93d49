import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { RestError, TableClient, TableServiceClient } from "@azure/data-tables";
import { QueueServiceClient } from "@azure/storage-queue";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import { type TestServer, testServer } from "@rowhouse/server/engine/postgres/test-server";
import { type RunningServer, startServer } from "@rowhouse/server/server";

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

describe("Two front ends over one PostgreSQL", () => {
  let database: TestServer;
  let url: string;
  let fronts: RunningServer[];

  before(async () => {
    database = await testServer();
    url = await database.createDatabase();
    fronts = [await front(url), await front(url)];
  });

  after(async () => {
    await Promise.all(fronts.map((each) => each.close()));
    await database.dropDatabase(url);
    await database.stop();
  });

  const connection = (index: number) =>
    `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};` +
    `TableEndpoint=${fronts[index]!.urls.table}/devstoreaccount1;` +
    `QueueEndpoint=${fronts[index]!.urls.queue}/devstoreaccount1`;
  const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
  const table = (index: number, name: string) =>
    TableClient.fromConnectionString(connection(index), name, options);

  const serviceOf = (index: number) =>
    TableServiceClient.fromConnectionString(connection(index), options);

  it("show each other's tables and entities immediately", async () => {
    await table(0, "Shared").createTable();
    await table(1, "Shared").createEntity({ partitionKey: "p", rowKey: "r", n: 1 });
    assert.equal((await table(0, "Shared").getEntity("p", "r")).n, 1);
    await table(1, "Shared").deleteTable();
    await assert.rejects(table(0, "Shared").getEntity("p", "r"), statusIs(404));
  });

  it("let exactly one of several creators of a table win", async () => {
    const created = await Promise.all(
      Array.from({ length: 10 }, (_, i) => rawCreate(serviceOf(i % 2), "Contested")),
    );
    assert.equal(created.filter(Boolean).length, 1);
  });

  it("let exactly one of several deleters of a table win, and lose no delete to concurrent creators", async () => {
    await table(0, "Fleeting").createTable();
    const delete_ = (index: number) =>
      statusOf((options) => table(index, "Fleeting").deleteTable(options));
    const deleted = await Promise.all(Array.from({ length: 10 }, (_, i) => delete_(i % 2)));
    assert.deepEqual(deleted.toSorted(), [204, ...Array.from({ length: 9 }, () => 404)]);
    await table(0, "Fleeting").createTable();
    await table(0, "Fleeting").createEntity({ partitionKey: "p", rowKey: "r" });
    // In either order, the table is either missing afterwards or a new one.
    const [removed] = await Promise.all([
      delete_(0),
      ...Array.from({ length: 9 }, (_, i) => rawCreate(serviceOf(i % 2), "Fleeting")),
    ]);
    assert.equal(removed, 204);
    for (const index of [0, 1]) {
      const found = await statusOf((options) =>
        table(index, "Fleeting").getEntity("p", "r", options),
      );
      assert.equal(found, 404, "an entity outlived its table");
    }
  });

  it("let exactly one of several conditional updates win, and never repeat an ETag", async () => {
    await table(0, "Winners").createTable();
    await table(0, "Winners").createEntity({ partitionKey: "p", rowKey: "r", n: 0 });
    const etags = new Set<string>();
    for (let round = 0; round < 10; round++) {
      const { etag } = await table(round % 2, "Winners").getEntity("p", "r");
      assert.ok(!etags.has(etag), "an ETag came back");
      etags.add(etag);
      const results = await Promise.allSettled(
        Array.from({ length: 8 }, (_, i) =>
          table(i % 2, "Winners").updateEntity(
            { partitionKey: "p", rowKey: "r", n: round },
            "Merge",
            { etag },
          ),
        ),
      );
      assert.equal(
        results.filter(({ status }) => status === "fulfilled").length,
        1,
        `round ${round}`,
      );
    }
  });

  it("never repeat an ETag when an entity is deleted and inserted again through either of them", async () => {
    await table(0, "Again").createTable();
    const keys = { partitionKey: "p", rowKey: "r" };
    const etags = new Set<string | undefined>();
    for (let round = 0; round < 20; round++) {
      const { etag } = await table(round % 2, "Again").createEntity(keys);
      etags.add(etag);
      const other = table((round + 1) % 2, "Again");
      const written = await other.updateEntity({ ...keys, n: round }, "Replace", { etag: etag! });
      etags.add(written.etag);
      // The front end that did not write the entity refuses a stale ETag too.
      await assert.rejects(other.deleteEntity("p", "r", { etag: etag! }), statusIs(412));
      await other.deleteEntity("p", "r", { etag: written.etag! });
    }
    assert.equal(etags.size, 40);
  });

  it("keep transactions whole for readers on the other front end", async () => {
    await table(0, "Whole").createTable();
    const rows = ["1", "2", "3", "4"];
    const write = async (n: number) =>
      table(0, "Whole").submitTransaction(
        rows.map((rowKey) => ["upsert", { partitionKey: "p", rowKey, n }, "Replace"]),
      );
    await write(0);
    let writing = true;
    const writer = (async () => {
      for (let n = 1; n <= 40; n++) await write(n);
      writing = false;
    })();
    while (writing) {
      const seen = new Set<unknown>();
      for await (const { n } of table(1, "Whole").listEntities()) seen.add(n);
      assert.equal(seen.size, 1, `a page mixed ${[...seen]}`);
    }
    await writer;
  });

  it("continue each other's queries", async () => {
    await table(0, "Paged").createTable();
    for (let from = 0; from < 300; from += 100) {
      await table(0, "Paged").submitTransaction(
        Array.from({ length: 100 }, (_, i) => [
          "create",
          { partitionKey: `p${from / 100}`, rowKey: String(i).padStart(3, "0") },
        ]),
      );
    }
    const found: string[] = [];
    let continuationToken: string | undefined;
    for (let page = 0; page === 0 || continuationToken; page++) {
      const pages = table(page % 2, "Paged")
        .listEntities()
        .byPage({ maxPageSize: 70, ...(continuationToken ? { continuationToken } : {}) });
      const { value } = await pages.next();
      for (const { partitionKey, rowKey } of value) found.push(`${partitionKey}/${rowKey}`);
      continuationToken = value.continuationToken;
    }
    assert.equal(found.length, 300);
    assert.deepEqual(found, [...new Set(found)].sort());
  });

  it("accept two keys of 512 one-byte or two-byte characters, and refuse three-byte ones", async () => {
    await table(0, "Keys").createTable();
    const keys = (unit: string) => ({ partitionKey: unit.repeat(512), rowKey: unit.repeat(512) });
    for (const unit of ["k", "é"]) {
      const { partitionKey, rowKey } = keys(unit);
      await table(0, "Keys").createEntity({ partitionKey, rowKey });
      assert.equal((await table(1, "Keys").getEntity(partitionKey, rowKey)).rowKey, rowKey);
    }
    await assert.rejects(table(0, "Keys").createEntity(keys("日")), (error) => {
      assert.ok(error instanceof RestError);
      assert.equal(error.statusCode, 400);
      assert.equal(error.response?.headers.get("x-ms-error-code"), "PropertyValueTooLarge");
      return true;
    });
  });

  it("deliver each queue message to exactly one consumer", async () => {
    const queues = [0, 1].map((index) =>
      QueueServiceClient.fromConnectionString(connection(index)).getQueueClient("work"),
    );
    await queues[0]!.create();
    for (let i = 0; i < 40; i++) await queues[i % 2]!.sendMessage(String(i));
    const received: string[] = [];
    await Promise.all(
      Array.from({ length: 6 }, async (_, consumer) => {
        const queue = queues[consumer % 2]!;
        for (;;) {
          const { receivedMessageItems } = await queue.receiveMessages({
            numberOfMessages: 4,
            visibilityTimeout: 300,
          });
          if (receivedMessageItems.length === 0) return;
          for (const { messageText } of receivedMessageItems) received.push(messageText);
        }
      }),
    );
    assert.deepEqual(
      received.map(Number).sort((a, b) => a - b),
      Array.from({ length: 40 }, (_, i) => i),
    );
  });
});

async function front(url: string): Promise<RunningServer> {
  const address = { host: "127.0.0.1", port: 0 };
  return startServer({
    accounts: parseAccounts(undefined),
    engine: await openPostgresEngine({ url, allowUnsafe: true, writersMax: 8 }),
    listen: { table: address, queue: address },
  });
}

/** Whether this call created it: the client itself treats TableAlreadyExists as success. */
async function rawCreate(service: TableServiceClient, name: string): Promise<boolean> {
  let status = 0;
  await service.createTable(name, { onResponse: (response) => (status = response.status) });
  return status === 201 || status === 204;
}

/** The status of the answer, whether or not the client treats it as an error. */
async function statusOf(
  request: (options: { onResponse: (response: { status: number }) => void }) => Promise<unknown>,
): Promise<number> {
  let status = 0;
  const onResponse = (response: { status: number }) => {
    status = response.status;
  };
  await request({ onResponse }).catch((error: unknown) => {
    if (!(error instanceof RestError)) throw error;
    status = error.statusCode ?? 0;
  });
  return status;
}

function statusIs(status: number): (error: unknown) => boolean {
  return (error) => error instanceof RestError && error.statusCode === status;
}
