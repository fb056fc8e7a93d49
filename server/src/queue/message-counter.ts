import { type Clock, elapsedMs } from "../clock.ts";
import type { Engine } from "../engine/engine.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import { queueText, readReadyExpiry, readyRange } from "./message-keys.ts";

/** Counting so many takes a few milliseconds: done afresh each time, hence exact. */
const COUNTED_AFRESH_MAX = 10_000;
/** A longer count is reused for so many times as long as it took: counting stays below a tenth of the time. */
const REUSED_FACTOR = 9;
/** … but never for longer than this, however slow it was: messages that others put are missing from it. */
const REUSED_MS_MAX = 10 * 60_000;

/**
 * Counts the unexpired messages of a queue, hidden ones too, by walking their ready keys: 36 bytes
 * a message, and nothing that every Put and Delete would have to keep up to date. Long counts are
 * reused for a while, with what this process put since on top; so they may be too high, as the
 * protocol allows, and only messages that other processes put meanwhile are missing.
 */
export class MessageCounter {
  readonly #engine: Engine;
  readonly #clock: Clock;
  /** The counts that are under way, and the long ones that are reused. */
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

  /** This process put a message. */
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
  /** Entries seen, of expired messages too. */
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
