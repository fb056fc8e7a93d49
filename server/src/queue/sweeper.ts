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
/** A queue is looked at again after this time even if nothing in it was to expire by then. */
const LOOK_MS_MAX = 5 * 60_000;

interface Expired {
  readonly place: ReadyPlace;
  readonly version: number;
}

/**
 * Frees expired messages, whether or not anybody uses their queue. They stand in front of all
 * others, so a look at a queue without any reads one entry; and a queue is left alone until the
 * message that expires next does. Nothing depends on when this happens: see `MessageStore`.
 */
export class Sweeper {
  readonly #options: SweeperOptions;
  readonly #loop: BackgroundLoop;
  /** By account and queue id: when something in it expires next, as far as is known. */
  #dueAt = new Map<string, number>();

  constructor(options: SweeperOptions) {
    this.#options = options;
    const { onError } = options;
    this.#loop = new BackgroundLoop({ run: () => this.sweep(), periodMs: PERIOD_MS, onError });
  }

  start(): void {
    this.#loop.start();
  }

  /** Expired messages are in the way somewhere: looks at every queue soon, whatever is known of it. */
  wake(): void {
    this.#dueAt = new Map();
    this.#loop.wake();
  }

  close(): Promise<void> {
    return this.#loop.close();
  }

  /**
   * Frees all that has expired in the queues that are due. Those of which it cannot be freed keep no others;
   * the first failure is thrown at the end.
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

  /** @param gone loses the queues that are there */
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
      // Not before: a `wake` makes all queues due, also in the middle of this. What is found out about
      // the one at hand then goes with the map that it replaced.
      const dueAt = this.#dueAt;
      if ((dueAt.get(queue) ?? 0) > clock.now()) return;
      dueAt.set(queue, await this.#sweepQueue(queuePartition(accountId, id)));
    };
    await eachBounded(ids, sweepIfDue, 1);
  }

  /** @returns when to look again */
  async #sweepQueue(partition: Uint8Array): Promise<number> {
    const { engine, clock } = this.#options;
    // The two looks meet at one time: what expired between two times would wait for the next look in vain.
    let now = clock.now();
    for (; !this.#loop.closed; now = clock.now()) {
      const expired = await this.#readExpired(partition, now);
      if (expired.length === 0) break;
      const change = new MessagesChange(partition, engine.nextVersion());
      for (const { place, version } of expired) change.delete(place, version);
      // A message that was received in its last moment fails its check; the next look finds it.
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
