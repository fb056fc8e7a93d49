import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { Engine } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { MessageCounter } from "./message-counter.ts";
import { readyKey } from "./message-keys.ts";
import { TestStore } from "./test-store.ts";

describe("Messages are counted", () => {
  it("whether they are visible or not, until they expire", async () => {
    const store = await TestStore.open();
    assert.equal(await store.count(), 0);
    await store.put("visible");
    await store.put("hidden", { visibilityTimeoutMs: 1000 });
    await store.put("short", { timeToLiveMs: 500 });
    assert.equal(await store.count(), 3);
    await store.receive();
    assert.equal(await store.count(), 3);
    store.pass(500);
    assert.equal(await store.count(), 2);
  });

  it("afresh each time while they are few", async () => {
    const store = await TestStore.open();
    for (let i = 1; i <= 20; i++) {
      await store.put("one more");
      assert.equal(await store.count(), i);
    }
  });

  it("seldom when they are many, with what was put since on top", async () => {
    const partition = Uint8Array.of(KEY_SPACES.messages, 1);
    const engine = await filled(partition, 10_001);
    const clock = { time: 0, now: () => clock.time };
    let scans = 0;
    // A count takes a second here.
    const slow: Engine = {
      ...engine,
      scan(range, visit) {
        scans++;
        clock.time += 1000;
        return engine.scan(range, visit);
      },
    };
    const counter = new MessageCounter(slow, clock);
    assert.equal(await counter.count(partition), 10_001);
    counter.added(partition);
    clock.time += 8999;
    assert.equal(await counter.count(partition), 10_002);
    assert.equal(scans, 1);
    clock.time += 1;
    assert.equal(await counter.count(partition), 10_001);
    assert.equal(scans, 2);
  });
});

async function filled(partition: Uint8Array, count: number): Promise<Engine> {
  const engine = new MemoryEngine();
  const id = "0123456789abcdef";
  const puts = Array.from({ length: count }, (_, sequence) => ({
    key: readyKey(partition, { visibleAt: 0, sequence, expiresAt: 1e9, id }),
    value: new Uint8Array(0),
  }));
  await engine.commit({ version: engine.nextVersion(), checks: [], puts, deletes: [] });
  return {
    name: engine.name,
    keyBytesMax: engine.keyBytesMax,
    nextVersion: () => engine.nextVersion(),
    newestCommit: () => engine.newestCommit(),
    get: (keys) => engine.get(keys),
    scan: (range, visit) => engine.scan(range, visit),
    commit: (write) => engine.commit(write),
    close: () => engine.close(),
  };
}
