import { BackgroundLoop } from "../catalog/background-loop.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Clock } from "../clock.ts";
import { eachBounded } from "../each-bounded.ts";
import type { Engine } from "../engine/engine.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import { expiredRange, queuePartition, type ReadyPlace, unexpiredRange } from "./message-keys.ts";
import { readPlace } from "./message-record.ts";
import type { QueueValue } from "./message-store.ts";
import { MessagesChange } from "./messages-change.ts";

export interface SweeperOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly catalog: Catalog<QueueValue>;
  readonly onError: (error: unknown) => void;
}

const PERIOD_MS = 15_000;
const MESSAGES_PER_COMMIT = 500;
/** A queue is checked again after this time even if none of its messages was to expire by then. */
const LOOK_MS_MAX = 5 * 60_000;

interface Expired {
  readonly place: ReadyPlace;
  readonly version: number;
}

/**
 * Frees expired messages, whether or not their queue is used. They sort before all others, so checking a
 * queue that has none reads one entry, and a queue is left alone until its next message expires. Nothing
 * depends on when this happens: see `MessageStore`.
 */
export class Sweeper {
  readonly #options: SweeperOptions;
  readonly #loop: BackgroundLoop;
  /** By account and queue id: when the queue's next message expires, as far as known. */
  #dueAt = new Map<string, number>();

  constructor(options: SweeperOptions) {
    this.#options = options;
    const { onError } = options;
    this.#loop = new BackgroundLoop({ run: () => this.sweep(), periodMs: PERIOD_MS, onError });
  }

  start(): void {
    this.#loop.start();
  }

  /** Call it when expired messages slow down a queue: sweeps every queue soon, regardless of its due time. */
  wake(): void {
    this.#dueAt = new Map();
    this.#loop.wake();
  }

  close(): Promise<void> {
    return this.#loop.close();
  }

  /**
   * Frees all expired messages in the queues that are due. A queue that fails does not stop the others; the
   * first failure is thrown at the end.
   */
  async sweep(): Promise<void> {
    const gone = new Set(this.#dueAt.keys());
    try {
      const accounts = this.#options.catalog.accountNames;
      await eachBounded(accounts, (account) => this.#sweepAll(account, gone), 1);
    } finally {
      for (const queue of gone) this.#dueAt.delete(queue);
    }
  }

  /** @param gone the ids of existing queues are removed from it */
  async #sweepAll(account: string, gone: Set<string>): Promise<void> {
    const { catalog, clock } = this.#options;
    const accountId = catalog.accountId(account);
    const ids: number[] = [];
    await catalog.list(account, { prefix: "", from: "" }, ({ id }) => {
      ids.push(id);
      return "pass";
    });
    const sweepIfDue = async (id: number) => {
      if (this.#loop.closed) return;
      const queue = `${accountId}/${id}`;
      gone.delete(queue);
      // Read no earlier: `wake` replaces the map, even during a sweep, to make all queues due. The result for
      // the queue at hand then goes into the replaced map and is dropped.
      const dueAt = this.#dueAt;
      if ((dueAt.get(queue) ?? 0) > clock.now()) return;
      dueAt.set(queue, await this.#sweepQueue(queuePartition(accountId, id)));
    };
    await eachBounded(ids, sweepIfDue, 1);
  }

  /** @returns when to check the queue again */
  async #sweepQueue(partition: Uint8Array): Promise<number> {
    const { engine, clock } = this.#options;
    // Both reads must use the same time: a message that expired between two times would be missed until the
    // next check.
    let now = clock.now();
    for (; !this.#loop.closed; now = clock.now()) {
      const expired = await this.#readExpired(partition, now);
      if (expired.length === 0) break;
      const change = new MessagesChange(partition, engine.nextVersion());
      for (const { place, version } of expired) change.delete(place, version);
      // A message received just before its expiry fails its check; the next round finds it.
      await engine.commit(change.toWrite());
    }
    let next = now + LOOK_MS_MAX;
    await scanToEnd(
      engine,
      unexpiredRange(partition, now),
      (entry) => {
        next = Math.min(next, readPlace(entry).expiresAt);
        return false;
      },
      { entriesExpected: 1 },
    );
    return next;
  }

  async #readExpired(partition: Uint8Array, now: number): Promise<Expired[]> {
    const { engine } = this.#options;
    const expired: Expired[] = [];
    await scanToEnd(
      engine,
      expiredRange(partition, now),
      (entry) => {
        expired.push({ place: readPlace(entry), version: entry.version });
        return expired.length < MESSAGES_PER_COMMIT;
      },
      { entriesExpected: MESSAGES_PER_COMMIT },
    );
    return expired;
  }
}
