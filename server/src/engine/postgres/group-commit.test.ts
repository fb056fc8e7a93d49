import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import pg from "pg";
import { type Check, type CommitResult, EngineError } from "../engine.ts";
import { GroupCommit } from "./group-commit.ts";
import { openPostgresEngine, type PostgresEngine } from "./postgres-engine.ts";
import { SessionPool } from "./session-pool.ts";
import { ServerError } from "./sql-state.ts";
import { Relay } from "./test-relay.ts";
import { runAt, type TestServer, testServer } from "./test-server.ts";
import { keyOf, scanPartition } from "./test-workloads.ts";

describe("Commits of one key each that wait for a connection", () => {
  it("all fail at once when only the operator can help", async () => {
    const pool = new SessionPool({
      sessionsMax: 1,
      connect: async () => {
        throw new ServerError(new Map([["C", "28P01"]]));
      },
    });
    const gathered = new GroupCommit(pool);
    const refused: string[] = [];
    const waiting = ["a", "b", "c"].map((sort) => {
      const write = { key: keyOf("p", sort), expected: undefined, value: undefined, version: 1 };
      const running = gathered.run(write, performance.now() + 3_600_000);
      return running.catch(() => refused.push(sort));
    });
    await waiting[0];
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(refused, ["a", "b", "c"]);
    pool.close();
  });
});

describe("Concurrent commits of one key each", () => {
  let server: TestServer;
  let url: string;
  let relay: Relay;
  let engine: PostgresEngine;

  before(async () => {
    server = await testServer();
    url = await server.createDatabase();
    relay = await Relay.open(url);
    engine = await openPostgresEngine({ allowUnsafe: true, url: relay.url });
    await runAt(url, ["ALTER TABLE rh_kv ADD CHECK (position('poison'::bytea IN val) = 0)"]);
  });
  after(async () => {
    await engine.close();
    await relay.close();
    await server.dropDatabase(url);
    await server.stop();
  });
  beforeEach(async () => {
    relay.onAnswer = () => "pass";
    await runAt(url, ["DELETE FROM rh_kv WHERE pk <> ''"]);
  });

  interface Step {
    readonly sort: string;
    /** Undefined for a deletion. */
    readonly value?: string;
    readonly expected?: Check["expected"];
  }

  function commit({ sort, value, expected }: Step): Promise<CommitResult> {
    const key = keyOf("p", sort);
    return engine.commit({
      version: engine.nextVersion(),
      checks: expected === undefined ? [] : [{ key, expected }],
      puts: value === undefined ? [] : [{ key, value: Buffer.from(value) }],
      deletes: value === undefined ? [key] : [],
    });
  }

  /** The first leaves alone; the others, of the same turn, share a transaction behind it. */
  async function commitTogether(
    steps: readonly Step[],
  ): Promise<PromiseSettledResult<CommitResult>[]> {
    const [, ...results] = await Promise.allSettled([
      commit({ sort: "first", value: "first" }),
      ...steps.map(commit),
    ]);
    return results;
  }

  /** The server's internal row versions: one for each transaction that wrote. */
  async function transactionCount(): Promise<unknown> {
    const sql =
      "SELECT count(DISTINCT xmin::text)::int FROM rh_kv WHERE pk = 'p' AND sk <> 'first'";
    return (await runAt(url, [sql]))[0]?.[0];
  }

  const outcomesOf = (results: readonly PromiseSettledResult<CommitResult>[]) =>
    results.map((result) => {
      if (result.status === "fulfilled") return result.value.committed ? "committed" : "refused";
      return result.reason instanceof EngineError ? result.reason.code : String(result.reason);
    });

  it("share one transaction", async () => {
    const steps = Array.from({ length: 20 }, (_, index) => ({ sort: `k${index}`, value: "x" }));
    const results = await commitTogether(steps);
    assert.deepEqual(
      outcomesOf(results),
      steps.map(() => "committed"),
    );
    assert.equal(await transactionCount(), 1);
  });

  it("succeed or fail by their own checks, regardless of the others", async () => {
    await commit({ sort: "old", value: "before" });
    const results = await commitTogether([
      { sort: "old", value: "again", expected: "absent" },
      { sort: "new", value: "first", expected: "absent" },
      { sort: "gone", value: "x", expected: "present" },
      { sort: "gone", expected: "present" },
      { sort: "gone" },
      { sort: "old2", value: "x", expected: 17 },
      { sort: "put", value: "x" },
    ]);
    assert.deepEqual(outcomesOf(results), [
      "refused",
      "committed",
      "refused",
      "refused",
      "committed",
      "refused",
      "committed",
    ]);
    assert.deepEqual(await scanPartition(engine, "p"), [
      "first=first",
      "new=first",
      "old=before",
      "put=x",
    ]);
  });

  it("follow each other when they are of the same key", async () => {
    const rivals = Array.from({ length: 12 }, (_, rival) => `${rival}`);
    const inserted = await commitTogether(
      rivals.map((value) => ({ sort: "k", value, expected: "absent" as const })),
    );
    assert.equal(outcomesOf(inserted).filter((each) => each === "committed").length, 1);
    const [entry] = await engine.get([keyOf("p", "k")]);
    const updated = await commitTogether(
      rivals.map((value) => ({ sort: "k", value, expected: entry!.version })),
    );
    assert.equal(outcomesOf(updated).filter((each) => each === "committed").length, 1);
    const versions = (await commitTogether(rivals.map((value) => ({ sort: "k", value })))).map(
      (result) =>
        result.status === "fulfilled" && result.value.committed ? result.value.versions[0] : 0,
    );
    assert.equal(new Set(versions).size, rivals.length, "A version was issued twice.");
    const [last] = await engine.get([keyOf("p", "k")]);
    assert.equal(last!.version, Math.max(...versions.map(Number)));
  });

  it("succeed when another commit of their transaction fails, which alone gets the error", async () => {
    const results = await commitTogether([
      { sort: "a", value: "x" },
      { sort: "b", value: "poison" },
      { sort: "c", value: "x", expected: "absent" },
      { sort: "d", value: "poison" },
    ]);
    assert.deepEqual(outcomesOf(results), ["committed", "Unavailable", "committed", "Unavailable"]);
    assert.deepEqual(await scanPartition(engine, "p"), ["a=x", "c=x", "first=first"]);
  });

  it("do not wait for a commit that a rival blocks, nor do later commits", async () => {
    await commit({ sort: "held", value: "x" });
    const rival = new pg.Client({ connectionString: url });
    await rival.connect();
    await rival.query("BEGIN");
    await rival.query("SELECT FROM rh_kv WHERE pk = 'p' AND sk = 'held' FOR UPDATE");
    const waiting: Promise<CommitResult>[] = [];
    // More turns than there may be transactions in flight; each turn has one of these commits and one other.
    for (let turn = 0; turn < 6; turn++) {
      const first = commit({ sort: "first", value: `${turn}` });
      waiting.push(commit({ sort: "held", value: `${turn}` }));
      const others = [first, commit({ sort: `a${turn}`, value: "x" })];
      assert.deepEqual(outcomesOf(await Promise.allSettled(others)), ["committed", "committed"]);
    }
    await rival.query("ROLLBACK");
    assert.deepEqual(
      outcomesOf(await Promise.allSettled(waiting)),
      waiting.map(() => "committed"),
    );
    await rival.end();
  });

  it("are looked up individually when the answer is lost, and none is repeated", async (test) => {
    // The two seconds in which they are looked up do not pass.
    const now = performance.now();
    test.mock.method(performance, "now", () => now);
    await commit({ sort: "deleted", value: "x" });
    let completed = 0;
    relay.onAnswer = (code, body) => {
      // Of the transaction: BEGIN, SET, three writes, COMMIT.
      if (code !== "C" || completed < 0) return "pass";
      if (body.toString("latin1").startsWith("BEGIN")) completed = 1;
      else if (completed > 0) completed++;
      if (completed < 6) return "pass";
      completed = -1;
      return "cut";
    };
    const results = await commitTogether([
      { sort: "a", value: "x" },
      { sort: "b", value: "y", expected: "absent" },
      { sort: "deleted" },
    ]);
    // A deletion leaves nothing that could prove it.
    assert.deepEqual(outcomesOf(results), ["committed", "committed", "Unknown"]);
    assert.equal(await transactionCount(), 1);
    assert.deepEqual(await scanPartition(engine, "p"), ["a=x", "b=y", "first=first"]);
  });

  it("leave a large value to its own transaction", async () => {
    const large = "x".repeat(300 * 1024);
    const results = await commitTogether([
      { sort: "a", value: "x" },
      { sort: "b", value: large },
      { sort: "c", value: "x" },
      { sort: "d", value: "x" },
    ]);
    assert.deepEqual(outcomesOf(results), ["committed", "committed", "committed", "committed"]);
    assert.equal(await transactionCount(), 3);
  });
});
