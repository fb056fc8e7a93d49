import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import {
  type AtomicWrite,
  CALL_MS_MAX,
  type CommitResult,
  type Engine,
  EngineError,
} from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { decorated } from "../engine/test-decorated.ts";
import { LosingEngine } from "../engine/test-losing-engine.ts";
import { readyKey } from "./message-keys.ts";
import type { Message } from "./message-record.ts";
import { NEVER } from "./message-store.ts";
import { DAY_MS, heldOf, TestStore, textsOf } from "./test-store.ts";

describe("A message", () => {
  it("is put, received once, and deleted by its receiver", async () => {
    const store = await TestStore.open();
    const put = await store.put("hello");
    assert.equal(put.dequeueCount, 0);
    assert.equal(put.expiresAt, put.insertedAt + 7 * DAY_MS);
    const [received] = await store.receive();
    assert.ok(received);
    assert.deepEqual(textsOf([received]), ["hello"]);
    assert.equal(received.dequeueCount, 1);
    assert.equal(received.visibleAt, store.clock.time + 30_000);
    assert.deepEqual(await store.receive(), []);
    await store.delete(received);
    store.pass(60_000);
    assert.deepEqual(await store.receive(), []);
    assert.equal(await store.stored(), 0);
  });

  it("cannot be received, updated or deleted by a call that loses races until its time limit", async () => {
    const engine = new LosingEngine();
    const store = await TestStore.open(engine);
    await store.putMany(2);
    const [held] = await store.receive(1, DAY_MS);
    assert.ok(held);
    engine.pass = (milliseconds) => store.pass(milliseconds);
    for (const write of [
      () => store.receive(),
      () => store.update(held, 0),
      () => store.delete(held),
    ]) {
      await assert.rejects(write, { code: "Unavailable" });
      assert.equal(engine.takeLost(), 2);
    }
    engine.pass = undefined;
    assert.equal((await store.receive()).length, 1);
  });

  it("is received alone if a nearly full disk has no room for several", async () => {
    class FullEngine extends MemoryEngine {
      putsMax = Number.POSITIVE_INFINITY;

      override commit(write: AtomicWrite): Promise<CommitResult> {
        if (write.puts.length > this.putsMax) throw new EngineError("Unavailable", "no space left");
        return super.commit(write);
      }
    }
    const engine = new FullEngine();
    const store = await TestStore.open(engine);
    await store.putMany(3);
    engine.putsMax = 2; // Of one message: its record and its place.
    const received = await store.receive(32);
    assert.equal(received.length, 1);
    await store.delete(received[0]!);
    engine.putsMax = 1;
    await assert.rejects(store.receive(32), { code: "Unavailable" });
    engine.putsMax = Number.POSITIVE_INFINITY;
    assert.equal((await store.receive(32)).length, 2);
  });

  it("is visible again if it is not deleted in time, after the messages that waited", async () => {
    const store = await TestStore.open();
    await store.put("first");
    await store.receive(1, 5000);
    await store.put("second");
    store.pass(4999);
    assert.deepEqual(await store.peek(), ["second"]);
    store.pass(1);
    assert.deepEqual(await store.peek(), ["second", "first"]);
    assert.deepEqual(
      (await store.receive(2)).map(({ dequeueCount }) => dequeueCount),
      [1, 2],
    );
  });

  it("may be put hidden, and updated or deleted by its sender", async () => {
    const store = await TestStore.open();
    const hidden = await store.put("hidden", { visibilityTimeoutMs: 10_000 });
    const other = await store.put("other", { visibilityTimeoutMs: 10_000 });
    assert.deepEqual(await store.peek(), []);
    await store.delete(other);
    await store.update(hidden, 0);
    assert.deepEqual(await store.peek(), ["hidden"]);
    store.pass(10_000);
    assert.deepEqual(await store.peek(), ["hidden"]);
  });

  it("is gone when it expires, whether visible, hidden or received", async () => {
    const store = await TestStore.open();
    await store.put("held", { timeToLiveMs: 2000 });
    const [held] = await store.receive(1, 1000);
    await store.put("visible", { timeToLiveMs: 2000 });
    await store.put("hidden", { timeToLiveMs: 2000, visibilityTimeoutMs: 1999 });
    store.pass(2000);
    assert.deepEqual(await store.peek(), []);
    assert.deepEqual(await store.receive(), []);
    assert.equal(await store.count(), 0);
    await refuses("MessageNotFound", store.delete(held!));
    await refuses("MessageNotFound", store.update(held!, 0));
  });

  it("may never expire", async () => {
    const store = await TestStore.open();
    const message = await store.put("x", { timeToLiveMs: Number.POSITIVE_INFINITY });
    assert.equal(message.expiresAt, NEVER);
    assert.equal((await store.put("y", { timeToLiveMs: 1e300 })).expiresAt, NEVER);
    assert.equal(new Date(NEVER).toISOString(), "9999-12-31T23:59:59.000Z");
  });

  it("may be hidden beyond its expiry by a receive, but not by an update", async () => {
    const store = await TestStore.open();
    await store.put("x", { timeToLiveMs: 10_000 });
    const [held] = await store.receive(1, 20_000);
    await refuses("InvalidQueryParameterValue", store.update(held!, 10_001));
    await store.update(held!, 10_000);
  });

  it("keeps its text unless an update contains another", async () => {
    const store = await TestStore.open();
    const put = await store.put("text");
    const again = await store.update(put, 0);
    assert.deepEqual(await store.peek(), ["text"]);
    const empty = await store.update(again, 0, "");
    assert.deepEqual(await store.peek(), [""]);
    const { insertedAt, expiresAt, dequeueCount, id } = await store.update(empty, 5000, "new");
    assert.deepEqual(
      { insertedAt, expiresAt, dequeueCount, id },
      { insertedAt: put.insertedAt, expiresAt: put.expiresAt, dequeueCount: 0, id: put.id },
    );
  });
});

describe("A pop receipt", () => {
  it("stays valid after the message becomes visible again, until the message is received again", async () => {
    const store = await TestStore.open();
    await store.put("x");
    const [first] = await store.receive(1, 1000);
    store.pass(5000);
    const updated = await store.update(first!, 1000);
    store.pass(5000);
    const [second] = await store.receive();
    await refuses("MessageNotFound", store.delete(updated));
    await store.delete(second!);
  });

  it("is invalid once a receive or update has issued the next", async () => {
    const store = await TestStore.open();
    const put = await store.put("x");
    const [received] = await store.receive();
    await refuses("MessageNotFound", store.delete(put));
    const updated = await store.update(received!, 0);
    await refuses("MessageNotFound", store.update(received!, 0));
    await store.delete(updated);
    await refuses("MessageNotFound", store.delete(updated));
  });

  it("is invalid for another message, and after the queue was cleared or recreated", async () => {
    const store = await TestStore.open();
    const [one, two] = [await store.put("one"), await store.put("two")];
    const crossed = store.messages.delete(store.queue, { id: one.id, receipt: two });
    await refuses("MessageNotFound", crossed);
    await refuses(
      "MessageNotFound",
      store.messages.delete(store.queue, { id: undefined, receipt: one }),
    );
    await store.catalog.renew("alice", "orders");
    await refuses("MessageNotFound", store.delete(one));
    assert.deepEqual(await store.peek(), []);

    const three = await store.put("three");
    await store.catalog.remove("alice", "orders");
    await refuses("QueueNotFound", store.delete(three));
    await refuses("QueueNotFound", store.receive());
    await refuses("QueueNotFound", store.peek());
    await refuses("QueueNotFound", store.put("four"));
    await refuses("QueueNotFound", store.count());
    await store.catalog.create("alice", "orders", { metadata: [], policies: [] });
    await refuses("MessageNotFound", store.delete(three));
    assert.equal(await store.count(), 0);
  });
});

describe("Receivers", () => {
  it("receive each message exactly once, even if 50 receive concurrently", async () => {
    const store = await TestStore.open();
    await store.putMany(1000);
    const deleted = new Set<string>();
    const consume = async () => {
      for (;;) {
        const messages = await store.receive(3);
        if (messages.length === 0) return;
        for (const message of messages) {
          assert.ok(!deleted.has(message.id), "received twice");
          deleted.add(message.id);
          await store.delete(message);
        }
      }
    };
    await Promise.all(Array.from({ length: 50 }, consume));
    assert.equal(deleted.size, 1000);
    assert.equal(await store.stored(), 0);
  });

  it("receive a message after another server has changed the queue's metadata", async () => {
    const store = await TestStore.open();
    const other = TestStore.reopen(store.reads, store.clock.time);
    await store.put("x");
    await other.catalog.update("alice", "orders", (value) => ({ ...value, metadata: [] }));
    assert.deepEqual(textsOf(await store.receive()), ["x"]);
  });

  it("of two servers on one engine receive each message exactly once", async () => {
    const engine = new MemoryEngine();
    const one = await TestStore.open(engine);
    const other = await TestStore.open(engine);
    await one.putMany(200);
    const received = await Promise.all(
      [one, other].flatMap((store) => Array.from({ length: 20 }, () => receiveAll(store))),
    );
    const ids = received.flat().map(({ id }) => id);
    assert.equal(ids.length, 200);
    assert.equal(new Set(ids).size, 200);
  });

  for (const step of ["read", "commit"] as const) {
    it(`search again if another server takes the message they found before their ${step}`, async () => {
      const engine = new MemoryEngine();
      const thief = await TestStore.open(engine);
      const store = await TestStore.open(stealing(engine, step, () => thief.receive()));
      await thief.put("one");
      await thief.put("two");
      assert.deepEqual(textsOf(await store.receive()), ["two"]);
    });
  }

  for (const look of ["peek", "receive"] as const) {
    it(`fail to ${look} after the time limit of a call if another server takes every message they find`, async () => {
      const engine = new MemoryEngine();
      const thief = await TestStore.open(engine);
      const steal = async () => {
        await thief.receive();
        await thief.put("another");
        store.pass(CALL_MS_MAX / 2 + 1);
      };
      const store = await TestStore.open(stealing(engine, "read", steal, 9));
      await thief.put("one");
      await assert.rejects(async () => store[look](), { code: "Unavailable" });
    });
  }

  it("fail on an index entry without a message, instead of searching forever", async () => {
    const store = await TestStore.open();
    assert.deepEqual(await store.receive(), []);
    const { reads: engine, partition } = store;
    const lost = { id: "0123456789abcdef", expiresAt: NEVER, visibleAt: 0, sequence: 0 };
    const puts = [{ key: readyKey(partition, lost), value: new Uint8Array(0) }];
    await engine.commit({ version: engine.nextVersion(), checks: [], puts, deletes: [] });
    await assert.rejects(store.receive(), /point to missing messages/);
  });
});

async function receiveAll(store: TestStore): Promise<Message[]> {
  const all: Message[] = [];
  for (;;) {
    const messages = await store.receive(2);
    if (messages.length === 0) return all;
    all.push(...messages);
  }
}

/** An engine on which a rival acts first, up to `times` times, after a search and before this step. */
function stealing(
  engine: Engine,
  step: "read" | "commit",
  steal: () => Promise<unknown>,
  times = 1,
): Engine {
  let stolen = 0;
  const stealBefore = async (isIt: boolean) => {
    if (!isIt || stolen === times) return;
    stolen++;
    await steal();
  };
  return decorated(engine, {
    async get(keys, bytesMax) {
      const readsMessages = keys.some(({ partition }) => partition[0] === KEY_SPACES.messages);
      await stealBefore(step === "read" && readsMessages);
      return engine.get(keys, bytesMax);
    },
    async commit(write) {
      await stealBefore(step === "commit" && write.checks.length > 0 && write.deletes.length > 0);
      return engine.commit(write);
    },
  });
}

async function refuses(code: string, action: Promise<unknown>): Promise<void> {
  await assert.rejects(action, (error) => error instanceof ServiceError && error.code === code);
}

describe("Updates and deletes", () => {
  it("with the same pop receipt exclude each other: exactly one succeeds", async () => {
    const store = await TestStore.open();
    const held = await store.put("x");
    const attempts = [1, 2, 3, 4].map((i) =>
      i % 2 === 0 ? store.delete(held) : store.update(held, 0),
    );
    const results = await Promise.allSettled(attempts);
    assert.equal(results.filter(({ status }) => status === "fulfilled").length, 1);
    assert.ok(heldOf(held).id);
  });
});
