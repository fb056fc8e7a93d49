import assert from "node:assert/strict";
import { it } from "node:test";
import type { Awaitable } from "../../awaitable.ts";
import type { Entry, Key } from "../engine.ts";
import { after, afterPartition, compareKeys, partitionRange } from "../key-codec.ts";
import { scanToEnd } from "../scan-to-end.ts";
import {
  assertSameBytes,
  between,
  busyWait,
  bytes,
  EMPTY_KEY,
  key,
  mustCommit,
  nextTurn,
  patternBytes,
  put,
  scanAll,
  scanOnce,
  scanText,
  text,
  type WithEngine,
} from "./steps.ts";

/** Key parts that a careless encoding of pairs puts in the wrong order. */
const TRICKY_PARTS: readonly (readonly number[])[] = [
  [],
  [0],
  [0, 0],
  [0, 1],
  [0, 2],
  [0, 255],
  [1],
  [1, 0],
  [2],
  [97],
  [97, 0],
  [97, 0, 0],
  [97, 0, 255],
  [97, 1],
  [97, 98],
  [97, 255],
  [98],
  [127],
  [128],
  [254, 255],
  [255],
  [255, 0],
  [255, 255],
];

export function testScans(withEngine: WithEngine): void {
  it("visits keys in ascending unsigned byte order, partition first", () =>
    withEngine(async (engine) => {
      const keys = TRICKY_PARTS.flatMap((partition) =>
        TRICKY_PARTS.map((sort) => key(partition, sort)),
      );
      // Written out of order: 7 and the number of keys have no common divisor.
      const shuffled = keys.map((_, index) => keys[(index * 7) % keys.length]!);
      await mustCommit(engine, { puts: shuffled.map((each) => [each, "1"] as const) });
      const visited = (await scanAll(engine)).map((entry) => entry.key);
      assert.deepEqual(visited, keys.sort(compareKeys));
    }));

  it("starts and ends exactly at the given positions, for tricky keys", () =>
    withEngine(async (engine) => {
      const parts = TRICKY_PARTS.filter((_, index) => index % 3 === 0);
      const keys = parts.flatMap((partition) => parts.map((sort) => key(partition, sort)));
      await mustCommit(engine, { puts: keys.map((each) => [each, "1"] as const) });
      keys.sort(compareKeys);
      const positions = [...keys.filter((_, index) => index % 5 === 0), key([97, 0], [0, 2])];
      for (const start of positions) {
        for (const end of positions) {
          const visited = (await scanAll(engine, { start, end })).map((entry) => entry.key);
          const expected = keys.filter(
            (each) => compareKeys(each, start) >= 0 && compareKeys(each, end) < 0,
          );
          assert.deepEqual(visited, expected);
        }
      }
    }));

  it("includes the start of a range and excludes its end", () =>
    withEngine(async (engine) => {
      await putSorts(engine, ["a", "b", "c", "d"]);
      const range = { start: key("p", "b"), end: key("p", "d") };
      assert.deepEqual(await scanText(engine, range), ["p/b=b", "p/c=c"]);
      assert.deepEqual(await scanText(engine, between(key("p", "c"), key("p", "d"))), [
        "p/c=c",
        "p/d=d",
      ]);
    }));

  it("visits nothing in an empty range, a reversed one, or one between adjacent keys", () =>
    withEngine(async (engine) => {
      await putSorts(engine, ["a", "b"]);
      const empty: [start: Key, end: Key][] = [
        [key("p", "a"), key("p", "a")],
        [key("p", "b"), key("p", "a")],
        [key("q", ""), key("a", "")],
        [after(key("p", "a")), key("p", "b")],
        [key("p", "c"), key("q", "")],
      ];
      for (const [start, end] of empty) {
        assert.deepEqual(await scanOnce(engine, { start, end }), { entries: [], end: "complete" });
      }
    }));

  it("ends as complete on an empty engine", () =>
    withEngine(async (engine) => {
      const nothing = { entries: [], end: "complete" };
      assert.deepEqual(await scanOnce(engine, { start: EMPTY_KEY }), nothing);
    }));

  it("continues to the last key, across partitions, when the range has no end", () =>
    withEngine(async (engine) => {
      const puts = ["a", "b", "c"].map((partition) => [key(partition, "x"), partition] as const);
      await mustCommit(engine, { puts });
      assert.deepEqual(await scanText(engine, { start: key("a", "y") }), ["b/x=b", "c/x=c"]);
      const range = { start: key("a", "x"), end: key("c", "x") };
      assert.deepEqual(await scanText(engine, range), ["a/x=a", "b/x=b"]);
    }));

  it("visits exactly the entries left after a long run is deleted, and all after it is put again", () =>
    withEngine(async (engine) => {
      const keys = Array.from({ length: 2000 }, (_, i) => key("p", `${i}`.padStart(4, "0")));
      const run = keys.slice(500, 1500);
      const sorts = async () => (await scanAll(engine)).map((entry) => text(entry.key.sort));
      await mustCommit(engine, { puts: keys.map((each) => [each, "1"] as const) });
      await mustCommit(engine, { deletes: run });
      const left = [...keys.slice(0, 500), ...keys.slice(1500)];
      assert.deepEqual(
        await sorts(),
        left.map(({ sort }) => text(sort)),
      );
      await mustCommit(engine, { puts: run.map((each) => [each, "2"] as const) });
      assert.deepEqual(
        await sorts(),
        keys.map(({ sort }) => text(sort)),
      );
    }));

  it("visits one partition only for the range of that partition", () =>
    withEngine(async (engine) => {
      const partitions = [[97], [97, 0], [97, 0, 0], [97, 1], [96, 255], [98]];
      await mustCommit(engine, {
        puts: partitions.flatMap((partition) => [
          [key(partition, []), "1"] as const,
          [key(partition, [255, 255]), "2"] as const,
        ]),
      });
      for (const partition of partitions) {
        const entries = await scanAll(engine, partitionRange(Uint8Array.from(partition)));
        assert.deepEqual(
          entries.map((entry) => entry.key),
          [key(partition, []), key(partition, [255, 255])],
        );
      }
    }));

  it("accepts bounds longer than any key", () =>
    withEngine(async (engine) => {
      const longest = key("p", new Array(engine.keyBytesMax - 1).fill(97));
      const below = key("p", [...new Array(engine.keyBytesMax - 2).fill(97), 96]);
      await mustCommit(engine, {
        puts: [
          [below, "1"],
          [longest, "2"],
          [key("q", ""), "3"],
        ],
      });
      assert.equal((await scanAll(engine, { start: after(longest) })).length, 1);
      assert.equal((await scanAll(engine, { start: EMPTY_KEY, end: after(longest) })).length, 2);
      const long = key("p", new Array(20_000).fill(97));
      assert.equal((await scanAll(engine, { start: long })).length, 1);
      assert.equal((await scanAll(engine, { start: EMPTY_KEY, end: long })).length, 2);
      const zeros = key(new Array(20_000).fill(0), []);
      assert.equal((await scanAll(engine, { start: zeros })).length, 3);
      assert.equal((await scanAll(engine, { start: afterPartition(zeros.partition) })).length, 3);
    }));

  it("stops when visit returns false, and visits no further entry", () =>
    withEngine(async (engine) => {
      await putSorts(engine, ["a", "b", "c"]);
      const { entries, end } = await scanOnce(
        engine,
        { start: EMPTY_KEY },
        (entry) => text(entry.value) !== "b",
      );
      assert.equal(end, "stopped");
      assert.deepEqual(
        entries.map((entry) => text(entry.value)),
        ["a", "b"],
      );
    }));

  it("ends as stopped when visit returns false at the last entry", () =>
    withEngine(async (engine) => {
      await putSorts(engine, ["a"]);
      const { end } = await scanOnce(engine, { start: EMPTY_KEY }, () => false);
      assert.equal(end, "stopped");
    }));

  it("fails with the error that visit throws, and keeps working", () =>
    withEngine(async (engine) => {
      await putSorts(engine, ["a", "b"]);
      const mistake = new Error("visit failed");
      // More often than an engine has readers or connections: each scan must have released what it held.
      for (let round = 0; round < 300; round++) {
        let visits = 0;
        await assert.rejects(
          async () =>
            engine.scan({ start: EMPTY_KEY }, () => {
              visits++;
              throw mistake;
            }),
          (error) => error === mistake,
        );
        assert.equal(visits, 1);
      }
      await put(engine, key("p", "c"), "c");
      assert.deepEqual(await scanText(engine), ["p/a=a", "p/b=b", "p/c=c"]);
    }));

  it("allows visit to get and scan, and leaves its lent entry unchanged", () =>
    withEngine(async (engine) => {
      await putSorts(engine, ["a", "b"]);
      const inner: Promise<string[]>[] = [];
      const found: Awaitable<(Entry | undefined)[]>[] = [];
      const outer: string[] = [];
      await scanToEnd(engine, { start: EMPTY_KEY }, ({ key: lent, value }) => {
        inner.push(scanText(engine));
        outer.push(`${text(lent.sort)}=${text(value)}`);
        found.push(engine.get([key("p", "b"), key("p", "a")]));
        outer.push(`${text(lent.sort)}=${text(value)}`);
        return true;
      });
      assert.deepEqual(outer, ["a=a", "a=a", "b=b", "b=b"]);
      for (const each of inner) assert.deepEqual(await each, ["p/a=a", "p/b=b"]);
      for (const each of found) {
        assert.deepEqual(
          (await each).map((entry) => entry && text(entry.value)),
          ["b", "a"],
        );
      }
    }));

  it("yields to the event loop during a slow scan", () =>
    withEngine(async (engine) => {
      const sorts = Array.from({ length: 60 }, (_, index) => `${index}`.padStart(2, "0"));
      await putSorts(engine, sorts);
      let othersRan = false;
      const turn = nextTurn().then(() => {
        othersRan = true;
      });
      let visited = 0;
      let visitedAlone = 0;
      const end = await engine.scan({ start: EMPTY_KEY }, () => {
        visited++;
        if (!othersRan) visitedAlone++;
        busyWait(1);
        return true;
      });
      await turn;
      assert.notEqual(end, "stopped");
      assert.ok(visitedAlone < sorts.length, "No other task ran during 60 ms of scanning.");
      if (end === "complete") assert.equal(visited, sorts.length);
    }));

  it("visits every wanted entry, and reports the number of those it leaves out", () =>
    withEngine(async (engine) => {
      const sorts = Array.from({ length: 60 }, (_, index) => `${index}`.padStart(2, "0"));
      const partitions = Array.from({ length: 50 }, (_, index) => `p${index}`.padStart(3, "p"));
      for (const each of partitions) {
        await mustCommit(engine, { puts: sorts.map((sort) => [key(each, sort), sort] as const) });
      }
      const wantedOf: [bounds: string[], sorts: string[]][] = [
        [["07", "07\0"], ["07"]],
        [
          ["", "02", "30", "31", "59"],
          ["00", "01", "30", "59"],
        ],
        [["58\0"], ["59"]],
        [["a"], []],
        [[], []],
        [[""], sorts],
      ];
      const range = { start: key("p", ""), end: key("q", "") };
      for (const [bounds, expected] of wantedOf) {
        const visited: string[] = [];
        let leftOut = 0;
        const end = await scanToEnd(
          engine,
          range,
          ({ key: { partition, sort } }) => visited.push(text(partition) + text(sort)) > 0,
          {
            wanted: {
              bounds: bounds.map(bytes),
              leftOut: (count) => {
                leftOut += count;
                return true;
              },
            },
          },
        );
        assert.equal(end, "complete");
        assert.equal(visited.length + leftOut, partitions.length * sorts.length);
        const isWanted = (name: string) => expected.includes(name.slice(3));
        const named = partitions.sort().flatMap((each) => sorts.map((sort) => each + sort));
        assert.deepEqual(visited.filter(isWanted), named.filter(isWanted));
      }
    }));

  it("ends when leftOut returns false, and can be resumed without skipping an entry", () =>
    withEngine(async (engine) => {
      const sorts = Array.from({ length: 100 }, (_, index) => `${index}`.padStart(2, "0"));
      for (let index = 0; index < 30; index++) {
        const puts = sorts.map((sort) => [key(`p${index + 10}`, sort), sort] as const);
        await mustCommit(engine, { puts });
      }
      const end = key("q", "");
      const wanted: string[] = [];
      let seen = 0;
      let start = key("p", "");
      for (;;) {
        const ended = await engine.scan(
          { start, end },
          ({ key: { partition, sort } }) => {
            seen++;
            if (text(sort) === "50") wanted.push(text(partition));
            return true;
          },
          {
            wanted: {
              bounds: [bytes("50"), bytes("51")],
              leftOut: (count) => {
                seen += count;
                return false;
              },
            },
          },
        );
        if (typeof ended === "string") break;
        start = ended.resumeAt;
      }
      assert.deepEqual(
        wanted,
        Array.from({ length: 30 }, (_, index) => `p${index + 10}`),
      );
      assert.equal(seen, 3000);
    }));

  it("scans large values completely between small ones", () =>
    withEngine(async (engine) => {
      const lengths = [10, 1 << 20, 0, 5000, 2 << 20, 1];
      for (const [index, length] of lengths.entries()) {
        await put(engine, key("p", `${index}`), patternBytes(length));
      }
      const entries = await scanAll(engine);
      assert.equal(entries.length, lengths.length);
      for (const [index, entry] of entries.entries()) {
        assertSameBytes(entry.value, patternBytes(lengths[index]!));
      }
    }));
}

async function putSorts(
  engine: Parameters<typeof mustCommit>[0],
  sorts: readonly string[],
): Promise<void> {
  await mustCommit(engine, { puts: sorts.map((sort) => [key("p", sort), sort] as const) });
}
