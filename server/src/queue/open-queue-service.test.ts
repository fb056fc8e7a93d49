import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { openQueueService } from "./open-queue-service.ts";
import { textsOf } from "./test-store.ts";

const HOUR_MS = 3_600_000;
const TEXT = Buffer.from("x");

describe("The Queue service in the background", () => {
  it("deletes no message while the clock is ahead, so that all are back when it is corrected", async () => {
    const clock = { time: Date.UTC(2026, 6, 31), now: () => clock.time };
    const begunAt = clock.time;
    const queue = { account: "alice", name: "orders" };
    const { service, sweeper } = openQueueService({
      engine: new MemoryEngine({ clock }),
      clock,
      ageClock: { now: () => begunAt },
      accountIds: new Map([["alice", 0]]),
      onError: assert.ifError,
    });
    const { catalog, messages } = service.context;
    await catalog.create("alice", "orders", { metadata: [], policies: [] });
    const text = Buffer.from("kept");
    await messages.put(queue, { text, visibilityTimeoutMs: 0, timeToLiveMs: HOUR_MS });
    clock.time += 2 * HOUR_MS;
    assert.deepEqual(await messages.peek(queue, 1), []);
    await sweeper.sweep();
    clock.time -= 2 * HOUR_MS;
    assert.deepEqual(textsOf(await messages.peek(queue, 1)), ["kept"]);
  });

  for (const [what, ageBehindMs] of [
    ["sweeps all queues if expired messages are in the way of a receive", 0],
    ["sweeps no queue if messages only seem expired because the clock jumped", 2 * HOUR_MS],
  ] as const) {
    it(what, async () => {
      const clock = { time: Date.UTC(2026, 6, 31), now: () => clock.time };
      const engine = new MemoryEngine({ clock });
      const { service, sweeper } = openQueueService({
        engine,
        clock,
        ageClock: { now: () => clock.time - ageBehindMs },
        accountIds: new Map([["alice", 0]]),
        onError: assert.ifError,
      });
      const { catalog, messages } = service.context;
      const names = Array.from({ length: 50 }, (_, index) => `queue${index}`);
      for (const name of names) await catalog.create("alice", name, { metadata: [], policies: [] });
      const queue = { account: "alice", name: "queue0" };
      const put = () =>
        messages.put(queue, { text: TEXT, visibilityTimeoutMs: 0, timeToLiveMs: HOUR_MS });
      for (let i = 0; i < 1000; i++) await put();
      clock.time += 2 * HOUR_MS;
      await put();
      let scans = 0;
      const scan = engine.scan.bind(engine);
      engine.scan = (...range) => {
        scans++;
        return scan(...range);
      };
      assert.equal(
        (await messages.receive(queue, { max: 1, visibilityTimeoutMs: 1000 })).length,
        1,
      );
      const looksAtAll = ageBehindMs === 0;
      while (looksAtAll && scans <= names.length) await nextTurn();
      // By then, a sweeper that was woken is done: a memory engine answers synchronously.
      for (let turn = 0; turn < 1000; turn++) await nextTurn();
      await sweeper.close();
      assert.equal(scans > names.length, looksAtAll, `${scans} scans`);
    });
  }
});
