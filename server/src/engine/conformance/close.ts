import assert from "node:assert/strict";
import { it } from "node:test";
import { systemClock } from "../../clock.ts";
import { EngineError } from "../engine.ts";
import {
  assertAbove,
  atVersion,
  bytes,
  type EngineUnderTest,
  key,
  mustCommit,
  patternBytes,
  put,
  scanAll,
  type WithEngine,
} from "./steps.ts";

const a = key("p", "a");
const b = key("p", "b");

export function testClose(target: EngineUnderTest, withEngine: WithEngine): void {
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
        ...(engine.supports.update ? [async () => engine.update!(a, () => bytes("2"))] : []),
        ...(engine.supports.scanRanges ? [async () => engine.scanRanges!([], () => true)] : []),
      ];
      for (const call of calls) {
        await assert.rejects(
          call,
          (error) => error instanceof EngineError && error.code === "Closed",
        );
      }
    }));

  it("may be closed twice, also concurrently", () =>
    withEngine(async (engine) => {
      await Promise.all([engine.close(), engine.close()]);
      await engine.close();
    }));

  it("waits for the commits in flight", () =>
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

  it("has all entries and versions when it is opened again", async () => {
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

  it("hands out versions above all written ones when it is opened again with an earlier clock", async () => {
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

/** Lets the continuations of settled promises run. */
async function nextMicrotasks(): Promise<void> {
  for (let round = 0; round < 10; round++) await Promise.resolve();
}
