import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Dispenser } from "./dispenser.ts";
import { TestStore } from "./test-store.ts";
import { VisibleMessages } from "./visible-messages.ts";

describe("The dispenser", () => {
  it("gives each message to one receiver, with one search for all concurrent receivers", async () => {
    const { store, dispenser } = await open(40);
    store.reads.reset();
    const dealt = await claims(dispenser, store, Array(20).fill({ max: 2, lost: 0 }));
    assert.equal(new Set(dealt.flat()).size, 40);
    assert.ok(dealt.every((ids) => ids.length === 2));
    assert.equal(store.reads.scans, 1);
    assert.equal(store.reads.entries, 40);
  });

  it("withholds a claimed message from other receivers until it is given back", async () => {
    const { store, dispenser } = await open(2);
    const first = await dispenser.claim(store.partition, { max: 1, lost: 0 });
    const [second] = await claims(dispenser, store, [{ max: 9, lost: 0 }]);
    assert.equal(second?.length, 1);
    assert.deepEqual(await claims(dispenser, store, [{ max: 9, lost: 0 }]), [[]]);
    dispenser.giveBack(first);
    assert.deepEqual(await claims(dispenser, store, [{ max: 9, lost: 0 }]), [
      first.map(({ id }) => id),
    ]);
  });

  it("gives the available messages to the first receivers, and none to the rest", async () => {
    const { store, dispenser } = await open(3);
    const dealt = await claims(dispenser, store, Array(3).fill({ max: 2, lost: 0 }));
    assert.deepEqual(
      dealt.map((ids) => ids.length),
      [2, 1, 0],
    );
  });

  it("picks at random among more messages for a receiver that lost races", async () => {
    const { store, dispenser } = await open(64);
    const chosen = new Set<string>();
    for (let i = 0; i < 60; i++) {
      const places = await dispenser.claim(store.partition, { max: 1, lost: 6 });
      chosen.add(places[0]!.id);
      dispenser.giveBack(places);
    }
    assert.ok(chosen.size > 10, `${chosen.size} of 64 were chosen`);
  });

  it("makes several searches if one cannot serve all receivers", async () => {
    const { store, dispenser } = await open(100);
    const dealt = await claims(dispenser, store, Array(100).fill({ max: 32, lost: 0 }));
    assert.equal(new Set(dealt.flat()).size, 100);
  });

  it("fails all waiting receivers if the engine fails, and then continues", async () => {
    const { store, dispenser } = await open(1);
    const { reads } = store;
    const scan = reads.scan.bind(reads);
    reads.scan = () => {
      throw new Error("gone");
    };
    const waiting = [1, 2].map(() => dispenser.claim(store.partition, { max: 1, lost: 0 }));
    for (const each of await Promise.allSettled(waiting)) assert.equal(each.status, "rejected");
    reads.scan = scan;
    const [dealt] = await claims(dispenser, store, [{ max: 1, lost: 0 }]);
    assert.equal(dealt?.length, 1);
  });
});

async function open(messages: number) {
  const store = await TestStore.open();
  await store.putMany(messages);
  const visible = new VisibleMessages(store.reads, () => {});
  return { store, dispenser: new Dispenser(visible, store.clock) };
}

async function claims(
  dispenser: Dispenser,
  { partition }: TestStore,
  asked: readonly { max: number; lost: number }[],
): Promise<string[][]> {
  const dealt = await Promise.all(asked.map((each) => dispenser.claim(partition, each)));
  return dealt.map((places) => places.map(({ id }) => id));
}
