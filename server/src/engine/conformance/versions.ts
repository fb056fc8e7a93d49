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
  it("hands out strictly increasing versions in microseconds", () =>
    withEngine(async (engine) => {
      let last = systemClock.now() * 1000 - 1_000_000;
      for (let round = 0; round < 1000; round++) {
        const version = engine.nextVersion();
        assert.equal(Number.isSafeInteger(version), true);
        assertAbove(version, last);
        last = version;
      }
    }));

  it("stores every put with the version of its commit, and returns it from get and scan", () =>
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

  it("raises only the put whose key already has a newer version", () =>
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

  it("raises a put with the same version as the existing entry", () =>
    withEngine(async (engine) => {
      const version = await put(engine, a, "1");
      const [raised] = await mustCommit(engine, { version, puts: [[a, "2"]] });
      assertAbove(raised!, version);
    }));

  it("never reuses a version of a key, even after a delete", () =>
    withEngine(async (engine) => {
      const seen = new Set<number>();
      for (let round = 0; round < 50; round++) {
        seen.add(await put(engine, a, "1"));
        await mustCommit(engine, { deletes: [a] });
      }
      assert.equal(seen.size, 50);
    }));

  it("fails a check for the version of a deleted entry after the key is inserted again", () =>
    withEngine(async (engine) => {
      const version = await put(engine, a, "1");
      await mustCommit(engine, { deletes: [a] });
      await put(engine, a, "2");
      const result = await commit(engine, { checks: [atVersion(a, version)], deletes: [a] });
      assert.deepEqual(result, { committed: false, failedCheck: 0 });
    }));
}
