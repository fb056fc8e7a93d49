import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import { COMMIT_KEYS_MAX, type Engine } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { decorated } from "../engine/test-decorated.ts";
import { MessageCounter } from "./message-counter.ts";
import { readyKey } from "./message-keys.ts";
import { TestStore } from "./test-store.ts";

describe("Messages are counted", () => {
  it("whether visible or hidden, until they expire", async () => {
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

  it("again for each request while they are few", async () => {
    const store = await TestStore.open();
    for (let i = 1; i <= 20; i++) {
      await store.put("one more");
      assert.equal(await store.count(), i);
    }
  });

  it("rarely if they are many, and later puts are added to the count", async () => {
    const lab = await Lab.open({ messages: 10_001, walkMs: 1000 });
    assert.equal(await lab.count(), 10_001);
    lab.counter.added(lab.partition);
    lab.elapsed += 8999;
    assert.equal(await lab.count(), 10_002);
    assert.equal(lab.walks, 1);
    lab.elapsed += 1;
    assert.equal(await lab.count(), 10_001);
    assert.equal(lab.walks, 2);
  });

  it("including each message put after the last walk if they are many", async () => {
    const store = await TestStore.open();
    const { reads } = store;
    await store.putMany(10_001);
    const scan = reads.scan.bind(reads);
    reads.scan = (range, visit, hints) => {
      store.pass(1000);
      return scan(range, visit, hints);
    };
    assert.equal(await store.count(), 10_001);
    await store.put("one more");
    assert.equal(await store.count(), 10_002);
  });

  it("rarely if many expired ones must be passed over", async () => {
    const lab = await Lab.open({ messages: 10_001, walkMs: 1000, expiresAt: 500 });
    lab.clock.time = 500;
    assert.equal(await lab.count(), 0);
    assert.equal(await lab.count(), 0);
    assert.equal(lab.walks, 1);
  });

  it("again at the right time if the clock is set during or after a walk", async () => {
    const lab = await Lab.open({ messages: 10_001, walkMs: 1000, setClock: 1e12 });
    await lab.count();
    lab.clock.time = -1e12;
    lab.elapsed += 9000;
    await lab.count();
    assert.equal(lab.walks, 2);
  });

  it("again after ten minutes, however long a walk takes", async () => {
    const lab = await Lab.open({ messages: 10_001, walkMs: 3_600_000 });
    await lab.count();
    lab.elapsed += 10 * 60_000 - 1;
    await lab.count();
    assert.equal(lab.walks, 1);
    lab.elapsed += 1;
    await lab.count();
    assert.equal(lab.walks, 2);
  });
});

/** A queue whose walks take time, and whose clock may be set during a walk. */
class Lab {
  readonly partition = Uint8Array.of(KEY_SPACES.messages, 1);
  readonly clock = { time: 0, now: () => this.clock.time, elapsed: () => this.elapsed };
  readonly counter: MessageCounter;
  elapsed = 0;
  walks = 0;

  private constructor(engine: Engine, { walkMs, setClock = 0 }: LabOptions) {
    const slow = decorated(engine, {
      scan: (range, visit) => {
        this.walks++;
        this.elapsed += walkMs;
        this.clock.time += setClock;
        return engine.scan(range, visit);
      },
    });
    this.counter = new MessageCounter(slow, this.clock);
  }

  static async open(options: LabOptions): Promise<Lab> {
    const partition = Uint8Array.of(KEY_SPACES.messages, 1);
    return new Lab(await filled(partition, options), options);
  }

  count(): Promise<number> {
    return this.counter.count(this.partition);
  }
}

interface LabOptions {
  readonly messages: number;
  readonly walkMs: number;
  readonly expiresAt?: number;
  /** Added to the clock during each walk. */
  readonly setClock?: number;
}

async function filled(
  partition: Uint8Array,
  { messages, expiresAt = 1e14 }: LabOptions,
): Promise<Engine> {
  const engine = new MemoryEngine();
  const id = "0123456789abcdef";
  const puts = Array.from({ length: messages }, (_, sequence) => ({
    key: readyKey(partition, { visibleAt: 0, sequence, expiresAt, id }),
    value: new Uint8Array(0),
  }));
  while (puts.length > 0) {
    const some = puts.splice(0, COMMIT_KEYS_MAX);
    await engine.commit({ version: engine.nextVersion(), checks: [], puts: some, deletes: [] });
  }
  return engine;
}
