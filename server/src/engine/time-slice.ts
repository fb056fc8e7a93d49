import { performance } from "node:perf_hooks";

/** What one piece of work may take of a turn of the event loop, and all of them together. */
const TURN_MS = 5;
/** Enough for a page of 100 entities of each of 64 clients, whose answers then leave together. */
const TURN_MS_OF_ALL = 25;
const ENTRIES_UNNOTICED_MAX = 64;
const QUICK_MS = 0.25;
/** From the promise to the code behind the `await` of its caller's caller. */
const MICROTASKS = 4;

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

  /** Waits for a later turn of the event loop that has time left, then begins a new slice. */
  async nextTurn(): Promise<void> {
    await waitInLine();
    this.#turnEndsAt = performance.now() + TURN_MS;
  }
}

/** Who waits for time, first come first served. */
const line: (() => void)[] = [];
/** When the time of the current turn is over; undefined before any work began in it. */
let endsAt: number | undefined;

/**
 * Call it before work that may take milliseconds. Undefined if this turn of the event loop has time left; otherwise a
 * promise that is resolved in a later turn. Without it, whatever requests have arrived together are all served in one
 * turn: 200 pages of 1 MB held up every other client for two seconds.
 */
export function timeInTurn(): Promise<void> | undefined {
  if (line.length > 0) return waitInLine();
  if (endsAt === undefined) {
    endsAt = performance.now() + TURN_MS_OF_ALL;
    setImmediate(endTurn);
    return undefined;
  }
  return performance.now() < endsAt ? undefined : waitInLine();
}

function waitInLine(): Promise<void> {
  return new Promise((resolve) => {
    if (line.push(resolve) === 1) setImmediate(serveLine);
  });
}

function endTurn(): void {
  endsAt = undefined;
}

/** Lets one after the other work, until the time of this turn is over. Who waits again is not served in it. */
async function serveLine(): Promise<void> {
  const until = performance.now() + TURN_MS_OF_ALL;
  let left = line.length;
  do {
    line[0]!();
    // What waited works in the microtasks before this one.
    for (let i = 0; i < MICROTASKS; i++) await undefined;
    line.shift();
  } while (--left > 0 && performance.now() < until);
  if (line.length > 0) setImmediate(serveLine);
}
