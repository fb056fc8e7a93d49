import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import type { AtomicWrite, CommitResult, Engine, Entry, Key } from "../engine.ts";
import { openPostgresEngine } from "./postgres-engine.ts";
import { runAt, type TestServer, testServer } from "./test-server.ts";
import {
  bankTogether,
  countApart,
  countTogether,
  overlapTogether,
  type Store,
  skewTogether,
  winAlone,
} from "./test-workloads.ts";

/*
 * Short forms; `test-long-run.ts` repeats them for any length of time. Each uses two engines: several front
 * ends on one database are the normal case.
 */

let server: TestServer;

before(async () => {
  server = await testServer();
});
after(() => server.stop());

for (const isolation of ["read committed", "repeatable read", "serializable"]) {
  describe(`Two front ends at ${isolation}`, () => {
    let url: string;
    let engines: Engine[];

    before(async () => {
      url = await server.createDatabase();
      const name = new URL(url).pathname.slice(1);
      await runAt(url, [
        `ALTER DATABASE ${name} SET default_transaction_isolation = '${isolation}'`,
      ]);
      // For superusers only; without it rivals in a deadlock wait a second.
      await runAt(url, [`ALTER DATABASE ${name} SET deadlock_timeout = '100ms'`]).catch(() => {});
      engines = [
        await openPostgresEngine({ checksums: false, allowUnsafe: true, url }),
        await openPostgresEngine({ checksums: false, allowUnsafe: true, url }),
      ];
    });
    after(async () => {
      for (const engine of engines) await engine.close();
      await server.dropDatabase(url);
    });

    it("lose no increment of one counter", () =>
      countTogether(engines, { writers: 6, additions: 6 }));

    it("lose no increment of several counters", () =>
      countApart(engines, { counters: 3, writers: 24, additions: 8 }));

    it("let exactly one of several rivals win", () => winAlone(engines, { rounds: 4, rivals: 12 }));

    it("show every reader the same sum", () =>
      bankTogether(engines, { accounts: 8, tellers: 6, transfers: 12 }));

    it("allow no write skew through absence", () => skewTogether(engines, { rounds: 10 }));

    it("apply overlapping commits completely, and none gets stuck", () =>
      overlapTogether(engines, { writers: 12, writes: 30 }));
  });
}

/*
 * The workloads above must be able to fail: here they run over commits with one mistake each, written by hand
 * with the engine's own statements.
 */
describe("The workloads detect", () => {
  let url: string;
  let engine: Engine;
  let pool: pg.Pool;

  before(async () => {
    url = await server.createDatabase();
    engine = await openPostgresEngine({ checksums: false, allowUnsafe: true, url });
    pool = new pg.Pool({ connectionString: url, max: 8 });
    // The database may be dropped before the server has processed the Terminate messages of `end`.
    pool.on("error", () => {});
  });
  after(async () => {
    await pool.end();
    await engine.close();
    await server.dropDatabase(url);
  });

  it("a commit that compares versions before it locks the rows", () =>
    assertNoticed(/success was lost/, () =>
      countTogether([withMistake("no lock")], { writers: 8, additions: 8 }),
    ));

  it("the same mistake in commits of one key", () =>
    assertNoticed(/success was lost/, () =>
      countApart([withMistake("no lock")], { counters: 2, writers: 8, additions: 20 }),
    ));

  it("a commit that reports success after losing the race for a new key", () =>
    assertNoticed(/Not exactly one/, () =>
      winAlone([withMistake("swallowed conflict")], { rounds: 10, rivals: 8 }),
    ));

  it("a commit whose statements commit one by one", () =>
    assertNoticed(/torn|half done/, () =>
      overlapTogether([withMistake("no transaction")], { writers: 8, writes: 40 }),
    ));

  function withMistake(mistake: Mistake): Store {
    return {
      nextVersion: () => engine.nextVersion(),
      get: (keys) => engine.get(keys),
      commit: (write) => commitWrongly(pool, write, mistake),
    };
  }
});

type Mistake = "no lock" | "swallowed conflict" | "no transaction";

async function assertNoticed(message: RegExp, run: () => Promise<void>): Promise<void> {
  await assert.rejects(
    run,
    (error) => error instanceof assert.AssertionError && message.test(error.message),
  );
}

/** A naive commit: read and compare, then write, relying on READ COMMITTED. */
async function commitWrongly(
  pool: pg.Pool,
  { version, checks, puts, deletes }: AtomicWrite,
  mistake: Mistake,
): Promise<CommitResult> {
  const client = await pool.connect();
  const isTransaction = mistake !== "no transaction";
  try {
    if (isTransaction) await client.query("BEGIN");
    for (const [index, { key, expected }] of checks.entries()) {
      const found = await readVersion(client, key);
      const holds =
        expected === "absent"
          ? found === undefined
          : found !== undefined && (expected === "present" || found === expected);
      if (!holds) {
        if (isTransaction) await client.query("ROLLBACK");
        return { committed: false, failedCheck: index };
      }
    }
    for (const { key, value } of puts) {
      const conflict =
        mistake === "swallowed conflict"
          ? "DO NOTHING"
          : "DO UPDATE SET ver = greatest(excluded.ver, k.ver + 1), val = excluded.val";
      await client.query(
        `INSERT INTO rh_kv AS k (pk, sk, ver, val) VALUES ($1, $2, $3, $4) ON CONFLICT (pk, sk) ${conflict}`,
        [key.partition, key.sort, version, value],
      );
    }
    for (const { partition, sort } of deletes) {
      await client.query("DELETE FROM rh_kv WHERE pk = $1 AND sk = $2", [partition, sort]);
    }
    if (isTransaction) await client.query("COMMIT");
    return { committed: true, versions: puts.map(() => version) };
  } finally {
    client.release();
  }
}

async function readVersion(client: pg.PoolClient, key: Key): Promise<Entry["version"] | undefined> {
  const { rows } = await client.query("SELECT ver FROM rh_kv WHERE pk = $1 AND sk = $2", [
    key.partition,
    key.sort,
  ]);
  return rows[0] && Number(rows[0].ver);
}
