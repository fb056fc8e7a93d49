import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { installPostgres } from "./administer.ts";
import { parsePostgresUrl } from "./config.ts";
import { Connector } from "./connector.ts";
import { PostgresEngine } from "./postgres-engine.ts";
import { type Dialect, readServerFacts } from "./server-facts.ts";
import { Relay } from "./test-relay.ts";
import { runAt, type TestServer, testServer } from "./test-server.ts";
import { commit, keyOf } from "./test-workloads.ts";

describe("An operation takes one round trip", () => {
  let server: TestServer;
  let url: string;
  let relay: Relay;
  let syncs = 0;

  before(async () => {
    server = await testServer();
    url = await server.createDatabase();
    await installPostgres({ url, apply: true });
    await runAt(url, ["CREATE TABLE rh_reference (LIKE rh_kv INCLUDING ALL)"]);
    relay = await Relay.open(url);
    relay.onRequest = (message) => {
      if (message[0] === "S".charCodeAt(0)) syncs++;
      return message;
    };
  });
  after(async () => {
    await relay.close();
    await server.dropDatabase(url);
    await server.stop();
  });

  async function openAs(dialect: Dialect) {
    const access = { preparedStatements: true, settings: [], allowUnsafe: true };
    const connector = new Connector(parsePostgresUrl(relay.url), access);
    const session = await connector.connect();
    const facts = { ...(await readServerFacts(session)), dialect };
    const timeoutMs = 20_000;
    const engine = new PostgresEngine({ connector, session, facts, isSealed: false, timeoutMs });
    return { engine, session };
  }

  // The forms for Citus are right on any server; how it answers is not needed to count what it is asked.
  for (const dialect of ["postgres", "citus"] satisfies Dialect[]) {
    it(`with the statements for ${dialect}`, async () => {
      const { engine } = await openAs(dialect);
      const name = keyOf("\x10", dialect);
      const [a, b, c] = ["a", "b", "c"].map((sort) => keyOf(`\x11${dialect}`, sort));
      // Opens the connections that write.
      assert.ok(
        await commit(engine, {
          puts: [
            [name, "table"],
            [a!, "x"],
          ],
        }),
      );
      const trips = async (what: string, run: () => Promise<unknown>) => {
        syncs = 0;
        await run();
        assert.equal(syncs, 1, what);
      };
      await trips("an entity with its table", () => engine.get([name, a!]));
      await trips("entities of a partition", () => engine.get([a!, b!, c!]));
      await trips("an insert", () =>
        commit(engine, { checks: [{ key: b!, expected: "absent" }], puts: [[b!, "x"]] }),
      );
      const version = (await engine.get([name]))[0]!.version;
      const premise = { key: name, version, isLoose: true } as const;
      await trips("an upsert that looks at its table", () => {
        const put = { key: a!, value: Buffer.from("x") };
        const write = { version: engine.nextVersion(), checks: [], puts: [put], deletes: [] };
        return engine.commit({ ...write, premise });
      });
      await trips("a transaction of all kinds of writes", () =>
        commit(engine, {
          checks: [
            { key: a!, expected: "present" },
            { key: c!, expected: "absent" },
          ],
          puts: [
            [a!, "y"],
            [c!, "y"],
          ],
          deletes: [b!],
        }),
      );
      await trips("a transaction that checks its table", () =>
        commit(engine, {
          checks: [{ key: name, expected: "present" }],
          puts: [
            [a!, "z"],
            [c!, "z"],
          ],
        }),
      );
      await engine.close();
    });
  }

  it("for a name and an entity, of which the node's own copy has the name, and goes on without that copy", async () => {
    const name = keyOf("\x10", "copied");
    const entity = keyOf("\x11copied", "e");
    await runAt(url, [
      "CREATE TABLE rh_reference_7 (LIKE rh_kv INCLUDING ALL)",
      "INSERT INTO rh_reference_7 VALUES ('\\x10', 'copied', 5, 'x')",
    ]);
    const { engine, session } = await openAs("citus");
    session.copyOfNames = "rh_reference_7";
    const versions = async () => (await engine.get([name, entity])).map((entry) => entry?.version);
    syncs = 0;
    assert.deepEqual(await versions(), [5, undefined]);
    assert.equal(syncs, 1);
    await runAt(url, ["DROP TABLE rh_reference_7"]);
    await assert.rejects(versions(), /rh_reference_7/);
    assert.deepEqual(await versions(), [undefined, undefined]);
    await engine.close();
  });
});
