import type { Awaitable } from "../awaitable.ts";
import { Catalog } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { Engine, Key, KeyRange, ScanEnd, ScanHints, Visit } from "../engine/engine.ts";
import { startOfPartition } from "../engine/key-codec.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { NOTHING_OPTIONAL } from "../engine/test-decorated.ts";
import { queuePartition } from "./message-keys.ts";
import type { Message } from "./message-record.ts";
import { type HeldMessage, MessageStore, type QueueValue } from "./message-store.ts";
import { pooledRandomBytes } from "./pooled-random-bytes.ts";
import { Sweeper } from "./sweeper.ts";

export const DAY_MS = 86_400_000;

/** A store for tests, with one queue, a clock that tests set and a count of reads. */
export class TestStore {
  readonly queue = { account: "alice", name: "orders" };
  readonly clock = { time: Date.UTC(2026, 6, 31), now: () => this.clock.time };
  readonly reads: ReadCounter;
  readonly catalog: Catalog<QueueValue>;
  readonly messages: MessageStore;
  readonly sweeper: Sweeper;
  /** How often the sweeper was called. */
  calls = 0;

  private constructor(engine: Engine) {
    this.reads = new ReadCounter(engine);
    const ids = new Map([["alice", 0]]);
    this.catalog = new Catalog<QueueValue>(this.reads, KEY_SPACES.queueCatalog, ids, this.clock);
    const common = { engine: this.reads, clock: this.clock, catalog: this.catalog };
    this.messages = new MessageStore({
      ...common,
      randomBytes: pooledRandomBytes(),
      onManyExpired: () => {
        this.calls++;
      },
    });
    this.sweeper = new Sweeper({
      ...common,
      onError: (error) => {
        throw error;
      },
    });
  }

  static async open(engine: Engine = new MemoryEngine()): Promise<TestStore> {
    const store = new TestStore(engine);
    await store.catalog.create("alice", "orders", { metadata: [], policies: [] });
    return store;
  }

  /** On an engine that another store has used, at the time that store had reached. */
  static reopen(engine: Engine, time: number): TestStore {
    const store = new TestStore(engine);
    store.clock.time = time;
    return store;
  }

  get partition(): Uint8Array {
    return queuePartition(0, this.catalog.remembered("alice", "orders")!.id);
  }

  pass(milliseconds: number): void {
    this.clock.time += milliseconds;
  }

  put(text: string, { visibilityTimeoutMs = 0, timeToLiveMs = 7 * DAY_MS } = {}): Promise<Message> {
    return this.messages.put(this.queue, {
      text: Buffer.from(text),
      visibilityTimeoutMs,
      timeToLiveMs,
    });
  }

  async putMany(
    count: number,
    options: { visibilityTimeoutMs?: number; timeToLiveMs?: number } = {},
  ) {
    for (let i = 0; i < count; i++) await this.put(`${i}`, options);
  }

  receive(max = 1, visibilityTimeoutMs = 30_000): Promise<readonly Message[]> {
    return this.messages.receive(this.queue, { max, visibilityTimeoutMs });
  }

  update(held: Message, visibilityTimeoutMs: number, text?: string): Promise<Message> {
    const change = {
      visibilityTimeoutMs,
      text: text === undefined ? undefined : Buffer.from(text),
    };
    return this.messages.update(this.queue, heldOf(held), change);
  }

  delete(held: Message): Promise<void> {
    return this.messages.delete(this.queue, heldOf(held));
  }

  async peek(max = 32): Promise<string[]> {
    return textsOf(await this.messages.peek(this.queue, max));
  }

  count(): Promise<number> {
    return this.messages.count(this.queue);
  }

  /** Entries of the messages' partition, including expired ones. */
  async stored(): Promise<number> {
    let count = 0;
    await this.reads.scan({ start: startOfPartition(this.partition) }, () => {
      count++;
      return true;
    });
    return count;
  }
}

export function heldOf(message: Message): HeldMessage {
  return { id: message.id, receipt: message };
}

export function textsOf(messages: readonly Message[]): string[] {
  return messages.map(({ text }) => Buffer.from(text).toString("utf8"));
}

/** An engine that counts the entries its scans visit. */
class ReadCounter implements Engine {
  readonly supports = NOTHING_OPTIONAL;
  entries = 0;
  scans = 0;
  /** Where the last scan began. */
  scanStart: Key | undefined;
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  get name(): string {
    return this.#engine.name;
  }

  get keyBytesMax(): number {
    return this.#engine.keyBytesMax;
  }

  reset(): void {
    this.entries = 0;
    this.scans = 0;
  }

  scan(range: KeyRange, visit: Visit, hints?: ScanHints): Awaitable<ScanEnd> {
    this.scans++;
    this.scanStart = range.start;
    const counting: Visit = (entry) => {
      this.entries++;
      return visit(entry);
    };
    return this.#engine.scan(range, counting, hints);
  }

  nextVersion = () => this.#engine.nextVersion();
  newestCommit = () => this.#engine.newestCommit();
  get: Engine["get"] = (keys, bytesMax) => this.#engine.get(keys, bytesMax);
  commit: Engine["commit"] = (write) => this.#engine.commit(write);
  close = () => this.#engine.close();
}
