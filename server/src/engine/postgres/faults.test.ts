import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { EngineError } from "../engine.ts";
import { parsePostgresUrl } from "./config.ts";
import { connect } from "./connect.ts";
import { openPostgresEngine, type PostgresEngine } from "./postgres-engine.ts";
import { queryAll } from "./query.ts";
import { BEGIN, COMMIT, textQuery } from "./statements.ts";
import { Ledger } from "./test-ledger.ts";
import { LocalServer, runAt } from "./test-server.ts";
import { commit, keyOf, scanPartition, textOf } from "./test-workloads.ts";

/**
 * How long calls wait for a server that does not answer; one that does must answer sooner, even on a busy machine.
 */
const AWAY_MS_MAX = 2_000;

describe("An engine whose PostgreSQL server fails", () => {
  let server: LocalServer;
  let url: string;
  let engine: PostgresEngine;

  before(async () => {
    server = await LocalServer.create();
    await server.start();
    url = await server.createDatabase();
    engine = await openPostgresEngine({ checksums: false, url });
  });
  after(async () => {
    await engine.close();
    await server.remove();
  });

  it("writes nothing of a group whose BEGIN failed", async () => {
    const config = parsePostgresUrl(url);
    const { session } = await connect(config, config.hosts[0]!, {
      preparedStatements: true,
      settings: [],
    });
    const insert = (sort: string) => ({
      statement: textQuery(`INSERT INTO rh_kv VALUES ('begin', '${sort}', 1, 'x')`),
    });
    const group = [insert("a"), insert("b"), { statement: COMMIT }];
    await assert.rejects(
      queryAll(session, [{ statement: textQuery("BEGIN ISOLATION LEVEL NONE") }, ...group]),
    );
    assert.deepEqual(await scanPartition(engine, "begin"), []);
    // The same group with a BEGIN that works, over the same connection.
    await queryAll(session, [{ statement: BEGIN }, ...group]);
    assert.deepEqual(await scanPartition(engine, "begin"), ["a=x", "b=x"]);
    session.close();
  });

  it("serves nothing more once the server reports damaged data, and says so in its errors and health", async () => {
    const damaged = await openPostgresEngine({ checksums: false, url });
    await commit(damaged, { puts: [[keyOf("damage", "a"), "x"]] });
    await runAt(url, [
      "CREATE FUNCTION damage() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'page 7' USING ERRCODE = 'XX001'; END $$",
      "CREATE TRIGGER damage BEFORE INSERT ON rh_kv EXECUTE FUNCTION damage()",
    ]);
    const isCorrupt = (error: unknown) =>
      error instanceof EngineError && error.code === "Corrupt" && /page 7/.test(error.message);
    await assert.rejects(commit(damaged, { puts: [[keyOf("damage", "b"), "x"]] }), isCorrupt);
    await runAt(url, ["DROP TRIGGER damage ON rh_kv"]);
    await assert.rejects(async () => damaged.get([keyOf("damage", "a")]), isCorrupt);
    const { ready, detail } = await damaged.health();
    assert.equal(ready, false);
    assert.match(detail, /page 7/);
    await damaged.close();
    assert.equal(textOf((await engine.get([keyOf("damage", "a")]))[0]), "x");
  });

  it("reports every commit's outcome correctly while backends are terminated", async () => {
    const ledger = new Ledger("terminated");
    const writing = ledger.write([engine], 8);
    const end = performance.now() + 1500;
    while (performance.now() < end) {
      await runAt(server.url(), [
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rowhouse' AND random() < 0.3",
      ]);
    }
    ledger.close();
    await writing;
    assert.ok(ledger.count("committed") > 0);
    await ledger.verify(engine);
  });

  it("repeats reads whose backends are terminated", async () => {
    const key = keyOf("reads", "a");
    await commit(engine, { puts: [[key, "here"]] });
    let isOver = false;
    const reading = (async () => {
      let count = 0;
      while (!isOver) {
        const [[entry], scanned] = await Promise.all([
          engine.get([key]),
          scanPartition(engine, "reads"),
        ]);
        assert.equal(textOf(entry), "here");
        assert.deepEqual(scanned, ["a=here"]);
        count++;
      }
      return count;
    })();
    for (let round = 0; round < 10; round++) {
      await runAt(server.url(), [
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rowhouse'",
      ]);
    }
    isOver = true;
    assert.ok((await reading) > 0);
  });

  it("loses nothing when the server crashes, and serves again without a restart", async () => {
    const ledger = new Ledger("crashed");
    const writing = ledger.write([engine], 8);
    for (let crash = 0; crash < 2; crash++) {
      await untilOrEnd(writing, () => ledger.count("committed") > 50 * (crash + 1));
      await server.stop("immediate");
      await server.start();
    }
    const before = ledger.count("committed");
    await untilOrEnd(writing, () => ledger.count("committed") > before + 10);
    ledger.close();
    await writing;
    await ledger.verify(engine);
  });

  it("fails calls as Unavailable and is not ready while the server is down", async () => {
    const impatient = await openPostgresEngine({ checksums: false, url, timeoutMs: AWAY_MS_MAX });
    const key = keyOf("away", "a");
    assert.equal((await impatient.health()).ready, true);
    await server.stop("fast");
    try {
      const isUnavailable = (error: unknown) =>
        error instanceof EngineError && error.code === "Unavailable";
      const [health] = await Promise.all([
        impatient.health(),
        assert.rejects(impatient.get([key]), isUnavailable),
        assert.rejects(scanPartition(impatient, "away"), isUnavailable),
        assert.rejects(commit(impatient, { puts: [[key, "x"]] }), isUnavailable),
      ]);
      assert.equal(health.ready, false);
      assert.match(health.detail, /cannot be reached|ECONNREFUSED/);
    } finally {
      await server.start();
    }
    await until(async () => (await impatient.health()).ready);
    assert.deepEqual(await impatient.get([key]), [undefined]);
    await impatient.close();
  });

  it("refuses to open a database that may lose acknowledged writes, unless allowUnsafe is set", async () => {
    const unsafe = await server.createDatabase();
    const name = new URL(unsafe).pathname.slice(1);
    await server.run(`ALTER DATABASE ${name} SET synchronous_commit = 'off'`);
    await assert.rejects(
      openPostgresEngine({ checksums: false, url: unsafe }),
      (error) => error instanceof EngineError && /synchronous_commit is off/.test(error.message),
    );
    const allowed = await openPostgresEngine({ checksums: false, url: unsafe, allowUnsafe: true });
    assert.equal((await allowed.health()).durabilityClass, "none");
    await allowed.close();
  });

  it("refuses to open a database whose table is UNLOGGED", async () => {
    const unlogged = await server.createDatabase();
    await (await openPostgresEngine({ checksums: false, url: unlogged })).close();
    await runAt(unlogged, ["ALTER TABLE rh_kv SET UNLOGGED"]);
    await assert.rejects(
      openPostgresEngine({ checksums: false, url: unlogged }),
      /rh_kv is UNLOGGED/,
    );
  });

  it("accepts no new connection after the server has become unsafe", async () => {
    const later = await server.createDatabase();
    const careful = await openPostgresEngine({
      checksums: false,
      url: later,
      timeoutMs: AWAY_MS_MAX,
    });
    const name = new URL(later).pathname.slice(1);
    await server.run(`ALTER DATABASE ${name} SET synchronous_commit = 'off'`);
    await assert.rejects(
      commit(careful, { puts: [[keyOf("later", "a"), "x"]] }),
      (error) => error instanceof EngineError && /would lose acknowledged/.test(error.message),
    );
    assert.equal((await careful.health()).ready, false);
    await careful.close();
  });
});

describe("An engine over a primary with a synchronous standby", () => {
  let primary: LocalServer;
  let standby: LocalServer;
  let engines: PostgresEngine[];
  let urls: string;

  before(async () => {
    primary = await LocalServer.create();
    await primary.start();
    await primary.run(`CREATE DATABASE store`);
    await primary.stop();
    standby = await primary.copy();
    standby.becomeStandbyOf(primary, "second");
    primary.configure({ synchronous_standby_names: "ANY 1 (second)" });
    await primary.start();
    await standby.start();
    urls = `postgres://postgres@127.0.0.1:${standby.port},127.0.0.1:${primary.port}/store`;
    engines = [
      await openPostgresEngine({ checksums: false, url: urls }),
      await openPostgresEngine({ checksums: false, url: urls }),
    ];
  });
  after(async () => {
    for (const engine of engines) await engine.close();
    await primary.remove();
    await standby.remove();
  });

  it("finds the primary after the standby in its URL, and reports the durability class", async () => {
    const health = await engines[0]!.health();
    assert.deepEqual([health.ready, health.durabilityClass], [true, "two machines"]);
  });

  it("reports a write as Unknown when its wait for the standby was canceled", async () => {
    await standby.stop();
    const key = keyOf("sync", "a");
    const outcome = assert.rejects(
      commit(engines[0]!, { puts: [[key, "x"]] }),
      (error) => error instanceof EngineError && error.code === "Unknown",
    );
    await until(async () => {
      const rows = await primary.run(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
      );
      return rows.length > 0;
    });
    await outcome;
    await standby.start();
  });

  it("opens no more connections than writersMax while commits wait for a standby that is down", async () => {
    const waitingCommits = async () => {
      const counting = "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
      return (await primary.run(counting))[0]?.[0];
    };
    await until(async () => (await waitingCommits()) === 0);
    await standby.stop();
    const writersMax = 2;
    const impatient = await openPostgresEngine({
      checksums: false,
      url: urls,
      timeoutMs: AWAY_MS_MAX,
      writersMax,
    });
    const put = (sort: string) =>
      commit(impatient, {
        puts: ["1", "2"].map((end) => [keyOf("room", sort + end), "x"] as const),
      });
    const isRefused = (code: string, pattern: RegExp) => (error: unknown) =>
      error instanceof EngineError && error.code === code && pattern.test(error.message);
    const isGivenUp = isRefused("Unknown", /did not answer in time/);
    await Promise.all(["a", "b"].map((sort) => assert.rejects(put(sort), isGivenUp)));
    await assert.rejects(put("c"), isRefused("Unavailable", /2 connections that were given up/));
    assert.equal(await waitingCommits(), writersMax);
    await standby.start();
    await until(() => put("d").catch(() => false));
    const sorts = ["a1=x", "a2=x", "b1=x", "b2=x", "d1=x", "d2=x"];
    assert.deepEqual(await scanPartition(impatient, "room"), sorts);
    await impatient.close();
  });

  it("loses no acknowledged write when the standby takes over", async () => {
    const ledger = new Ledger("promoted");
    const writing = ledger.write(engines, 8);
    await untilOrEnd(writing, () => ledger.count("committed") > 50);
    await primary.stop("immediate");
    await standby.run("SELECT pg_promote()");
    const before = ledger.count("committed");
    await untilOrEnd(writing, () => ledger.count("committed") > before + 50);
    ledger.close();
    await writing;
    for (const engine of engines) await ledger.verify(engine);
  });

  it("is kept from the former primary when that is back, writable and first in the list", async () => {
    primary.configure({ synchronous_standby_names: "" });
    await primary.start();
    const formerFirst = `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/store`;
    const late = await openPostgresEngine({ url: formerFirst, timeoutMs: AWAY_MS_MAX });
    assert.equal(await commit(late, { puts: [[keyOf("fenced", "a"), "new"]] }), true);
    const inNew = "SELECT count(*)::int FROM rh_kv WHERE pk = 'fenced'";
    assert.deepEqual(await primary.runIn("store", inNew), [[0]]);
    assert.deepEqual(await standby.runIn("store", inNew), [[1]]);
    await standby.stop();
    await assert.rejects(
      async () => late.get([keyOf("fenced", "a")]),
      (error) => error instanceof EngineError && error.code === "Unavailable",
    );
    await until(async () =>
      /former primary: it is on timeline 1/.test((await late.health()).detail),
    );
    await standby.start();
    await until(async () => (await late.health()).ready);
    await late.close();
  });

  it("refuses writes while the server keeps less than is required, and says so", async () => {
    const open = (requireDurability: "standby" | "majority") => {
      const heard: string[] = [];
      const onDurability = ({ class: now }: { class: string }) => void heard.push(now);
      const opening = openPostgresEngine({
        url: standby.url("store"),
        requireDurability,
        onDurability,
      });
      return opening.then((engine) => ({ engine, heard }));
    };
    const set = (names: string) =>
      standby.run(
        `ALTER SYSTEM SET synchronous_standby_names = '${names}'`,
        "SELECT pg_reload_conf()",
      );
    await set("");
    await assert.rejects(
      open("standby"),
      /--require-durability standby was given.*class is "disk"/,
    );
    // Nobody has these names, so commits would wait; reads do not.
    await set("ANY 1 (x, y, z)");
    await until(async () => (await standby.run("SHOW synchronous_standby_names"))[0]?.[0] !== "");
    await assert.rejects(open("majority"), /--require-durability majority/);
    const { engine, heard } = await open("standby");
    await set("");
    await until(() => heard.length > 0);
    assert.deepEqual(heard, ["disk"]);
    await assert.rejects(
      commit(engine, { puts: [[keyOf("weak", "a"), "x"]] }),
      /Writes are refused/,
    );
    assert.deepEqual(await engine.get([keyOf("weak", "a")]), [undefined]);
    assert.equal((await engine.health()).ready, false);
    await engine.close();
  });
});

/** Like `until`, but fails with the writers if they fail. */
async function untilOrEnd(writing: Promise<unknown>, holds: () => boolean): Promise<void> {
  await Promise.race([until(holds), writing]);
}

/** Waits for the server's processes to act in their own time; a test that hangs explains nothing. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const givesUpAt = performance.now() + 60_000;
  while (!(await holds())) {
    assert.ok(performance.now() < givesUpAt, "The condition did not become true within 60 s.");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
