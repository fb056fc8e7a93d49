import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EngineError } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { queuePartition } from "./message-keys.ts";
import { TestStore } from "./test-store.ts";

/** Each scan advances the clock. */
class SlowEngine extends MemoryEngine {
  onScan = () => {};

  override scan(...read: Parameters<MemoryEngine["scan"]>): ReturnType<MemoryEngine["scan"]> {
    const end = super.scan(...read);
    this.onScan();
    return end;
  }
}

/** An engine with one unreadable partition. */
class DamagedEngine extends MemoryEngine {
  damaged: Uint8Array | undefined;

  override scan(...read: Parameters<MemoryEngine["scan"]>): ReturnType<MemoryEngine["scan"]> {
    const [{ start }] = read;
    if (this.damaged && Buffer.compare(start.partition, this.damaged) === 0) {
      throw new EngineError("Corrupt", "Told to be.");
    }
    return super.scan(...read);
  }
}

describe("The sweeper", () => {
  it("deletes expired messages, visible or hidden, and no others", async () => {
    const store = await TestStore.open();
    await store.putMany(300, { timeToLiveMs: 1000 });
    await store.putMany(300, { timeToLiveMs: 1000, visibilityTimeoutMs: 900 });
    await store.putMany(5, { timeToLiveMs: 2000 });
    store.pass(1000);
    await store.sweeper.sweep();
    assert.equal(await store.stored(), 10);
    assert.equal((await store.peek()).length, 5);
  });

  it("deletes expired messages that were received or updated before", async () => {
    const store = await TestStore.open();
    await store.putMany(3, { timeToLiveMs: 1000 });
    const [first] = await store.receive(1, 5000);
    await store.update(first!, 500, "updated");
    await store.receive(1, 100);
    store.pass(1000);
    await store.sweeper.sweep();
    assert.equal(await store.stored(), 0);
  });

  it("does not scan a queue until a message in it expires", async () => {
    const store = await TestStore.open();
    await store.put("x", { timeToLiveMs: 60_000 });
    await store.sweeper.sweep();
    store.pass(59_999);
    store.reads.reset();
    await store.sweeper.sweep();
    assert.equal(store.reads.scans, 1, "the sweeper only lists the queues");
    store.pass(1);
    await store.sweeper.sweep();
    assert.equal(await store.stored(), 0);
  });

  it("deletes a message in time that expires during a sweep", async () => {
    const engine = new SlowEngine();
    const store = await TestStore.open(engine);
    await store.put("x", { timeToLiveMs: 1000 });
    store.pass(998);
    engine.onScan = () => store.pass(1);
    await store.sweeper.sweep();
    await store.sweeper.sweep();
    assert.equal(await store.stored(), 0);
  });

  it("scans again after five minutes even if it expected nothing, and immediately if it is woken", async () => {
    const store = await TestStore.open();
    await store.sweeper.sweep();
    await store.put("x", { timeToLiveMs: 1 });
    store.pass(5 * 60_000 - 1);
    await store.sweeper.sweep();
    assert.equal(await store.stored(), 2);
    store.pass(1);
    await store.sweeper.sweep();
    assert.equal(await store.stored(), 0);

    await store.put("y", { timeToLiveMs: 1 });
    store.pass(1);
    store.sweeper.wake();
    await store.sweeper.sweep();
    await store.sweeper.close();
    assert.equal(await store.stored(), 0);
  });

  it("scans again immediately if it is woken during a sweep", async () => {
    const engine = new SlowEngine();
    const store = await TestStore.open(engine);
    await store.sweeper.sweep();
    await store.put("x", { timeToLiveMs: 1 });
    store.pass(1);
    engine.onScan = () => {
      engine.onScan = () => {};
      queueMicrotask(() => store.sweeper.wake());
    };
    store.sweeper.start();
    for (let turn = 0; turn < 100 && (await store.stored()) > 0; turn++) {
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    await store.sweeper.close();
    assert.equal(await store.stored(), 0);
  });

  it("deletes the expired messages of queues after one that it cannot read", async () => {
    const engine = new DamagedEngine();
    const store = await TestStore.open(engine);
    const { named } = await store.catalog.create("alice", "a-damaged-one", {
      metadata: [],
      policies: [],
    });
    engine.damaged = queuePartition(0, named.id);
    await store.put("x", { timeToLiveMs: 1000 });
    store.pass(1000);
    await assert.rejects(store.sweeper.sweep(), { code: "Corrupt" });
    assert.equal(await store.stored(), 0);
    engine.damaged = undefined;
    await store.sweeper.sweep();
  });

  it("works alongside the sweepers of other servers", async () => {
    const engine = new MemoryEngine();
    const one = await TestStore.open(engine);
    const other = await TestStore.open(engine);
    await one.putMany(600, { timeToLiveMs: 1000 });
    one.pass(1000);
    other.pass(1000);
    await Promise.all([one.sweeper.sweep(), other.sweeper.sweep()]);
    assert.equal(await one.stored(), 0);
  });
});
