import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import { type Engine, EngineError } from "@rowhouse/server/engine/engine";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import type { Message } from "@rowhouse/server/queue/message-record";
import { TestStore } from "@rowhouse/server/queue/test-store";
import { openDatabaseEngine } from "../support/database-engine.ts";
import { withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { seed, times } from "./settings.ts";
import { unsteady } from "./unsteady-engine.ts";

describe(`Many clients of one queue (seed ${seed}, SIMULATION_SEED repeats it)`, () => {
  it("never hold a message at the same time and lose none, on two servers in memory", async () => {
    await simulate(new MemoryEngine(), seed, 1500 * times);
  });

  it("never hold a message at the same time and lose none, on two servers and LMDB", async () => {
    await withFolder(async (path) => simulate(await openLmdbEngine({ path }), seed, 300 * times));
  });

  it("never hold a message at the same time and lose none, on two servers and PostgreSQL", async () => {
    await simulate(await openDatabaseEngine(), seed, 200 * times);
  });

  it("receive each of 200 messages exactly once, and find the queue empty only once all are being received", async () => {
    const engine = unsteady(new MemoryEngine(), seededRandom(seed), { refusals: 0 });
    const stores = [await TestStore.open(engine)];
    stores.push(TestStore.reopen(engine, stores[0]!.clock.time));
    await stores[0]!.putMany(200);
    const taken: string[] = [];
    let isEmpty = false;
    const takeAll = async (store: TestStore) => {
      for (;;) {
        const wasEmpty = isEmpty;
        const messages = await store.receive(2);
        isEmpty ||= messages.length === 0;
        if (messages.length === 0) return;
        assert.ok(!wasEmpty, "a consumer was told that the queue is empty too early");
        taken.push(...messages.map(({ id }) => id));
      }
    };
    await Promise.all(Array.from({ length: 16 }, (_, i) => takeAll(stores[i % 2]!)));
    assert.equal(taken.length, 200);
    assert.equal(new Set(taken).size, 200);
  });
});

/** A successful action on a message, as the client that did it learned its result. */
type Deed =
  | { readonly kind: "put" | "update"; readonly message: Message }
  | { readonly kind: "receive"; readonly message: Message; readonly at: number };

/** Twelve clients act at random, on two stores over one engine, while time passes. */
async function simulate(engine: Engine, seed: number, steps: number): Promise<void> {
  const random = seededRandom(seed);
  const below = (count: number) => Math.floor(random() * count);
  const shaky = unsteady(engine, random, { refusals: 0.02 });
  let now = Date.UTC(2026, 6, 31);
  await TestStore.open(engine);
  const stores = [TestStore.reopen(shaky, now), TestStore.reopen(shaky, now)];
  const deeds = new Map<string, Deed[]>();
  const deleted = new Map<string, Message>();
  const note = (deed: Deed) => {
    const known = deeds.get(deed.message.id) ?? [];
    deeds.set(deed.message.id, [...known, deed]);
    return deed.message;
  };

  const act = async (store: TestStore, held: Message[]): Promise<void> => {
    const kind = random();
    if (kind < 0.3) {
      const visibilityTimeoutMs = below(3) === 0 ? below(2000) : 0;
      const timeToLiveMs = below(4) === 0 ? 500 + below(4000) : Number.POSITIVE_INFINITY;
      const message = await store.put("x", {
        visibilityTimeoutMs: Math.min(visibilityTimeoutMs, timeToLiveMs - 1),
        timeToLiveMs,
      });
      held.push(note({ kind: "put", message }));
    } else if (kind < 0.6) {
      const visibilityTimeoutMs = 1 + below(2000);
      for (const message of await store.receive(1 + below(4), visibilityTimeoutMs)) {
        held.push(note({ kind: "receive", message, at: message.visibleAt - visibilityTimeoutMs }));
      }
    } else if (kind < 0.75) {
      const [message] = held.splice(below(held.length), 1);
      if (!message) return;
      await store.delete(message);
      deleted.set(message.id, message);
    } else if (kind < 0.9) {
      const message = held[below(held.length)];
      if (!message) return;
      const updated = await store.update(message, below(2) === 0 ? 0 : below(1500));
      held.push(note({ kind: "update", message: updated }));
    } else if (kind < 0.95) {
      await store.sweeper.sweep();
    } else {
      now += below(700);
      for (const each of stores) each.clock.time = now;
    }
  };

  let left = steps;
  await Promise.all(
    Array.from({ length: 12 }, async (_, actor) => {
      const held: Message[] = [];
      while (left-- > 0) {
        try {
          await act(stores[actor % 2]!, held);
        } catch (error) {
          if (!(error instanceof ServiceError || error instanceof EngineError)) throw error;
        }
      }
    }),
  );
  for (const [id, list] of deeds) checkChain(list, deleted.get(id));
  await checkRest(stores[0]!, engine, deeds, deleted);
  await engine.close();
}

/** A message's receipts were issued one after the other, each to a client that was entitled to it. */
function checkChain(deeds: readonly Deed[], deleted: Message | undefined): void {
  const chain = deeds.toSorted((a, b) => a.message.generation - b.message.generation);
  let received = 0;
  for (const [i, deed] of chain.entries()) {
    const { message } = deed;
    assert.equal(message.generation, i, "each receipt was issued once");
    if (deed.kind === "receive") {
      received++;
      const before = chain[i - 1]?.message;
      assert.ok(before && before.visibleAt <= deed.at, "received while another consumer held it");
      assert.ok(deed.at < message.expiresAt, "received after it expired");
    }
    assert.equal(message.dequeueCount, received);
  }
  const last = chain.at(-1)!.message;
  if (deleted)
    assert.equal(deleted.generation, last.generation, "something was done after a delete");
}

/** Once every message is visible, exactly those neither deleted nor expired exist. */
async function checkRest(
  store: TestStore,
  engine: Engine,
  deeds: ReadonlyMap<string, readonly Deed[]>,
  deleted: ReadonlyMap<string, Message>,
): Promise<void> {
  const rest = TestStore.reopen(engine, store.clock.time + 3_600_000);
  const expected = [...deeds.values()]
    .map(([first]) => first!.message)
    .filter(({ id, expiresAt }) => !deleted.has(id) && expiresAt > rest.clock.time);
  assert.equal(await rest.count(), expected.length);
  const found = new Set<string>();
  for (;;) {
    const messages = await rest.receive(32);
    if (messages.length === 0) break;
    for (const { id } of messages) found.add(id);
  }
  assert.deepEqual(found, new Set(expected.map(({ id }) => id)));
  await rest.sweeper.sweep();
  assert.equal(await rest.peek().then(({ length }) => length), 0);
}
