import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type Clock, systemClock } from "../../clock.ts";
import { testEngineConformance } from "../conformance.ts";
import { RAISED_BY_MAX } from "../version-clock.ts";
import { installPostgres } from "./administer.ts";
import { parsePostgresUrl } from "./config.ts";
import { Connector } from "./connector.ts";
import {
  openPostgresEngine,
  PostgresEngine,
  type PostgresEngineOptions,
} from "./postgres-engine.ts";
import { readServerFacts } from "./server-facts.ts";
import { asDocumentedRole, runAt, type TestServer, testServer } from "./test-server.ts";
import { commit, keyOf, textOf } from "./test-workloads.ts";

let server: TestServer;
/** One database for all; each test begins with an empty table. */
let url: string;

before(async () => {
  server = await testServer();
  url = await server.createDatabase();
  await installPostgres({ url, apply: true });
});
after(async () => {
  await server.dropDatabase(url);
  await server.stop();
});

/** For clocks that tests set: engines must be correct with any of them. */
const clockSkewMsMax = Number.POSITIVE_INFINITY;

const DROP = "DROP TABLE IF EXISTS rh_kv";

/** Empties the table for the next test, which is faster than creating it again. */
async function clear(): Promise<void> {
  await runAt(url, ["DELETE FROM rh_kv WHERE ver > 0"]);
}

/** Creates or empties the second table that a cluster has. */
async function clearReference(): Promise<void> {
  await runAt(url, [
    "CREATE TABLE IF NOT EXISTS rh_reference (LIKE rh_kv INCLUDING ALL)",
    "DELETE FROM rh_reference",
  ]);
}

let restricted: string | undefined;

/** With the rights of the documented role, because whoever has more can do what it can. */
testEngineConformance({
  name: "PostgresEngine as the role that the manual describes",
  async open({ clock }) {
    await clear();
    restricted ??= await asDocumentedRole(url);
    return openPostgresEngine(restrictedOptions(restricted, clock));
  },
  reopen: async (_closed, { clock }) => {
    assert.ok(restricted, "nothing was opened before");
    return openPostgresEngine(restrictedOptions(restricted, clock));
  },
});

function restrictedOptions(url: string, clock: Clock): PostgresEngineOptions {
  return { allowUnsafe: true, url, install: false, clock, clockSkewMsMax };
}

/*
 * The forms for Citus are correct on any server, only slower; and behind a pooler in transaction mode nothing
 * may be prepared. Both are tested at once, because the forms and their names do not interact.
 */
testEngineConformance({
  name: "PostgresEngine with the statements for Citus, as behind a pooler,",
  async open({ clock }) {
    await clear();
    await clearReference();
    const options = { clock, timeoutMs: 20_000 };
    const access = { preparedStatements: false, settings: [], allowUnsafe: true };
    const connector = new Connector(parsePostgresUrl(url), access);
    const session = await connector.connect();
    const facts = await readServerFacts(session);
    return new PostgresEngine({
      ...options,
      connector,
      session,
      isSealed: true,
      facts: { ...facts, dialect: "citus" },
    });
  },
});

describe("Two PostgresEngines on one database", () => {
  it("may install the schema at the same time", async () => {
    await runAt(url, [DROP]);
    const engines = await Promise.all(
      Array.from({ length: 4 }, () => openPostgresEngine({ allowUnsafe: true, url })),
    );
    for (const engine of engines) await engine.close();
  });

  it("see each other's commits at once, and can continue each other's scans", async () => {
    const [left, right] = [
      await openPostgresEngine({ allowUnsafe: true, url }),
      await openPostgresEngine({ allowUnsafe: true, url }),
    ];
    const keys = ["a", "b", "c"].map((sort) => keyOf("shared", sort));
    for (const [index, key] of keys.entries()) {
      await commit(index % 2 === 0 ? left : right, { puts: [[key, `${index}`]] });
      const reader = index % 2 === 0 ? right : left;
      assert.equal(textOf((await reader.get([key]))[0]), `${index}`);
    }
    const seen: string[] = [];
    await left.scan({ start: keys[0]! }, (entry) => {
      seen.push(`${textOf(entry)}`);
      return false;
    });
    await right.scan({ start: keys[1]!, end: keyOf("shared", "z") }, (entry) => {
      seen.push(`${textOf(entry)}`);
      return true;
    });
    assert.deepEqual(seen, ["0", "1", "2"]);
    await left.close();
    await right.close();
  });

  it("start their versions at different digits, and near the server's clock when their own is behind", async () => {
    const stopped = { now: () => 1_000 };
    const engines = await Promise.all(
      Array.from({ length: 8 }, () =>
        openPostgresEngine({ allowUnsafe: true, url, clock: stopped, clockSkewMsMax }),
      ),
    );
    const yesterday = (systemClock.now() - 86_400_000) * 1000;
    for (const engine of engines) assert.ok(engine.nextVersion() > yesterday);
    const ahead = { now: () => systemClock.now() + 3_600_000 };
    const early = await Promise.all(
      Array.from({ length: 8 }, () =>
        openPostgresEngine({ allowUnsafe: true, url, clock: ahead, clockSkewMsMax }),
      ),
    );
    const digits = new Set(early.map((engine) => engine.nextVersion() % 1000));
    assert.ok(digits.size > 1, `All engines started at digit ${[...digits]}.`);
    for (const engine of [...engines, ...early]) await engine.close();
  });

  it("raise a version above one written by a front end with a clock ahead", async () => {
    const ahead = { now: () => systemClock.now() + 3_600_000 };
    const [fast, slow] = [
      await openPostgresEngine({ allowUnsafe: true, url, clock: ahead, clockSkewMsMax }),
      await openPostgresEngine({ allowUnsafe: true, url }),
    ];
    const keys = ["one", "many1", "many2"].map((sort) => keyOf("ahead", sort));
    await commit(fast, { puts: keys.map((key) => [key, "fast"] as const) });
    const version = slow.nextVersion();
    const before = (await slow.get(keys)).map((entry) => entry!.version);
    assert.ok(slow.nextVersion() > Math.max(...before), "The version is not above those read.");
    const value = Buffer.from("slow");
    const put = (index: number) => ({ key: keys[index]!, value });
    const one = await slow.commit({ version, checks: [], puts: [put(0)], deletes: [] });
    const many = await slow.commit({
      version,
      checks: [{ key: keys[1]!, expected: before[1]! }],
      puts: [put(1), put(2)],
      deletes: [],
    });
    assert.ok(one.committed && many.committed);
    const raised = [...one.versions, ...many.versions];
    for (const [index, each] of raised.entries()) {
      assert.ok(each > before[index]!, "The version was not raised above the existing one.");
      assert.ok(each <= before[index]! + RAISED_BY_MAX, "The version was raised too far.");
      assert.equal(
        (each - version) % RAISED_BY_MAX,
        0,
        "The version has another front end's digit.",
      );
    }
    const stored = (await fast.get(keys)).map((entry) => entry!.version);
    assert.deepEqual(stored, raised);
    await fast.close();
    await slow.close();
  });
});

describe("A PostgresEngine", () => {
  it("refuses to open when its clock is more than a minute from the server's", async () => {
    const openAhead = (seconds: number) => {
      const clock = { now: () => systemClock.now() + seconds * 1000 };
      return openPostgresEngine({ allowUnsafe: true, url, clock });
    };
    const askedAt = performance.now();
    await assert.rejects(openAhead(90), ({ message }: Error) => {
      const [, seconds] =
        /clock is (\d+) s ahead of the database server's; at most 60 s are allowed.*engine check/.exec(
          message,
        ) ?? [];
      // The server's time is older by as long as its answer took.
      const tookSeconds = (performance.now() - askedAt) / 1000;
      assert.ok(Number(seconds) >= 89 && Number(seconds) <= 91 + tookSeconds, message);
      return true;
    });
    await assert.rejects(openAhead(-3600), /clock is 36\d\d s behind the database server's/);
    for (const seconds of [-30, 30]) await (await openAhead(seconds)).close();
  });

  it("hides its format row from get, and refuses to write it", async () => {
    const engine = await openPostgresEngine({ allowUnsafe: true, url });
    const own = keyOf("", "schema");
    assert.deepEqual(await engine.get([own]), [undefined]);
    assert.deepEqual(await engine.get([own, keyOf("x", "y")]), [undefined, undefined]);
    assert.deepEqual(await engine.get([own, keyOf("", "y"), keyOf("x", "z")]), [
      undefined,
      undefined,
      undefined,
    ]);
    await assert.rejects(commit(engine, { puts: [[own, "x"]] }), RangeError);
    await assert.rejects(commit(engine, { deletes: [own] }), RangeError);
    await engine.close();
  });

  it("reports that it is ready and its durability class, until it is closed", async () => {
    const engine = await openPostgresEngine({ allowUnsafe: true, url });
    const health = await engine.health();
    assert.equal(health.ready, true);
    assert.equal(health.durabilityClass, engine.durability.class);
    await engine.close();
    assert.equal((await engine.health()).ready, false);
  });

  it("returns the first failed check of contradictory ones", async () => {
    const engine = await openPostgresEngine({ allowUnsafe: true, url });
    const key = keyOf("contradiction", "a");
    const write = (checks: readonly ("absent" | "present" | number)[]) =>
      engine.commit({
        version: engine.nextVersion(),
        checks: checks.map((expected) => ({ key, expected })),
        puts: [{ key, value: Buffer.from("x") }],
        deletes: [],
      });
    assert.deepEqual(await write(["absent", "present"]), { committed: false, failedCheck: 1 });
    assert.deepEqual(await write(["present", "absent"]), { committed: false, failedCheck: 0 });
    await write([]);
    assert.deepEqual(await write(["absent", "present"]), { committed: false, failedCheck: 0 });
    assert.deepEqual(await write([1, 2]), { committed: false, failedCheck: 0 });
    await engine.close();
  });

  it("accepts more rows in one commit than one VALUES list may have", async () => {
    const engine = await openPostgresEngine({ allowUnsafe: true, url });
    const keys = Array.from({ length: 2500 }, (_, index) => keyOf("rows", `${index}`));
    assert.ok(await commit(engine, { puts: keys.map((key) => [key, "x"] as const) }));
    assert.ok(
      await commit(engine, {
        checks: keys.map((key) => ({ key, expected: "present" as const })),
        deletes: keys,
      }),
    );
    assert.ok((await engine.get(keys)).every((entry) => entry === undefined));
    await engine.close();
  });
});
