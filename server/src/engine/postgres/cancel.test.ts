import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { EngineError } from "../engine.ts";
import { partitionRange } from "../key-codec.ts";
import { requestCancel } from "./cancel.ts";
import type { PostgresConfig } from "./config.ts";
import { connect } from "./connect.ts";
import { openPostgresEngine, type PostgresEngine } from "./postgres-engine.ts";
import type { Session } from "./session.ts";
import { ServerError } from "./sql-state.ts";
import { textQuery } from "./statements.ts";
import { selfSignedCertificate } from "./test-certificate.ts";
import { LocalServer } from "./test-server.ts";
import { commit, keyOf, textOf } from "./test-workloads.ts";

const TLS_HANDSHAKE = 0x16;
/** Long enough to observe waiting calls on a busy machine, where a connection takes most of a second. */
const CALL_MS_MAX = 4_000;

describe("A read of PostgreSQL that takes too long", () => {
  const { cert, key } = selfSignedCertificate("localhost");
  let server: LocalServer;

  before(async () => {
    server = await LocalServer.create();
    server.writeFile("server.crt", cert);
    server.writeFile("server.key", key);
    server.configure({ ssl: "on" });
    await server.start();
  });
  after(() => server.remove());

  const plain: PostgresConfig = { hosts: [], database: "postgres", user: "postgres" };
  const connections: readonly [name: string, config: PostgresConfig][] = [
    ["plain text", { ...plain, tls: "disable" }],
    ["verified TLS", { ...plain, tls: "verify-full", certificateAuthority: cert }],
  ];
  for (const [name, config] of connections) {
    it(`is canceled on the server, over ${name}`, async () => {
      const host = { host: "localhost", port: server.port };
      const { session } = await connect(config, host, { preparedStatements: true, settings: [] });
      const reading = slowRead(session);
      await becomes(() => countBackends("query LIKE '%pg_sleep(100)' AND state = 'active'"), 1);
      session.giveUpIfOverdue(performance.now());
      await assert.rejects(
        reading,
        (error) => error instanceof ServerError && error.sqlState === "57014",
      );
      assert.equal(session.isLost, true);
      await becomes(() => countBackends("application_name = 'rowhouse'"), 0);
    });
  }

  it("is canceled even on a server that takes seconds to answer a new connection, within five seconds", async (test) => {
    const busy = createServer();
    await once(busy.listen(0, "127.0.0.1"), "listening");
    const { port } = busy.address() as AddressInfo;
    test.mock.timers.enable({ apis: ["setTimeout"] });
    const config = { ...plain, tls: "require" as const };
    requestCancel(config, { host: "127.0.0.1", port }, { processID: 1, secretKey: 2 });
    const [asked]: Socket[] = await once(busy, "connection");
    await once(asked!, "data");
    test.mock.timers.tick(4_999);
    asked!.write("S");
    const [hello]: Buffer[] = await once(asked!, "data");
    assert.equal(hello![0], TLS_HANDSHAKE);
    test.mock.timers.tick(1);
    await once(
      asked!.on("error", () => {}),
      "close",
    );
    busy.close();
  });

  it("fails in time, and leaves no waiting backend behind", () =>
    withLockedTable(async (engine) => {
      const range = partitionRange(Buffer.from("p"));
      const reads = [engine.get([keyOf("p", "a")]), engine.scan(range, () => true)];
      // Together: they are refused in either order, and while the test checks that they wait.
      const refused = isEngineError("Unavailable");
      const refusals = Promise.all(reads.map((read) => assert.rejects(async () => read, refused)));
      await becomes(() => countBackends("wait_event_type = 'Lock'"), 2);
      await refusals;
      await becomes(() => countBackends("wait_event_type = 'Lock'"), 0);
    }));

  it("differs from a commit, which continues and whose outcome is unknown", () =>
    withLockedTable(async (engine, unlock) => {
      const at = keyOf("p", "a");
      await assert.rejects(commit(engine, { puts: [[at, "x"]] }), isEngineError("Unknown"));
      assert.ok((await countBackends("wait_event_type = 'Lock'")) > 0);
      await unlock();
      await becomes(async () => textOf((await engine.get([at]))[0]) ?? "absent", "x");
    }));

  /** With an engine whose session settings do not help: as behind a pooler, only time ends a call. */
  async function withLockedTable(
    test: (engine: PostgresEngine, unlock: () => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const url = await server.createDatabase();
    const engine = await openPostgresEngine({
      url,
      preparedStatements: false,
      timeoutMs: CALL_MS_MAX,
    });
    const rival = new pg.Client({ connectionString: url });
    await rival.connect();
    await rival.query("BEGIN; LOCK TABLE rh_kv IN ACCESS EXCLUSIVE MODE");
    try {
      await test(engine, async () => void (await rival.query("COMMIT")));
    } finally {
      await rival.end();
      await engine.close();
      await server.dropDatabase(url);
    }
  }

  async function countBackends(condition: string): Promise<number> {
    const [row] = await server.run(
      `SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND ${condition}`,
    );
    return Number(row![0]);
  }
});

function slowRead(session: Session): Promise<void> {
  return new Promise((resolve, reject) => {
    let failure: Error | undefined;
    session.begin({
      deadline: performance.now(),
      isRead: true,
      row() {},
      complete() {},
      failed(error) {
        failure = error;
      },
      ready: () => (failure ? reject(failure) : resolve()),
      lost: (error) => reject(failure ?? error),
    });
    session.bind(textQuery("SELECT pg_sleep(100)"));
    session.execute();
    session.sync();
  });
}

async function becomes<T>(read: () => Promise<T>, expected: T): Promise<void> {
  const until = performance.now() + 20_000;
  for (let now = await read(); now !== expected; now = await read()) {
    assert.ok(performance.now() < until, `${now} did not become ${expected}.`);
  }
}

function isEngineError(code: EngineError["code"]) {
  return (error: unknown) => error instanceof EngineError && error.code === code;
}
