import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Clock, systemClock } from "../clock.ts";
import { testConcurrency } from "./conformance-concurrency.ts";
import { testScans } from "./conformance-scan.ts";
import {
  absent,
  assertAbove,
  assertSameBytes,
  atVersion,
  bytes,
  commit,
  getEntry,
  getText,
  key,
  mustCommit,
  patternBytes,
  present,
  put,
  type Steps,
  scanAll,
  scanText,
  type WithEngine,
} from "./conformance-steps.ts";
import { testUpdates } from "./conformance-update.ts";
import { type Check, type Engine, EngineError, type Key } from "./engine.ts";

/** An engine and how to get at it. */
export interface EngineUnderTest {
  readonly name: string;
  /** Opens a new, empty engine. */
  open(options: { clock: Clock }): Promise<Engine>;
  /** Opens what `closed` held when it was closed. Absent: such an engine keeps nothing. */
  reopen?(closed: Engine, options: { clock: Clock }): Promise<Engine>;
  /** Takes away what `closed` leaves behind: its files, its tables. */
  discard?(closed: Engine): Promise<void>;
}

/** Checks every promise `engine.ts` makes. Each engine's test file is one call of this. */
export function testEngineConformance(target: EngineUnderTest): void {
  const withEngine: WithEngine = async (test) => {
    const engine = await target.open({ clock: systemClock });
    try {
      await test(engine);
    } finally {
      await engine.close();
      await target.discard?.(engine);
    }
  };

  describe(`${target.name} keeps the engine contract`, () => {
    describe("get and commit", () => testGetAndCommit(withEngine));
    describe("checks", () => testChecks(withEngine));
    describe("update", () => testUpdates(withEngine));
    describe("versions", () => testVersions(withEngine));
    describe("limits", () => testLimits(withEngine));
    describe("scan", () => testScans(withEngine));
    describe("concurrency", () => testConcurrency(withEngine));
    describe("close", () => testClose(target, withEngine));
  });
}

const a = key("p", "a");
const b = key("p", "b");
const c = key("p", "c");

function testGetAndCommit(withEngine: WithEngine): void {
  it("answers get in the order of its keys, absent and repeated ones included", () =>
    withEngine(async (engine) => {
      await mustCommit(engine, {
        puts: [
          [a, "1"],
          [b, "2"],
        ],
      });
      const entries = await engine.get([b, c, a, b]);
      assert.deepEqual(
        entries.map((entry) => entry && Buffer.from(entry.value).toString()),
        ["2", undefined, "1", "2"],
      );
      assert.deepEqual(
        entries.map((entry) => entry && Buffer.from(entry.key.sort).toString()),
        ["b", undefined, "a", "b"],
      );
      assert.deepEqual(await engine.get([]), []);
    }));

  it("ends get where the values reach the bytes asked for, at one entry at least", () =>
    withEngine(async (engine) => {
      const large = "x".repeat(1000);
      for (const partitions of [["p"], ["p", "q", "r"]]) {
        const keys = ["1", "2", "3", "4", "5", "6"].map((sort, index) =>
          key(partitions[index % partitions.length]!, sort),
        );
        await mustCommit(engine, { puts: keys.slice(1).map((each) => [each, large]) });
        for (const [bytesMax, countMax] of [
          [0, 1],
          [1500, 3],
          [2000, 3],
          [2001, 4],
        ] as const) {
          const entries = await engine.get(keys, bytesMax);
          assert.ok(entries.length >= 1 && entries.length <= countMax, `${entries.length}`);
          assert.deepEqual(entries, (await engine.get(keys)).slice(0, entries.length));
        }
        assert.equal((await engine.get(keys, 5001)).length, keys.length);
      }
    }));

  it("refuses as a bug, before anything is written, to put and to delete one key at once", () =>
    withEngine(async (engine) => {
      await put(engine, a, "1");
      const puts: [Key, string][] = [
        [c, "2"],
        [key("p", "a"), "2"],
      ];
      await assert.rejects(commit(engine, { puts, deletes: [b, a] }), { code: "ERR_ASSERTION" });
      assert.deepEqual(await scanText(engine), ["p/a=1"]);
      // The same sort key in another partition is another key.
      await mustCommit(engine, { puts: [[key("q", "a"), "2"]], deletes: [a] });
      assert.deepEqual(await scanText(engine), ["q/a=2"]);
    }));

  it("shows a commit to every read that begins after it resolved", () =>
    withEngine(async (engine) => {
      for (let round = 0; round < 20; round++) {
        // A read just before, in the same turn of the event loop, must not fix what is seen.
        await engine.get([a]);
        await put(engine, a, `${round}`);
        assert.equal(await getText(engine, a), `${round}`);
        assert.deepEqual(await scanText(engine), [`p/a=${round}`]);
      }
      await mustCommit(engine, { deletes: [a] });
      assert.equal(await getText(engine, a), undefined);
      assert.deepEqual(await scanAll(engine), []);
    }));

  it("numbers every commit that writes, before it resolves, and no read, where it numbers them", () =>
    withEngine(async (engine) => {
      const seen = [engine.newestCommit()];
      await put(engine, a, "1");
      seen.push(engine.newestCommit());
      await put(engine, a, "1");
      seen.push(engine.newestCommit());
      await mustCommit(engine, { deletes: [a] });
      seen.push(engine.newestCommit());
      if (engine.update) await engine.update(a, () => bytes("2"));
      else await put(engine, a, "2");
      seen.push(engine.newestCommit());
      const [first] = seen;
      assert.equal(new Set(seen).size, first === undefined ? 1 : seen.length);
      await getText(engine, a);
      await scanAll(engine);
      assert.equal(engine.newestCommit(), seen.at(-1));
    }));

  it("replaces, adds and deletes in one commit, across partitions too", () =>
    withEngine(async (engine) => {
      const other = key("q", "a");
      await mustCommit(engine, {
        puts: [
          [a, "1"],
          [b, "2"],
        ],
      });
      const versions = await mustCommit(engine, {
        puts: [
          [a, "new"],
          [other, "3"],
        ],
        deletes: [b],
      });
      assert.equal(versions.length, 2);
      assert.deepEqual(await scanText(engine), ["p/a=new", "q/a=3"]);
    }));

  it("deletes an absent key without complaint", () =>
    withEngine(async (engine) => {
      assert.deepEqual(await mustCommit(engine, { deletes: [a] }), []);
    }));

  it("commits nothing at all", () =>
    withEngine(async (engine) => {
      assert.deepEqual(await commit(engine, {}), { committed: true, versions: [] });
    }));

  it("keeps its own copy of what it is given", () =>
    withEngine(async (engine) => {
      const partition = Buffer.from("p");
      const sort = Buffer.from("a");
      const value = Buffer.from("1");
      await mustCommit(engine, { puts: [[{ partition, sort }, value]] });
      for (const given of [partition, sort, value]) given.fill("x");
      assert.deepEqual(await scanText(engine), ["p/a=1"]);
    }));

  it("leaves the bytes of an answer alone when the entry changes", () =>
    withEngine(async (engine) => {
      await put(engine, a, "before");
      const entry = await getEntry(engine, a);
      await put(engine, a, "behind");
      await getEntry(engine, a);
      assert.equal(Buffer.from(entry!.value).toString(), "before");
    }));

  it("tells keys apart whose bytes run together", () =>
    withEngine(async (engine) => {
      const alike: Key[] = [
        key("", ""),
        key("", "ab"),
        key("a", "b"),
        key("ab", ""),
        key([0], []),
        key([], [0]),
        key([0, 0], [1]),
        key([0], [0, 1]),
        key([], [0, 0, 1]),
        key([0, 255], [0]),
        key([0], [255, 0]),
      ];
      await mustCommit(engine, { puts: alike.map((each, index) => [each, `${index}`] as const) });
      for (const [index, each] of alike.entries()) {
        assert.equal(await getText(engine, each), `${index}`);
      }
      assert.equal((await scanAll(engine)).length, alike.length);
    }));
}

function testChecks(withEngine: WithEngine): void {
  const actions: Record<string, Steps> = {
    "a put of it": { puts: [[a, "new"]] },
    "a delete of it": { deletes: [a] },
    "a put of another key": { puts: [[b, "new"]] },
    "no write at all": {},
  };
  const cases: [state: string, check: string, holds: boolean, of: (version: number) => Check][] = [
    ["an absent key", "absent", true, () => absent(a)],
    ["an absent key", "present", false, () => present(a)],
    ["an absent key", "at a version", false, () => atVersion(a, 1)],
    ["a present key", "absent", false, () => absent(a)],
    ["a present key", "present", true, () => present(a)],
    ["a present key", "at its version", true, (version) => atVersion(a, version)],
    ["a present key", "at a version before its own", false, (version) => atVersion(a, version - 1)],
    ["a present key", "at a version after its own", false, (version) => atVersion(a, version + 1)],
  ];
  for (const [state, check, holds, of] of cases) {
    for (const [action, steps] of Object.entries(actions)) {
      it(`${holds ? "lets through" : "stops"} ${action} when ${state} is expected ${check}`, () =>
        withEngine(async (engine) => {
          const version = state === "a present key" ? await put(engine, a, "old") : 0;
          const before = await scanText(engine);
          const result = await commit(engine, { ...steps, checks: [of(version)] });
          if (!holds) {
            assert.deepEqual(result, { committed: false, failedCheck: 0 });
            assert.deepEqual(await scanText(engine), before);
            return;
          }
          assert.equal(result.committed, true);
          assert.equal(await getText(engine, a), expectedText(steps, a, before.length > 0));
          assert.equal(await getText(engine, b), expectedText(steps, b, false));
        }));
    }
  }

  it("answers the first failed check in the caller's order, whatever the order of the keys", () =>
    withEngine(async (engine) => {
      await put(engine, a, "1");
      await put(engine, c, "3");
      assert.deepEqual(await commit(engine, { checks: [absent(b), absent(c), absent(a)] }), {
        committed: false,
        failedCheck: 1,
      });
      assert.deepEqual(await commit(engine, { checks: [present(c), absent(b), present(b)] }), {
        committed: false,
        failedCheck: 2,
      });
    }));

  it("writes nothing when one check fails, in whichever partition it is", () =>
    withEngine(async (engine) => {
      const other = key("q", "a");
      await put(engine, a, "1");
      const result = await commit(engine, {
        checks: [present(a), present(other)],
        puts: [
          [a, "new"],
          [b, "new"],
        ],
        deletes: [other],
      });
      assert.deepEqual(result, { committed: false, failedCheck: 1 });
      assert.deepEqual(await scanText(engine), ["p/a=1"]);
    }));

  it("inserts nothing when one of the keys is taken, and lets the free ones be inserted later", () =>
    withEngine(async (engine) => {
      await put(engine, b, "1");
      const insert = (at: Key[]) =>
        commit(engine, { checks: at.map(absent), puts: at.map((each) => [each, "new"]) });
      const [taken, alone, free] = await Promise.all([insert([a, b, c]), insert([b]), insert([c])]);
      assert.deepEqual(taken, { committed: false, failedCheck: 1 });
      assert.deepEqual(alone, { committed: false, failedCheck: 0 });
      assert.equal(free.committed, true);
      assert.deepEqual(await scanText(engine), ["p/b=1", "p/c=new"]);
    }));

  it("judges checks by what was there before the commit", () =>
    withEngine(async (engine) => {
      await mustCommit(engine, { checks: [absent(a), absent(b)], puts: [[a, "1"]], deletes: [b] });
      await mustCommit(engine, { checks: [present(a), absent(b)], puts: [[b, "2"]], deletes: [a] });
      assert.deepEqual(await scanText(engine), ["p/b=2"]);
    }));
}

function expectedText({ puts = [], deletes = [] }: Steps, of: Key, wasPresent: boolean) {
  if (deletes.includes(of)) return undefined;
  if (puts.some(([each]) => each === of)) return "new";
  return wasPresent ? "old" : undefined;
}

function testVersions(withEngine: WithEngine): void {
  it("hands out versions that only grow, as microseconds", () =>
    withEngine(async (engine) => {
      let last = systemClock.now() * 1000 - 1_000_000;
      for (let round = 0; round < 1000; round++) {
        const version = engine.nextVersion();
        assert.equal(Number.isSafeInteger(version), true);
        assertAbove(version, last);
        last = version;
      }
    }));

  it("gives every put of a commit the version of the commit, and shows it to get and scan", () =>
    withEngine(async (engine) => {
      const version = engine.nextVersion();
      const puts = [
        [a, "1"],
        [b, "2"],
      ] as const;
      assert.deepEqual(await mustCommit(engine, { version, puts }), [version, version]);
      assert.equal((await getEntry(engine, a))?.version, version);
      assert.deepEqual(
        (await scanAll(engine)).map((entry) => entry.version),
        [version, version],
      );
    }));

  it("raises a put above a version that is already there, and only that put", () =>
    withEngine(async (engine) => {
      const early = engine.nextVersion();
      const stored = await put(engine, a, "1");
      const versions = await mustCommit(engine, {
        version: early,
        puts: [
          [a, "2"],
          [b, "2"],
        ],
      });
      assertAbove(versions[0]!, stored);
      assert.equal(versions[1], early);
      assert.equal((await getEntry(engine, a))?.version, versions[0]);
      assertAbove(engine.nextVersion(), versions[0]!);
    }));

  it("raises a put that comes with the very version that is there", () =>
    withEngine(async (engine) => {
      const version = await put(engine, a, "1");
      const [raised] = await mustCommit(engine, { version, puts: [[a, "2"]] });
      assertAbove(raised!, version);
    }));

  it("hands out no version twice for a key that was deleted in between", () =>
    withEngine(async (engine) => {
      const seen = new Set<number>();
      for (let round = 0; round < 50; round++) {
        seen.add(await put(engine, a, "1"));
        await mustCommit(engine, { deletes: [a] });
      }
      assert.equal(seen.size, 50);
    }));

  it("refuses the version of a deleted entry once the key is back", () =>
    withEngine(async (engine) => {
      const version = await put(engine, a, "1");
      await mustCommit(engine, { deletes: [a] });
      await put(engine, a, "2");
      const result = await commit(engine, { checks: [atVersion(a, version)], deletes: [a] });
      assert.deepEqual(result, { committed: false, failedCheck: 0 });
    }));
}

function testLimits(withEngine: WithEngine): void {
  const shapes: [name: string, of: (length: number) => Key][] = [
    ["all partition", (length) => key(new Array(length).fill(0x61), [])],
    ["all sort", (length) => key([], new Array(length).fill(0x61))],
    ["all partition, of zero bytes", (length) => key(new Array(length).fill(0), [])],
    ["all sort, of zero bytes", (length) => key([], new Array(length).fill(0))],
    ["all partition, of 255s", (length) => key(new Array(length).fill(255), [])],
    ["half and half, zero bytes and others in turn", (length) => halves(length)],
    [
      "nearly all partition, of zero bytes",
      (length) => key(new Array(length - 7).fill(0), [1, 2, 3, 4, 5, 6, 7]),
    ],
  ];
  for (const [name, of] of shapes) {
    it(`takes the longest key it announces, ${name}, and refuses the next`, () =>
      withEngine(async (engine) => {
        const longest = of(engine.keyBytesMax);
        await put(engine, longest, "1");
        assert.equal(await getText(engine, longest), "1");
        assert.equal((await scanAll(engine, { start: longest })).length, 1);

        const tooLong = of(engine.keyBytesMax + 1);
        await assertKeyTooLong(async () => engine.get([a, tooLong]));
        for (const steps of [
          { puts: [[tooLong, "2"]] as const },
          { deletes: [tooLong] },
          { checks: [absent(tooLong)] },
        ]) {
          const others = [[a, "2"]] as const;
          const puts = [...others, ...(steps.puts ?? [])];
          await assertKeyTooLong(() => commit(engine, { ...steps, puts }));
        }
        assert.equal((await scanAll(engine)).length, 1);
        await mustCommit(engine, { deletes: [longest] });
        assert.equal((await scanAll(engine)).length, 0);
      }));
  }

  for (const length of [0, 1, 2048, 1 << 20, 4 << 20]) {
    it(`keeps a value of ${length} bytes`, () =>
      withEngine(async (engine) => {
        const value = patternBytes(length);
        await put(engine, a, value);
        await put(engine, b, "neighbour");
        const entry = await getEntry(engine, a);
        assertSameBytes(entry!.value, value);
        const [scanned] = await scanAll(engine);
        assertSameBytes(scanned!.value, value);
      }));
  }

  it("takes a commit of 1,000 puts", () =>
    withEngine(async (engine) => {
      const puts = Array.from({ length: 1000 }, (_, index) => {
        return [key("p", `${index}`.padStart(4, "0")), `${index}`] as const;
      });
      await mustCommit(engine, { checks: puts.map(([each]) => absent(each)), puts });
      const entries = await scanText(engine);
      assert.deepEqual(
        entries,
        puts.map(([, value]) => `p/${value.padStart(4, "0")}=${value}`),
      );
    }));
}

function halves(length: number): Key {
  const all = Array.from({ length }, (_, index) => (index % 2 === 0 ? 0 : 7));
  return key(all.slice(0, length >> 1), all.slice(length >> 1));
}

async function assertKeyTooLong(call: () => Promise<unknown>): Promise<void> {
  await assert.rejects(
    call,
    (error) => error instanceof EngineError && error.code === "KeyTooLong",
  );
}

function testClose(target: EngineUnderTest, withEngine: WithEngine): void {
  it("refuses every call after close", () =>
    withEngine(async (engine) => {
      await put(engine, a, "1");
      const version = engine.nextVersion();
      await engine.close();
      const calls = [
        async () => engine.get([a]),
        async () => engine.newestCommit(),
        async () => engine.scan({ start: a }, () => true),
        async () => engine.commit({ version, checks: [], puts: [], deletes: [] }),
        async () => engine.update?.(a, () => bytes("2")) ?? engine.get([a]),
      ];
      for (const call of calls) {
        await assert.rejects(
          call,
          (error) => error instanceof EngineError && error.code === "Closed",
        );
      }
    }));

  it("may be closed twice, and twice at once", () =>
    withEngine(async (engine) => {
      await Promise.all([engine.close(), engine.close()]);
      await engine.close();
    }));

  it("waits for the commits under way", () =>
    withEngine(async (engine) => {
      let settled = 0;
      const commits = Array.from({ length: 50 }, async (_, index) => {
        await put(engine, key("p", `${index}`), "1");
        settled++;
      });
      await engine.close();
      await nextMicrotasks();
      assert.equal(settled, 50);
      await Promise.all(commits);
    }));

  const { reopen } = target;
  if (!reopen) return;

  it("finds everything again when it is opened anew", async () => {
    const first = await target.open({ clock: systemClock });
    const versions = await mustCommit(first, {
      puts: [
        [a, "1"],
        [b, patternBytes(100_000)],
      ],
    });
    const before = await scanAll(first);
    await first.close();
    const second = await reopen(first, { clock: systemClock });
    try {
      assert.deepEqual(await scanAll(second), before);
      await mustCommit(second, { checks: [atVersion(a, versions[0]!)], deletes: [a, b] });
    } finally {
      await second.close();
      await target.discard?.(second);
    }
  });

  it("hands out versions above all it wrote although the clock went back meanwhile", async () => {
    const first = await target.open({ clock: { now: () => 2_000_000 } });
    const version = await put(first, a, "1");
    await mustCommit(first, { deletes: [a] });
    await first.close();
    const second = await reopen(first, { clock: { now: () => 1_000_000 } });
    try {
      assertAbove(second.nextVersion(), version);
    } finally {
      await second.close();
      await target.discard?.(second);
    }
  });
}

/** Lets the continuations of promises that have settled run. */
async function nextMicrotasks(): Promise<void> {
  for (let round = 0; round < 10; round++) await Promise.resolve();
}
