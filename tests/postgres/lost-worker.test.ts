import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { RestError, TableClient } from "@azure/data-tables";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import { Relay, type Treatment } from "@rowhouse/server/engine/postgres/test-relay";
import { runAt, type TestServer, testServer } from "@rowhouse/server/engine/postgres/test-server";
import { WireWriter } from "@rowhouse/server/engine/postgres/wire-writer";
import { type RunningServer, startServer } from "@rowhouse/server/server";

/*
 * Sends a real front end, at the level of the wire, what a Citus coordinator sends when one of its workers is
 * lost: statements for the lost shard fail, over connections that stay healthy, with an error that a real
 * PostgreSQL raises in place of the statement. All other statements are answered. The front end takes the
 * server for Citus because its catalog says so.
 */

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/** Partitions whose keys contain this word are on the lost worker. */
const LOST = "lost";
const REQUEST_MS_MAX = 1_500;

/** Errors that coordinators were seen to report, and equally likely ones. */
const SAYINGS = [
  [
    "08006",
    "connection to the remote node worker2:5432 failed with the following error: server closed the connection unexpectedly",
  ],
  [
    "08006",
    "connection to the remote node worker2:5432 failed with the following error: Connection refused",
  ],
  ["57P01", "terminating connection due to administrator command"],
  ["57P03", "the database system is starting up"],
  ["53300", "connection to the remote node worker2:5432 failed: sorry, too many clients already"],
  ["55000", "prepared transactions are disabled"],
  ["XX000", "failed to execute task 3"],
] as const;

describe("A front end over Citus that lost a worker", () => {
  let database: TestServer;
  let url: string;
  let relay: Relay;
  let front: RunningServer;
  let worker: LostWorker;

  before(async () => {
    database = await testServer();
    url = await database.createDatabase();
    const plain = await openPostgresEngine({ url, allowUnsafe: true });
    await plain.close();
    await runAt(url, [
      "CREATE TABLE rh_reference (LIKE rh_kv INCLUDING ALL)",
      "INSERT INTO rh_reference SELECT * FROM rh_kv",
      "INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion) " +
        "VALUES (99999, 'citus', 10, 11, false, '13.2')",
      "CREATE TABLE said (state text, message text)",
      "CREATE FUNCTION lost_worker() RETURNS int LANGUAGE plpgsql AS $$ DECLARE s said; BEGIN " +
        "SELECT * INTO s FROM said; RAISE EXCEPTION USING ERRCODE = s.state, MESSAGE = s.message; END $$",
    ]);
    relay = await Relay.open(url);
    worker = new LostWorker(relay);
    const engine = await openPostgresEngine({
      url: relay.url,
      allowUnsafe: true,
      timeoutMs: REQUEST_MS_MAX,
    });
    assert.equal(engine.facts.dialect, "citus");
    front = await startServer({
      accounts: parseAccounts(undefined),
      engine,
      listen: { table: { host: "127.0.0.1", port: 0 } },
    });
  });
  after(async () => {
    await front.close();
    await relay.close();
    await database.dropDatabase(url);
    await database.stop();
  });
  afterEach(() => worker.comeBack());

  async function say(state: string, message: string): Promise<void> {
    await runAt(url, ["DELETE FROM said", `INSERT INTO said VALUES ('${state}', '${message}')`]);
  }

  let tables = 0;
  async function createTable(): Promise<TableClient> {
    const connection =
      `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};` +
      `TableEndpoint=${front.urls.table}/devstoreaccount1`;
    const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
    const table = TableClient.fromConnectionString(connection, `Table${tables++}`, options);
    await table.createTable();
    for (const partitionKey of ["here", LOST]) {
      await table.createEntity({ partitionKey, rowKey: "old", n: 1 });
    }
    return table;
  }

  for (const [state, message] of SAYINGS) {
    it(`refuses requests for the lost shard with 503, serves the others and recovers: ${state}, ${message.slice(-40)}`, async () => {
      const table = await createTable();
      await say(state, message);
      worker.leave();

      const isLost = (request: Promise<unknown>) => assertAnswers(request, [503]);
      const refused = Promise.all([
        isLost(table.getEntity(LOST, "old")),
        isLost(list(table, `PartitionKey eq '${LOST}'`)),
        // Neither a part of the table nor an empty list.
        isLost(list(table)),
        isLost(
          table.submitTransaction([
            ["create", { partitionKey: LOST, rowKey: "a" }],
            ["create", { partitionKey: LOST, rowKey: "b" }],
          ]),
        ),
        // A statement that commits by itself may have been executed by the worker: 500 means that the outcome
        // is unknown.
        assertAnswers(table.createEntity({ partitionKey: LOST, rowKey: "new" }), [503, 500]),
      ]);
      // Meanwhile, over the same connections.
      for (let n = 0; n < 20; n++) {
        await table.upsertEntity({ partitionKey: "here", rowKey: "new", n }, "Replace");
        assert.equal((await table.getEntity("here", "new")).n, n);
        assert.equal((await list(table, "PartitionKey eq 'here'")).length, 2);
        await table.submitTransaction([
          ["upsert", { partitionKey: "here", rowKey: "new", n }, "Replace"],
          ["upsert", { partitionKey: "here", rowKey: "old", n }, "Replace"],
        ]);
      }
      await refused;

      worker.comeBack();
      assert.equal((await table.getEntity(LOST, "old")).n, 1);
      assert.deepEqual((await list(table)).sort(), ["here/new", "here/old", "lost/old"]);
      await table.createEntity({ partitionKey: LOST, rowKey: "new" });
      await table.submitTransaction([
        ["create", { partitionKey: LOST, rowKey: "a" }],
        ["upsert", { partitionKey: LOST, rowKey: "old", n: 2 }, "Replace"],
      ]);
      assert.equal((await list(table)).length, 5);
    });
  }

  for (const isDone of [true, false]) {
    it(`answers 500 to a COMMIT that failed and was ${isDone ? "" : "not "}done, and does not repeat it`, async () => {
      const table = await createTable();
      await say(...SAYINGS[0]);
      worker.leaveAtCommit(isDone);
      const outcome = table.submitTransaction([
        ["create", { partitionKey: LOST, rowKey: "a" }],
        ["create", { partitionKey: LOST, rowKey: "b" }],
      ]);
      await assertAnswers(outcome, [500]);
      assert.equal(worker.commits, 1);
      worker.comeBack();
      const found = isDone ? ["lost/a", "lost/b"] : [];
      assert.deepEqual(await list(table, `PartitionKey eq '${LOST}' and RowKey lt 'o'`), found);
    });
  }
});

/** Replaces statements with an error. */
class LostWorker {
  /** Transactions on the lost shard whose COMMIT was sent. */
  commits = 0;
  readonly #greeted = new Set<number>();
  /** Connections that have not yet answered our own Parse. */
  readonly #preparing = new Set<number>();
  /** Connections whose transaction has reached the lost shard. */
  readonly #touched = new Set<number>();
  /** Connections whose COMMIT was executed and must not be confirmed. */
  readonly #committing = new Set<number>();
  readonly #raise: Buffer;
  readonly #prepare: Buffer;
  readonly #execute: Buffer;
  #state: "here" | "away" | "away at COMMIT" | "away after COMMIT" = "here";

  constructor(relay: Relay) {
    const writer = new WireWriter();
    writer.parse("lost", "SELECT lost_worker()", []);
    this.#prepare = Buffer.from(writer.take());
    writer.beginBind("lost", 0);
    writer.endBind(1);
    this.#raise = Buffer.from(writer.take());
    writer.execute();
    this.#execute = Buffer.from(writer.take());
    relay.onRequest = (message, connection) => this.#request(message, connection);
    relay.onAnswer = (code, body, connection) => this.#answer(code, body, connection);
  }

  leave(): void {
    this.#state = "away";
  }

  leaveAtCommit(isDone: boolean): void {
    this.commits = 0;
    this.#state = isDone ? "away after COMMIT" : "away at COMMIT";
  }

  comeBack(): void {
    this.#state = "here";
  }

  #request(message: Buffer, connection: number): Buffer {
    const code = String.fromCharCode(message[0]!);
    if (code === "P" && !this.#greeted.has(connection)) {
      this.#greeted.add(connection);
      this.#preparing.add(connection);
      return Buffer.concat([this.#prepare, message]);
    }
    if (code !== "B" || this.#state === "here") return message;
    // After the portal's name, which is empty.
    const statement = message.toString("latin1", 6, message.indexOf(0, 6));
    const asksAll = /^rh_(scan_across|page_end)/.test(statement);
    const asksLost = message.includes(LOST);
    if (this.#state === "away") return asksLost || asksAll ? this.#raise : message;
    if (asksLost && /^rh_(insert|upsert)/.test(statement)) this.#touched.add(connection);
    if (statement !== "rh_commit" || !this.#touched.delete(connection)) return message;
    this.commits++;
    const isDone = this.#state === "away after COMMIT";
    this.#state = "away";
    if (!isDone) return this.#raise;
    this.#committing.add(connection);
    return Buffer.concat([message, this.#execute, this.#raise]);
  }

  #answer(code: string, body: Buffer, connection: number): Treatment {
    // The front end does not expect the answer to our own Parse, the first of each connection.
    if (code === "1" && this.#preparing.delete(connection)) return "swallow";
    const isCommitted = code === "C" && body.toString("latin1").startsWith("COMMIT");
    return isCommitted && this.#committing.delete(connection) ? "swallow" : "pass";
  }
}

async function list(table: TableClient, filter?: string): Promise<string[]> {
  const found: string[] = [];
  const queryOptions = filter === undefined ? {} : { filter };
  for await (const { partitionKey, rowKey } of table.listEntities({ queryOptions })) {
    found.push(`${partitionKey}/${rowKey}`);
  }
  return found;
}

async function assertAnswers(request: Promise<unknown>, statuses: readonly number[]) {
  await assert.rejects(request, (error) => {
    assert.ok(error instanceof RestError, String(error));
    assert.ok(statuses.includes(error.statusCode ?? 0), `${error.statusCode}: ${error.message}`);
    return true;
  });
}
