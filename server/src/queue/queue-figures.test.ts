import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openAccountIds } from "../catalog/account-ids.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { QueueFigures } from "./queue-figures.ts";
import { TestStore } from "./test-store.ts";

describe("The figures of queues", () => {
  it("are the queues, their unexpired messages, and the longest wait of a visible one", async () => {
    const engine = new MemoryEngine();
    await openAccountIds(engine, ["alice"]);
    const store = await TestStore.open(engine);
    const figures = new QueueFigures(engine, store.clock);
    assert.deepEqual(Object.values(await figures.counts()), [1, 0, 0]);
    await store.put("expires", { timeToLiveMs: 1000 });
    store.pass(2000);
    await store.put("hidden", { visibilityTimeoutMs: 60_000 });
    assert.deepEqual(Object.values(await figures.counts()), [1, 1, 0]);
    await store.put("waits");
    store.pass(5000);
    assert.deepEqual(Object.values(await figures.counts()), [1, 2, 5000]);
    await store.receive();
    assert.deepEqual(Object.values(await figures.counts()), [1, 2, 0]);
  });
});
