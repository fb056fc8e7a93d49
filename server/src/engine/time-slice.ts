import { performance } from "node:perf_hooks";

const TURN_MS = 5;
const ENTRIES_UNNOTICED_MAX = 64;
const QUICK_MS = 0.25;

/**
 * Decides when a scan must yield to the event loop: well before the 10 ms that the contract allows. Reading
 * the time costs as much as stepping over a small entry, so it is read less and less often while entries are
 * quick, and after each entry as soon as they are not.
 */
export class TimeSlice {
  #turnEndsAt = performance.now() + TURN_MS;
  #lookedAt = 0;
  #entriesPerLook = 1;
  #entriesUntilLook = 1;

  /** Counts one visited entry; returns whether this turn of the event loop is over. */
  isSpent(): boolean {
    if (--this.#entriesUntilLook > 0) return false;
    const now = performance.now();
    const quick = now - this.#lookedAt < QUICK_MS;
    this.#entriesPerLook = quick ? Math.min(this.#entriesPerLook * 2, ENTRIES_UNNOTICED_MAX) : 1;
    this.#entriesUntilLook = this.#entriesPerLook;
    this.#lookedAt = now;
    return now >= this.#turnEndsAt;
  }

  /** Yields to the event loop once, then begins a new turn. */
  async nextTurn(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.#turnEndsAt = performance.now() + TURN_MS;
  }
}
