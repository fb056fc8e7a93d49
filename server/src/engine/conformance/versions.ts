import assert from "node:assert/strict";
import { it } from "node:test";
import { systemClock } from "../../clock.ts";
import {
  assertAbove,
  atVersion,
  commit,
  getEntry,
  key,
  mustCommit,
  put,
  scanAll,
  type WithEngine,
} from "./steps.ts";

const a = key("p", "a");
const b = key("p", "b");

export function testVersions(withEngine: WithEngine): void {
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
