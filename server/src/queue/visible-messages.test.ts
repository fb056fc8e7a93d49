import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { queuePartition, readReadyKey } from "./message-keys.ts";
import { TestStore } from "./test-store.ts";
import { VisibleMessages } from "./visible-messages.ts";

describe("Visible messages are found", () => {
  it("in the order in which they became visible", async () => {
    const store = await TestStore.open();
    const late = await store.put("late", { visibilityTimeoutMs: 20 });
    const soon = await store.put("soon", { visibilityTimeoutMs: 10 });
    const first = await store.put("first");
    const second = await store.put("second");
    assert.deepEqual(await find(store, 9), [first.id, second.id]);
    store.pass(20);
    assert.deepEqual(await find(store, 9), [first.id, second.id, soon.id, late.id]);
    assert.deepEqual(await find(store, 3), [first.id, second.id, soon.id]);
  });

  it("without reading hidden ones, however many", async () => {
    const store = await TestStore.open();
    await store.putMany(5000, { visibilityTimeoutMs: 1000 });
    const visible = await store.put("visible");
    store.reads.reset();
    assert.deepEqual(await find(store, 9), [visible.id]);
    assert.equal(store.reads.entries, 1);
  });

  it("behind 5,000 expired ones by reading fewer than 300 entries", async () => {
    const store = await TestStore.open();
    await store.putMany(5000, { timeToLiveMs: 1000 });
    const first = await store.put("first");
    const second = await store.put("second", { timeToLiveMs: 2000 });
    store.pass(1000);
    store.reads.reset();
    assert.deepEqual(await find(store, 9), [first.id, second.id]);
    assert.ok(store.reads.entries < 300, `${store.reads.entries} entries were read`);
    assert.deepEqual(await find(store, 1), [second.id], "the one that expires first is found");
  });

  it("even if hidden messages come first in the order of expiry", async () => {
    const store = await TestStore.open();
    await store.putMany(300, { timeToLiveMs: 1000 });
    await store.putMany(1500, { timeToLiveMs: 3000, visibilityTimeoutMs: 2500 });
    const visible = await store.put("visible");
    store.pass(1000);
    assert.deepEqual(await find(store, 9), [visible.id]);
  });

  it("without reading the same expired messages twice", async () => {
    const store = await TestStore.open();
    await store.putMany(3000, { timeToLiveMs: 1000 });
    await store.putMany(1500, { timeToLiveMs: 20_000, visibilityTimeoutMs: 19_000 });
    store.pass(8000);
    const visible = await store.put("visible");
    assert.deepEqual(await find(store, 9), [visible.id]);
    store.reads.reset();
    const next = await store.put("next");
    assert.deepEqual(await find(store, 9), [visible.id, next.id]);
    assert.ok(store.reads.entries < 260, `${store.reads.entries} entries were read`);
  });

  it("without looking where received ones were, of which a database may keep dead rows", async () => {
    const store = await TestStore.open();
    await store.putMany(9);
    store.pass(6_000);
    await find(store, 1);
    await store.receive(5);
    store.pass(1_000);
    const [sixth] = await find(store, 1);
    await find(store, 1);
    assert.equal(readReadyKey(store.reads.scanStart!).id, sixth);
    // A message that comes at each moment is too new for servers whose clocks differ, the one before is not.
    await store.receive(4);
    for (let seconds = 0; seconds < 20; seconds++) {
      await store.put("next");
      store.pass(1_000);
      await find(store, 1);
      await store.receive(1);
    }
    const { visibleAt } = readReadyKey(store.reads.scanStart!);
    assert.ok(store.clock.now() - visibleAt <= 12_000, `${store.clock.now() - visibleAt} ms ago`);
  });

  it("separately for each queue: one queue's known end of expired messages does not affect another", async () => {
    const store = await TestStore.open();
    await store.putMany(300, { timeToLiveMs: 1000 });
    await store.put("visible");
    store.pass(8000);
    assert.equal((await find(store, 9)).length, 1);
    const beside = queuePartition(0, 4711);
    assert.deepEqual(await find(store, 9, beside), []);
  });

  it("within 30 seconds if a server whose clock is behind has put them", async () => {
    const store = await TestStore.open();
    await store.putMany(600, { timeToLiveMs: 1000 });
    store.pass(60_000);
    await find(store, 9);
    store.pass(-60_001);
    const late = await store.put("late", { timeToLiveMs: 200_000 });
    store.pass(60_001);
    // The order of expiry would find it immediately, were there not others in front of it.
    await store.putMany(1100, { timeToLiveMs: 100_000, visibilityTimeoutMs: 99_000 });
    assert.deepEqual(await find(store, 9), []);
    store.pass(30_000);
    assert.deepEqual(await find(store, 9), [late.id]);
  });

  it("only while they have not expired", async () => {
    const store = await TestStore.open();
    await store.put("short", { timeToLiveMs: 1000 });
    store.pass(999);
    assert.equal((await find(store, 9)).length, 1);
    store.pass(1);
    assert.equal((await find(store, 9)).length, 0);
  });

  it("with a call to the sweeper if 256 expired ones are in the way", async () => {
    const store = await TestStore.open();
    await store.putMany(255, { timeToLiveMs: 1000 });
    store.pass(1000);
    await store.receive();
    assert.equal(store.calls, 0);
    await store.put("one more", { timeToLiveMs: 1 });
    store.pass(1);
    await store.receive();
    assert.equal(store.calls, 1);
  });
});

const finders = new WeakMap<TestStore, VisibleMessages>();

async function find(
  store: TestStore,
  max: number,
  partition: Uint8Array = store.partition,
): Promise<string[]> {
  const finder = finders.get(store) ?? new VisibleMessages(store.reads, () => {});
  finders.set(store, finder);
  const now = store.clock.now();
  const places = await finder.find({ partition, now, max, take: () => true });
  return places.map(({ id }) => id);
}
