import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { RestError, TableClient } from "@azure/data-tables";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import { Relay } from "@rowhouse/server/engine/postgres/test-relay";
import { type TestServer, testServer } from "@rowhouse/server/engine/postgres/test-server";
import { failure } from "@rowhouse/server/engine/postgres/test-session";
import { type RunningServer, startServer } from "@rowhouse/server/server";

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

describe("A client that retries when answers of the database are lost", () => {
  let database: TestServer;
  let url: string;
  let relay: Relay;
  let front: RunningServer;
  let table: TableClient;
  /** Statuses of all answers to the client, including those to its retries. */
  let statuses: number[] = [];

  before(async () => {
    database = await testServer();
    url = await database.createDatabase();
    relay = await Relay.open(url);
    front = await startServer({
      accounts: parseAccounts(undefined),
      engine: await openPostgresEngine({ url: relay.url, allowUnsafe: true }),
      listen: { table: { host: "127.0.0.1", port: 0 } },
    });
    const connection =
      `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};` +
      `TableEndpoint=${front.urls.table}/devstoreaccount1`;
    table = TableClient.fromConnectionString(connection, "Answers", {
      allowInsecureConnection: true,
      retryOptions: { maxRetries: 3, retryDelayInMs: 1 },
      additionalPolicies: [
        {
          position: "perRetry",
          policy: {
            name: "statuses",
            async sendRequest(request, next) {
              const response = await next(request);
              statuses.push(response.status);
              return response;
            },
          },
        },
      ],
    });
    await table.createTable();
  });
  after(async () => {
    await front.close();
    await relay.close();
    await database.dropDatabase(url);
    await database.stop();
  });
  afterEach(() => {
    relay.onAnswer = () => "pass";
  });

  /**
   * Lets the next write happen and cuts the connection that would confirm it; with `andLookUp`, the front end's
   * look-up after it fails too.
   */
  function loseAnswer({ andLookUp }: { readonly andLookUp: boolean }): void {
    statuses = [];
    let isLost = false;
    let refused: number | undefined;
    relay.onAnswer = (code, body, connection) => {
      if (connection === refused) {
        if (code !== "Z") return "swallow";
        relay.onAnswer = () => "pass";
      }
      if (code !== "C") return "pass";
      const tag = body.toString("latin1");
      if (!isLost && /^(INSERT|UPDATE|DELETE)/.test(tag)) {
        isLost = true;
        return "cut";
      }
      if (!isLost || !andLookUp || !tag.startsWith("BEGIN")) return "pass";
      refused = connection;
      return failure("55P03");
    };
  }

  const keys = (rowKey: string) => ({ partitionKey: "p", rowKey });

  it("is told immediately of an insert that the front end finds in its row", async (test) => {
    // The two seconds allowed for the look-up do not pass.
    const now = performance.now();
    test.mock.method(performance, "now", () => now);
    loseAnswer({ andLookUp: false });
    await table.createEntity({ ...keys("shown"), n: 1 });
    assert.deepEqual(statuses, [204]);
  });

  it("finds its own insert when it retries it", async () => {
    loseAnswer({ andLookUp: true });
    await assert.rejects(table.createEntity({ ...keys("inserted"), n: 1 }), statusIs(409));
    assert.deepEqual(statuses, [500, 409]);
    assert.equal((await table.getEntity("p", "inserted")).n, 1);
  });

  it("repeats an upsert whose outcome is unknown", async () => {
    loseAnswer({ andLookUp: true });
    await table.upsertEntity({ ...keys("put"), n: 1 }, "Replace");
    assert.deepEqual(statuses, [500, 204]);
    assert.equal((await table.getEntity("p", "put")).n, 1);
  });

  it("changes an entity at most once under its ETag, and finds its change", async () => {
    const { etag } = await table.createEntity({ ...keys("changed"), n: 1 });
    loseAnswer({ andLookUp: true });
    const entity = { ...keys("changed"), n: 2 };
    await assert.rejects(table.updateEntity(entity, "Replace", { etag: etag! }), statusIs(412));
    assert.deepEqual(statuses, [500, 412]);
    assert.equal((await table.getEntity("p", "changed")).n, 2);
  });

  it("finds the entity deleted when it retries a delete", async () => {
    await table.createEntity(keys("deleted"));
    loseAnswer({ andLookUp: false });
    await table.deleteEntity("p", "deleted").catch(statusIs(404));
    assert.deepEqual(statuses, [500, 404]);
    await assert.rejects(table.getEntity("p", "deleted"), statusIs(404));
  });

  it("executes a transaction at most once", async () => {
    loseAnswer({ andLookUp: true });
    const transaction = table.submitTransaction([
      ["create", { ...keys("one"), n: 1 }],
      ["create", { ...keys("two"), n: 1 }],
    ]);
    await assert.rejects(transaction, statusIs(409));
    assert.equal((await table.getEntity("p", "two")).n, 1);
  });
});

function statusIs(status: number): (error: unknown) => boolean {
  return (error) => error instanceof RestError && error.statusCode === status;
}
