import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import type { Message } from "@rowhouse/server/queue/message-record";
import { NEVER } from "@rowhouse/server/queue/message-store";
import { printPopReceipt } from "@rowhouse/server/queue/pop-receipt";
import { TestStore, textsOf } from "@rowhouse/server/queue/test-store";
import { openDatabaseEngine } from "../support/database-engine.ts";
import { withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { QueueModel } from "./queue-model.ts";
import { seed, times } from "./settings.ts";

describe(`A random history of a queue (seed ${seed}, SIMULATION_SEED repeats it)`, () => {
  it("agrees with a plain list, in memory", async () => {
    await new History(await TestStore.open(new MemoryEngine()), seed).run(4000 * times);
  });

  it("agrees with a plain list, on LMDB, across restarts", async () => {
    await withFolder(async (path) => {
      const open = () => openLmdbEngine({ path });
      let engine: Engine = await open();
      const history = new History(await TestStore.open(engine), seed + 1);
      for (let part = 0; part < 4; part++) {
        await history.run((400 * times) / 4);
        await engine.close();
        engine = await open();
        history.store = TestStore.reopen(engine, history.store.clock.time);
      }
      await engine.close();
    });
  });

  it("agrees with a plain list, on PostgreSQL", async () => {
    const engine = await openDatabaseEngine();
    await new History(await TestStore.open(engine), seed + 2).run(200 * times);
    await engine.close();
  });
});

/** Sends each call to a store and to the model, and compares every result. */
class History {
  store: TestStore;
  readonly #random: () => number;
  readonly #model = new QueueModel();
  /** Every receipt ever issued, the newest last. */
  readonly #receipts: Message[] = [];
  #exists = true;

  constructor(store: TestStore, seed: number) {
    this.store = store;
    this.#random = seededRandom(seed);
  }

  async run(steps: number): Promise<void> {
    for (let step = 0; step < steps; step++) {
      const [name, action] = this.#choose();
      try {
        await action();
      } catch (error) {
        throw new Error(`Step ${step}, ${name}, at ${this.#now}`, { cause: error });
      }
    }
  }

  get #now(): number {
    return this.store.clock.time;
  }

  #choose(): [string, () => Promise<void>] {
    const actions: [number, string, () => Promise<void>][] = [
      [24, "put", () => this.#put()],
      [20, "receive", () => this.#receive()],
      [6, "peek", () => this.#peek()],
      [12, "delete", () => this.#delete()],
      [12, "update", () => this.#update()],
      [4, "count", () => this.#count()],
      [18, "pass", async () => this.store.pass(this.#below(this.#below(2) ? 50 : 3000))],
      [3, "sweep", () => this.store.sweeper.sweep()],
      [0.3, "clear", () => this.#clear()],
      [0.3, "remove", () => this.#remove()],
    ];
    if (!this.#exists) actions.push([20, "create", () => this.#create()]);
    let at = this.#random() * actions.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, name, action] of actions) {
      at -= weight;
      if (at < 0) return [name, action];
    }
    return ["nothing", async () => {}];
  }

  async #put(): Promise<void> {
    const timeToLiveMs = this.#below(8) === 0 ? Number.POSITIVE_INFINITY : 1 + this.#below(8000);
    const visibilityTimeoutMs =
      this.#below(3) === 0 ? this.#below(Math.min(timeToLiveMs, 5000)) : 0;
    const text = `text ${this.#below(1e6)}`;
    const put = await this.#unlessMissing(
      this.store.put(text, { visibilityTimeoutMs, timeToLiveMs }),
    );
    if (!put) return;
    const { id, insertedAt, expiresAt, visibleAt } = put;
    assert.equal(insertedAt, this.#now);
    assert.equal(expiresAt, Math.min(this.#now + timeToLiveMs, NEVER));
    assert.equal(visibleAt, this.#now + visibilityTimeoutMs);
    this.#model.put({ id, insertedAt, expiresAt, visibleAt, text, receipt: this.#issued(put) });
  }

  async #receive(): Promise<void> {
    const max = 1 + this.#below(5);
    const visibilityTimeoutMs = 1 + this.#below(3000);
    const received = await this.#unlessMissing(this.store.receive(max, visibilityTimeoutMs));
    if (!received) return;
    const expected = this.#model.visible(this.#now, max);
    for (const [i, message] of expected.entries()) {
      message.visibleAt = this.#now + visibilityTimeoutMs;
      message.dequeueCount++;
      if (received[i]) message.receipt = this.#issued(received[i]);
    }
    assert.deepEqual(
      received.map(factsOf),
      expected.map(({ order: _, receipt: __, ...facts }) => facts),
    );
  }

  async #peek(): Promise<void> {
    const max = 1 + this.#below(32);
    const peeked = await this.#unlessMissing(this.store.messages.peek(this.store.queue, max));
    if (!peeked) return;
    const expected = this.#model.visible(this.#now, max).map(({ text }) => text);
    assert.deepEqual(textsOf(peeked), expected);
  }

  async #delete(): Promise<void> {
    const held = this.#anyReceipt();
    if (!held) return;
    const expected = this.#model.held(held.id, printPopReceipt(held), this.#now);
    assert.equal(await this.#succeeds(this.store.delete(held)), expected !== undefined);
    if (expected) this.#model.remove(held.id);
  }

  async #update(): Promise<void> {
    const held = this.#anyReceipt();
    if (!held) return;
    const visibilityTimeoutMs = this.#below(3) === 0 ? 0 : this.#below(6000);
    const text = this.#below(2) === 0 ? `text ${this.#below(1e6)}` : undefined;
    const expected = this.#model.held(held.id, printPopReceipt(held), this.#now);
    const allowed = expected !== undefined && this.#now + visibilityTimeoutMs <= expected.expiresAt;
    const update = this.store.update(held, visibilityTimeoutMs, text);
    const updated = await update.catch((error) => {
      assert.ok(error instanceof ServiceError, String(error));
      return undefined;
    });
    assert.equal(updated !== undefined, allowed && this.#exists);
    if (!updated || !expected) return;
    expected.visibleAt = this.#now + visibilityTimeoutMs;
    expected.text = text ?? expected.text;
    expected.receipt = this.#issued(updated);
  }

  async #count(): Promise<void> {
    const count = await this.#unlessMissing(this.store.count());
    if (count !== undefined) assert.equal(count, this.#model.alive(this.#now).length);
  }

  async #clear(): Promise<void> {
    const renewed = await this.store.catalog.renew("alice", "orders");
    assert.equal(renewed !== undefined, this.#exists);
    this.#model.messages = [];
  }

  async #remove(): Promise<void> {
    const removed = await this.store.catalog.remove("alice", "orders");
    assert.equal(removed !== undefined, this.#exists);
    this.#exists = false;
    this.#model.messages = [];
  }

  async #create(): Promise<void> {
    const value = { metadata: [], policies: [] };
    const { created } = await this.store.catalog.create("alice", "orders", value);
    assert.equal(created, !this.#exists);
    this.#exists = true;
  }

  /** Mostly one of the newest receipts, most of which are still valid. */
  #anyReceipt(): Message | undefined {
    const recent = this.#below(10) === 0 ? this.#receipts.length : 12;
    return this.#receipts.at(-1 - this.#below(Math.min(recent, this.#receipts.length)));
  }

  #issued(message: Message): string {
    this.#receipts.push(message);
    return printPopReceipt(message);
  }

  async #unlessMissing<T>(action: Promise<T>): Promise<T | undefined> {
    if (this.#exists) return action;
    await assert.rejects(action, (error: ServiceError) => error.code === "QueueNotFound");
    return undefined;
  }

  async #succeeds(action: Promise<unknown>): Promise<boolean> {
    try {
      await action;
      return true;
    } catch (error) {
      const code = this.#exists ? "MessageNotFound" : "QueueNotFound";
      assert.equal((error as ServiceError).code, code);
      return false;
    }
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count);
  }
}

function factsOf(message: Message) {
  const { id, expiresAt, insertedAt, visibleAt, dequeueCount } = message;
  return { id, expiresAt, insertedAt, visibleAt, text: textsOf([message])[0], dequeueCount };
}
