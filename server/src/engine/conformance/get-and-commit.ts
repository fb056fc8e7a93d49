import assert from "node:assert/strict";
import { it } from "node:test";
import type { Key } from "../engine.ts";
import {
  absent,
  bytes,
  commit,
  getEntry,
  getText,
  key,
  mustCommit,
  put,
  scanAll,
  scanText,
  type WithEngine,
} from "./steps.ts";

const a = key("p", "a");
const b = key("p", "b");
const c = key("p", "c");

export function testGetAndCommit(withEngine: WithEngine): void {
  it("returns the entries of get in the order of its keys, including absent and repeated ones", () =>
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

  it("ends get once the values reach bytesMax, after at least one key", () =>
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

  it("asserts that no key is both put and deleted, before writing anything", () =>
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
        // A read just before, in the same turn of the event loop, must not fix what later reads see.
        await engine.get([a]);
        await put(engine, a, `${round}`);
        assert.equal(await getText(engine, a), `${round}`);
        assert.deepEqual(await scanText(engine), [`p/a=${round}`]);
      }
      await mustCommit(engine, { deletes: [a] });
      assert.equal(await getText(engine, a), undefined);
      assert.deepEqual(await scanAll(engine), []);
    }));

  it("if it numbers commits, numbers every commit that writes before it resolves, and no read", () =>
    withEngine(async (engine) => {
      const seen = [engine.newestCommit()];
      await put(engine, a, "1");
      seen.push(engine.newestCommit());
      await put(engine, a, "1");
      seen.push(engine.newestCommit());
      await mustCommit(engine, { deletes: [a] });
      seen.push(engine.newestCommit());
      if (engine.supports.update) await engine.update!(a, () => bytes("2"));
      else await put(engine, a, "2");
      seen.push(engine.newestCommit());
      const [first] = seen;
      assert.equal(new Set(seen).size, first === undefined ? 1 : seen.length);
      await getText(engine, a);
      await scanAll(engine);
      assert.equal(engine.newestCommit(), seen.at(-1));
    }));

  it("replaces, adds and deletes in one commit, also across partitions", () =>
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

  it("deletes one key and inserts another in one commit", () =>
    withEngine(async (engine) => {
      await mustCommit(engine, { puts: [[a, "1"]] });
      await mustCommit(engine, { checks: [absent(b)], puts: [[b, "2"]], deletes: [a] });
      assert.deepEqual(await scanText(engine), ["p/b=2"]);
    }));

  it("accepts a delete of an absent key", () =>
    withEngine(async (engine) => {
      assert.deepEqual(await mustCommit(engine, { deletes: [a] }), []);
    }));

  it("accepts an empty commit", () =>
    withEngine(async (engine) => {
      assert.deepEqual(await commit(engine, {}), { committed: true, versions: [] });
    }));

  it("copies the bytes of a commit before it resolves", () =>
    withEngine(async (engine) => {
      const partition = Buffer.from("p");
      const sort = Buffer.from("a");
      const value = Buffer.from("1");
      await mustCommit(engine, { puts: [[{ partition, sort }, value]] });
      for (const given of [partition, sort, value]) given.fill("x");
      assert.deepEqual(await scanText(engine), ["p/a=1"]);
    }));

  it("leaves the bytes of an earlier get unchanged when the entry changes", () =>
    withEngine(async (engine) => {
      await put(engine, a, "before");
      const entry = await getEntry(engine, a);
      await put(engine, a, "behind");
      await getEntry(engine, a);
      assert.equal(Buffer.from(entry!.value).toString(), "before");
    }));

  it("distinguishes keys whose concatenated bytes are the same", () =>
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
