import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { describe, it } from "node:test";
import {
  absent,
  assertAbove,
  assertSameBytes,
  busyWait,
  bytes,
  commit,
  EMPTY_KEY,
  getText,
  key,
  mustCommit,
  patternBytes,
  put,
  scanAll,
  scanOnce,
  text,
} from "../conformance/steps.ts";
import { testEngineConformance } from "../conformance.ts";
import type { Engine } from "../engine.ts";
import { after, compareKeys } from "../key-codec.ts";
import { LmdbEngine, openLmdbEngine } from "./lmdb-engine.ts";
import { isEngineError, newFolder, withEngine } from "./test-engine.ts";

for (const walksMap of [true, false]) {
  testEngineConformance({
    name: walksMap ? "LmdbEngine" : "LmdbEngine, scanning through the binding",
    open: ({ clock }) => openLmdbEngine({ path: newFolder(), clock, walksMap }),
    reopen: (closed, { clock }) => openLmdbEngine({ path: pathOf(closed), clock, walksMap }),
    discard: async (closed) => rmSync(pathOf(closed), { recursive: true }),
  });
}

const a = key("p", "a");

describe("A group commit", () => {
  it("flushes once for all commits that wait", () =>
    withEngine(async (engine) => {
      const before = engine.statistics();
      const results = await Promise.all(
        Array.from({ length: 100 }, (_, index) => put(engine, key("p", `${index}`), "1")),
      );
      const after = engine.statistics();
      assert.equal(new Set(results).size, 100);
      assert.equal(after.flushes - before.flushes, 1);
      assert.equal(after.commits - before.commits, 100);
      assert.equal(after.groupCommitsMax, 100);
    }));

  it("shows each commit of a group the effects of the ones before it", () =>
    withEngine(async (engine) => {
      const results = await Promise.all([
        commit(engine, { checks: [absent(a)], puts: [[a, "first"]] }),
        commit(engine, { checks: [absent(a)], puts: [[a, "second"]] }),
        commit(engine, { deletes: [a] }),
        commit(engine, { checks: [absent(a)], puts: [[a, "third"]] }),
      ]);
      assert.deepEqual(
        results.map((result) => result.committed),
        [true, false, true, true],
      );
      assert.equal(engine.statistics().flushes, 1);
      assert.equal(await getText(engine, a), "third");
    }));

  it("includes updates of one key, each applied to the result of the one before", () =>
    withEngine(async (engine) => {
      const appending = (more: string) => (current: Uint8Array | undefined) =>
        bytes((current ? text(current) : "") + more);
      await Promise.all([
        engine.update(a, appending("1")),
        put(engine, a, "put"),
        engine.update(a, appending("2")),
        engine.update(a, appending("3")),
      ]);
      assert.equal(engine.statistics().flushes, 1);
      assert.equal(await getText(engine, a), "put23");
    }));

  it("splits commits that are too large for one transaction", () =>
    withEngine(async (engine) => {
      const value = patternBytes(6 << 20);
      await Promise.all(
        Array.from({ length: 9 }, (_, index) => put(engine, key("p", `${index}`), value)),
      );
      assert.equal(engine.statistics().flushes, 3);
      assert.equal((await scanAll(engine)).length, 9);
    }));

  it("writes nothing of a commit that fails while it is applied, and later commits succeed", () =>
    withEngine(async (engine) => {
      let reads = 0;
      const failing = {
        key: key("p", "b"),
        get value(): Uint8Array {
          reads++;
          throw new Error("The value is gone.");
        },
      };
      const puts = [{ key: a, value: patternBytes(10) }, failing];
      const write = { version: engine.nextVersion(), checks: [], puts, deletes: [] };
      await assert.rejects(engine.commit(write), isEngineError("Unavailable"));
      assertAbove(reads, 0);
      assert.deepEqual(await scanAll(engine), []);
      await put(engine, a, "later");
      assert.equal(await getText(engine, a), "later");
    }));
});

describe("A snapshot", () => {
  it("ends a scan at its time limit with the key to resume at", () =>
    withEngine(
      async (engine) => {
        const puts = Array.from({ length: 40 }, (_, index) => [key("p", [index]), "1"] as const);
        await mustCommit(engine, { puts });
        const slowly = () => {
          busyWait(1);
          return true;
        };
        const { entries, end } = await scanOnce(engine, { start: EMPTY_KEY }, slowly);
        assertAbove(40, entries.length);
        assert.ok(typeof end !== "string", `The scan ended ${end}.`);
        assert.equal(compareKeys(end.resumeAt, after(entries.at(-1)!.key)), 0);
        assert.equal((await scanAll(engine)).length, 40);
      },
      { snapshotMsMax: 0 },
    ));

  it("releases its pages for reuse, however its scan ended", () =>
    withEngine(async (engine) => {
      const value = patternBytes(50_000);
      for (let index = 0; index < 20; index++) await put(engine, key("p", [index]), value);
      const mistake = new Error("visit failed");
      for (let round = 0; round < 60; round++) {
        await scanOnce(engine, { start: EMPTY_KEY });
        await scanOnce(engine, { start: EMPTY_KEY }, () => false);
        const failing = async () =>
          engine.scan({ start: EMPTY_KEY }, () => {
            busyWait(0.5);
            throw mistake;
          });
        await assert.rejects(failing, (error) => error === mistake);
        const suspended = Array.from({ length: 5 }, () =>
          scanOnce(engine, { start: EMPTY_KEY }, () => {
            busyWait(0.3);
            return true;
          }),
        );
        await put(engine, key("p", [round % 20]), value);
        await Promise.all(suspended);
      }
      // 1 MB of entries; 60 rewrites of 50 KB would add 3 MB if no page were reused.
      assert.equal(engine.statistics().scansOpen, 0);
      assert.ok(
        engine.statistics().fileBytes < 2_000_000,
        `${engine.statistics().fileBytes} bytes`,
      );
    }));

  it("is refused as Unavailable when all readers are taken", () =>
    withEngine(
      async (engine) => {
        for (let index = 0; index < 40; index++) await put(engine, key("p", [index]), "1");
        const slowly = () => {
          busyWait(0.5);
          return true;
        };
        const scan = async () => scanOnce(engine, { start: EMPTY_KEY }, slowly);
        const scans = await Promise.allSettled(Array.from({ length: 6 }, scan));
        const refused = scans.flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
        assertAbove(refused.length, 0);
        for (const error of refused) assert.ok(isEngineError("Unavailable")(error), `${error}`);
        assert.equal((await scanAll(engine)).length, 40);
      },
      { readersMax: 4, snapshotMsMax: Number.POSITIVE_INFINITY },
    ));

  it("of a get releases its pages for reuse, even if no other read follows", () =>
    withEngine(async (engine) => {
      const value = patternBytes(50_000);
      for (let index = 0; index < 20; index++) await put(engine, key("p", [index]), value);
      engine.get([key("p", [0]), key("p", [1])]);
      engine.meta();
      for (let round = 0; round < 60; round++) await put(engine, key("p", [round % 20]), value);
      assert.ok(
        engine.statistics().fileBytes < 2_000_000,
        `${engine.statistics().fileBytes} bytes`,
      );
    }));

  it("is scanned exactly up to and after the longest keys, whose successors are too long to store", () =>
    withEngine(async (engine) => {
      // Among them the pair whose flat key is as long as LMDB allows.
      for (let sortBytes = 0; sortBytes <= 17; sortBytes++) {
        const partition = new Uint8Array(engine.keyBytesMax - sortBytes);
        const longest = { partition, sort: patternBytes(sortBytes) };
        await put(engine, longest, "longest");
        const end = after(longest);
        assert.equal((await scanAll(engine, { start: EMPTY_KEY, end })).length, 1);
        assert.equal((await scanAll(engine, { start: end })).length, 0);
        await mustCommit(engine, { deletes: [longest] });
      }
    }));

  it("leaves a lent entry unchanged while visit gets and scans", () =>
    withEngine(async (engine) => {
      await mustCommit(engine, {
        puts: [
          [key("partition one", "a"), "value of a"],
          [key("partition two", "bb"), "another value, longer"],
        ],
      });
      const seen: string[] = [];
      await engine.scan({ start: EMPTY_KEY }, ({ key: { partition, sort }, value }) => {
        engine.get([key("partition two", "bb"), key("partition one", "a"), a]);
        engine.scan({ start: EMPTY_KEY }, (inner) => text(inner.key.sort) !== "");
        seen.push(`${text(partition)}/${text(sort)}=${text(value)}`);
        return true;
      });
      assert.deepEqual(seen, [
        "partition one/a=value of a",
        "partition two/bb=another value, longer",
      ]);
    }));

  it("leaves a lent value of many megabytes unchanged while visit gets another", () =>
    withEngine(async (engine) => {
      const large = patternBytes(17 << 20);
      await put(engine, a, large);
      await put(engine, key("p", "b"), "small");
      let same = false;
      await engine.scan({ start: a }, ({ value }) => {
        engine.get([key("p", "b")]);
        same = Buffer.from(value).equals(large);
        return false;
      });
      assert.equal(same, true);
      const [got] = engine.get([a]);
      assertSameBytes(got!.value, large);
    }));
});

function pathOf(engine: Engine): string {
  if (!(engine instanceof LmdbEngine)) throw new Error("Not an LMDB engine.");
  return engine.path;
}
