import assert from "node:assert/strict";
import { it } from "node:test";
import type { Engine, Key } from "../engine.ts";
import { partitionRange } from "../key-codec.ts";
import {
  absent,
  assertAbove,
  atVersion,
  busyWait,
  bytes,
  commit,
  getEntry,
  getText,
  key,
  mustCommit,
  nextTurn,
  present,
  put,
  scanAll,
  scanOnce,
  text,
  type WithEngine,
} from "./steps.ts";

const counter = key("p", "counter");
const whole = partitionRange(bytes("p"));

export function testConcurrency(withEngine: WithEngine): void {
  it("counts correctly when many writers increment a counter concurrently", () =>
    withEngine(async (engine) => {
      await put(engine, counter, "0");
      await together(8, async () => {
        for (let round = 0; round < 10; round++) await addTo(engine, counter, 1);
      });
      assert.equal(await getText(engine, counter), "80");
    }));

  it("lets exactly one of many concurrent writers replace a given version", () =>
    withEngine(async (engine) => {
      for (let round = 0; round < 5; round++) {
        const version = await put(engine, counter, "0");
        const won = await together(32, async (rival) => {
          const checks = [atVersion(counter, version)];
          const result = await commit(engine, { checks, puts: [[counter, `${rival}`]] });
          if (!result.committed) assert.equal(result.failedCheck, 0);
          return result.committed;
        });
        assert.equal(won.filter(Boolean).length, 1);
        assert.equal(await getText(engine, counter), `${won.indexOf(true)}`);
      }
    }));

  it("lets exactly one of many concurrent writers insert a key, and exactly one delete it", () =>
    withEngine(async (engine) => {
      for (let round = 0; round < 5; round++) {
        const inserted = await together(32, async (rival) => {
          const puts = [[counter, `${rival}`]] as const;
          return (await commit(engine, { checks: [absent(counter)], puts })).committed;
        });
        assert.equal(inserted.filter(Boolean).length, 1);
        assert.equal(await getText(engine, counter), `${inserted.indexOf(true)}`);
        const deleted = await together(32, async () => {
          return (await commit(engine, { checks: [present(counter)], deletes: [counter] }))
            .committed;
        });
        assert.equal(deleted.filter(Boolean).length, 1);
      }
    }));

  it("gives each of many concurrent puts of one key a different version", () =>
    withEngine(async (engine) => {
      const version = engine.nextVersion();
      const versions = await together(32, async () => {
        const [raised] = await mustCommit(engine, { version, puts: [[counter, "x"]] });
        return raised;
      });
      assert.equal(new Set(versions).size, 32);
    }));

  it("shows every reader the same total while money moves between accounts", () =>
    withEngine(async (engine) => {
      const accounts = Array.from({ length: 8 }, (_, index) => key("p", `account${index}`));
      await mustCommit(engine, { puts: accounts.map((each) => [each, "100"] as const) });
      let transfersUnderWay = true;
      const transfers = together(8, async (teller) => {
        for (let round = 0; round < 10; round++) {
          const from = accounts[(teller * 3 + round) % 8]!;
          const to = accounts[(teller * 5 + round * 7 + 1) % 8]!;
          if (from !== to) await transfer(engine, from, to);
        }
      }).finally(() => {
        transfersUnderWay = false;
      });
      let reads = 0;
      for (; transfersUnderWay || reads === 0; reads++) {
        const { entries, end } = await scanOnce(engine, whole);
        if (end === "complete") assert.equal(sum(entries), 800);
        const got = await engine.get(accounts);
        assert.equal(sum(got.map((entry) => entry!)), 800);
        await nextTurn();
      }
      await transfers;
      assert.equal(sum(await scanAll(engine)), 800);
    }));

  it("allows no write skew: of two commits that exclude each other, exactly one succeeds", () =>
    withEngine(async (engine) => {
      for (let round = 0; round < 20; round++) {
        const left = key("p", `left${round}`);
        const right = key("p", `right${round}`);
        const results = await Promise.all([
          commit(engine, { checks: [absent(left)], puts: [[right, "1"]] }),
          commit(engine, { checks: [absent(right)], puts: [[left, "1"]] }),
        ]);
        assert.equal(results.filter((result) => result.committed).length, 1);
      }
    }));

  it("applies concurrent commits of one key in the order of their versions", () =>
    withEngine(async (engine) => {
      for (let round = 0; round < 20; round++) {
        const versions = await together(32, async (rival) => {
          const version = await put(engine, counter, `${rival}`);
          const found = await getEntry(engine, counter);
          assertAbove(found!.version + 1, version);
          if (found!.version === version) assert.equal(text(found!.value), `${rival}`);
          return version;
        });
        const newest = Math.max(...versions);
        const last = await getEntry(engine, counter);
        assert.equal(last?.version, newest);
        assert.equal(text(last!.value), `${versions.indexOf(newest)}`);
        // One that begins after the others were acknowledged.
        assertAbove(await put(engine, counter, "after"), newest);
        assert.equal(await getText(engine, counter), "after");
      }
    }));

  it("shows a scan the snapshot it started with, despite later commits", () =>
    withEngine(async (engine) => {
      const keys = Array.from({ length: 500 }, (_, index) => key("p", `${1000 + index}`));
      await rewrite(engine, keys, "before");
      const commits: Promise<unknown>[] = [];
      let visits = 0;
      const { entries, end } = await scanOnce(engine, whole, () => {
        if (visits++ % 100 === 0) commits.push(rewrite(engine, keys, "after"));
        return true;
      });
      await Promise.all(commits);
      assert.deepEqual(new Set(entries.map((entry) => text(entry.value))), new Set(["before"]));
      if (end === "complete") assert.equal(entries.length, keys.length);
      assert.equal(await getText(engine, keys[0]!), "after");
    }));

  it("shows every scan all of a commit or none of it, however long the scan takes", () =>
    withEngine(async (engine) => {
      const keys = Array.from({ length: 300 }, (_, index) => key("p", `${1000 + index}`));
      await rewrite(engine, keys, "start");
      let scanning = true;
      const writer = (async () => {
        for (let round = 0; scanning; round++) {
          await rewrite(engine, keys, `${round}`);
          await nextTurn();
        }
      })();
      for (let round = 0; round < 5; round++) {
        const { entries, end } = await scanOnce(engine, whole, () => {
          // Slow enough for 300 entries to span several turns of the event loop.
          busyWait(0.05);
          return true;
        });
        assert.equal(new Set(entries.map((entry) => text(entry.value))).size, 1);
        if (end === "complete") assert.equal(entries.length, keys.length);
      }
      scanning = false;
      await writer;
    }));

  it("returns each writer its own entry while many commit and read concurrently", () =>
    withEngine(async (engine) => {
      await together(16, async (worker) => {
        for (let round = 0; round < 20; round++) {
          const own = key(`p${worker % 4}`, `${worker}-${round}`);
          const [version] = await mustCommit(engine, {
            checks: [absent(own)],
            puts: [[own, `${worker}/${round}`]],
          });
          const entry = await getEntry(engine, own);
          assert.equal(entry?.version, version);
          assert.equal(text(entry!.value), `${worker}/${round}`);
        }
      });
      assert.equal((await scanAll(engine)).length, 320);
    }));
}

function together<T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => work(index)));
}

/** Eight rivals never win this often unless reads lag behind or checks fail for no reason. */
const TRIES_MAX = 2000;

/** Reads, adds and writes back until no rival came in between. */
async function addTo(engine: Engine, at: Key, amount: number): Promise<void> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const entry = await getEntry(engine, at);
    const checks = [atVersion(at, entry!.version)];
    const puts = [[at, `${Number(text(entry!.value)) + amount}`]] as const;
    if ((await commit(engine, { checks, puts })).committed) return;
  }
  assert.fail("The writer never won against its rivals.");
}

async function transfer(engine: Engine, from: Key, to: Key): Promise<void> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const [source, target] = await engine.get([from, to]);
    const result = await commit(engine, {
      checks: [atVersion(from, source!.version), atVersion(to, target!.version)],
      puts: [
        [from, `${Number(text(source!.value)) - 1}`],
        [to, `${Number(text(target!.value)) + 1}`],
      ],
    });
    if (result.committed) return;
  }
  assert.fail("The writer never won against its rivals.");
}

function sum(entries: readonly { value: Uint8Array }[]): number {
  return entries.reduce((total, entry) => total + Number(text(entry.value)), 0);
}

function rewrite(engine: Engine, keys: readonly Key[], value: string): Promise<readonly number[]> {
  return mustCommit(engine, { puts: keys.map((each) => [each, value] as const) });
}
