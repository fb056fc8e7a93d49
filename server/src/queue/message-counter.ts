import { type Clock, elapsedMs } from "../clock.ts";
import type { Engine } from "../engine/engine.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import { queueText, readReadyExpiry, readyRange } from "./message-keys.ts";

/** Up to this many messages are counted on every call, in a few milliseconds, so that the count is exact. */
const COUNTED_AFRESH_MAX = 10_000;
/**
 * A longer count is reused for this many times as long as it took, which keeps counting below a tenth of the
 * time.
 */
const REUSED_FACTOR = 9;
/** … but never longer than this, however slow it was: messages put by other processes are missing from it. */
const REUSED_MS_MAX = 10 * 60_000;

/**
 * Counts the unexpired messages of a queue, including hidden ones, by walking their ready keys. That reads 36
 * bytes per message and keeps no counter that every Put and Delete would have to update. A long count is
 * reused for a while, plus the messages that this process has put since. It may therefore be too high, as the
 * protocol allows, and lacks only messages that other processes have put in that time.
 */
export class MessageCounter {
  readonly #engine: Engine;
  readonly #clock: Clock;
  /** Counts in progress, and long counts that are being reused. */
  readonly #counts = new Map<string, Count>();

  constructor(engine: Engine, clock: Clock) {
    this.#engine = engine;
    this.#clock = clock;
  }

  async count(partition: Uint8Array): Promise<number> {
    const queue = queueText(partition);
    const known = this.#counts.get(queue);
    if (known?.isLong && elapsedMs(this.#clock) < known.reusedUntil) {
      await known.done;
      return known.met + known.added;
    }
    const count = new Count();
    this.#counts.set(queue, count);
    count.done = this.#walk(partition, count);
    try {
      await count.done;
    } catch (error) {
      count.reusedUntil = 0;
      throw error;
    } finally {
      if (!count.isLong && this.#counts.get(queue) === count) this.#counts.delete(queue);
    }
    return count.isLong ? count.met + count.added : count.met;
  }

  /** Call it when this process has put a message. */
  added(partition: Uint8Array): void {
    if (this.#counts.size === 0) return;
    const count = this.#counts.get(queueText(partition));
    if (count) count.added++;
  }

  async #walk(partition: Uint8Array, count: Count): Promise<void> {
    const now = this.#clock.now();
    const begunAt = elapsedMs(this.#clock);
    await scanToEnd(this.#engine, readyRange(partition), ({ key }) => {
      count.walked++;
      if (readReadyExpiry(key) > now) count.met++;
      return true;
    });
    const endedAt = elapsedMs(this.#clock);
    count.reusedUntil = endedAt + Math.min((endedAt - begunAt) * REUSED_FACTOR, REUSED_MS_MAX);
  }
}

class Count {
  /** Entries seen, including those of expired messages. */
  walked = 0;
  met = 0;
  /** Messages put since the count began. */
  added = 0;
  reusedUntil = Number.POSITIVE_INFINITY;
  done: Promise<void> = Promise.resolve();

  get isLong(): boolean {
    return this.walked > COUNTED_AFRESH_MAX;
  }
}
