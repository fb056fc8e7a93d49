import type { Clock } from "../clock.ts";

/**
 * This many consecutive slots share no version. Each is left 62,500 versions a second; 64 clients on one
 * core used 22,000.
 */
const SLOTS = 16;

/** Issues versions: microseconds since 1970 that only ever grow, even if the clock is set back. */
export class VersionClock {
  readonly #clock: Clock;
  #last = 0;
  /** All versions of this process have the same remainder modulo this number. */
  #slots = 1;
  #start = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * From now on shares the versions with other processes, each of which has its own slot: of 16 consecutive
   * slots no two ever issue the same version. Otherwise, when one process deletes a key and another puts it
   * again within the same millisecond of their clocks, the key could get a version that it had before.
   */
  takeSlot(slot: number): void {
    this.#slots = SLOTS;
    // Clocks count whole milliseconds. Processes that share a remainder, because there are more than 16, at
    // least begin at different microseconds of it.
    this.#start = slot % STARTS;
  }

  next(): number {
    const least = Math.max(this.#last + 1, Math.floor(this.#clock.now() * 1000) + this.#start);
    const beyond = (least - this.#start) % this.#slots;
    this.#last = beyond === 0 ? least : least + this.#slots - beyond;
    return this.#last;
  }

  /**
   * A version for a key that holds `stored`, if the version of its writer is not larger. Never `stored` + 1:
   * another commit may carry that number already.
   */
  nextAbove(stored: number): number {
    this.raiseAbove(stored);
    return this.next();
  }

  /** Every version issued from now on is larger than `version`. */
  raiseAbove(version: number): void {
    if (version > this.#last) this.#last = version;
  }
}

/** The largest multiple of `SLOTS` that fits a millisecond: each remainder occurs equally often below it. */
const STARTS = 1000 - (1000 % SLOTS);

/**
 * The most that an engine adds when it raises a version without a clock, as a database does inside a
 * statement. The raised version has the same remainder modulo this number as its writer's version: so it
 * keeps the writer's slot, and rarely meets another raised version.
 */
export const RAISED_BY_MAX = 64 * SLOTS;
