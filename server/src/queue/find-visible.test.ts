import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findVisible } from "./find-visible.ts";
import { TestStore } from "./test-store.ts";

describe("Visible messages are found", () => {
  it("in the order in which they became visible", async () => {
    const store = await TestStore.open();
    const late = await store.put("late", { hiddenMs: 20 });
    const soon = await store.put("soon", { hiddenMs: 10 });
    const first = await store.put("first");
    const second = await store.put("second");
    assert.deepEqual(await find(store, 9), [first.id, second.id]);
    store.pass(20);
    assert.deepEqual(await find(store, 9), [first.id, second.id, soon.id, late.id]);
    assert.deepEqual(await find(store, 3), [first.id, second.id, soon.id]);
  });

  it("without a look at hidden ones, however many", async () => {
    const store = await TestStore.open();
    await store.putMany(5000, { hiddenMs: 1000 });
    const visible = await store.put("visible");
    store.reads.reset();
    assert.deepEqual(await find(store, 9), [visible.id]);
    assert.equal(store.reads.entries, 1);
  });

  it("behind any number of expired ones, reading a few hundred of them", async () => {
    const store = await TestStore.open();
    await store.putMany(5000, { lifeMs: 1000 });
    const first = await store.put("first");
    const second = await store.put("second", { lifeMs: 2000 });
    store.pass(1000);
    store.reads.reset();
    assert.deepEqual(await find(store, 9), [first.id, second.id]);
    assert.ok(store.reads.entries < 300, `${store.reads.entries} entries were read`);
    assert.deepEqual(await find(store, 1), [second.id], "the one that expires first will do");
  });

  it("even when hidden messages stand in front in the order of expiry, too", async () => {
    const store = await TestStore.open();
    await store.putMany(300, { lifeMs: 1000 });
    await store.putMany(1500, { lifeMs: 3000, hiddenMs: 2500 });
    const visible = await store.put("visible");
    store.pass(1000);
    assert.deepEqual(await find(store, 9), [visible.id]);
  });

  it("only while they have not expired", async () => {
    const store = await TestStore.open();
    await store.put("short", { lifeMs: 1000 });
    store.pass(999);
    assert.equal((await find(store, 9)).length, 1);
    store.pass(1);
    assert.equal((await find(store, 9)).length, 0);
  });

  it("with a call for the sweeper when many expired ones are in the way", async () => {
    const store = await TestStore.open();
    await store.putMany(255, { lifeMs: 1000 });
    store.pass(1000);
    await store.receive();
    assert.equal(store.calls, 0);
    await store.put("one more", { lifeMs: 1 });
    store.pass(1);
    await store.receive();
    assert.equal(store.calls, 1);
  });
});

async function find(store: TestStore, max: number): Promise<string[]> {
  const { reads: engine, partition, clock } = store;
  const search = { engine, partition, now: clock.now(), max, take: () => true };
  const { places } = await findVisible(search);
  return places.map(({ id }) => id);
}
