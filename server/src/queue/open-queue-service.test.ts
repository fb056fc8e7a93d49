import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { openQueueService } from "./open-queue-service.ts";
import { textsOf } from "./test-store.ts";

const HOUR_MS = 3_600_000;

describe("The Queue service in the background", () => {
  it("frees no message by a clock that jumped, and has them all when that is set right", async () => {
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
});
