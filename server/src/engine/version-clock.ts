import type { Clock } from "../clock.ts";

/** Hands out versions: microseconds since 1970 that only ever grow, whatever the clock does. */
export class VersionClock {
  readonly #clock: Clock;
  #last = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  next(): number {
    this.#last = Math.max(this.#last + 1, Math.floor(this.#clock.now() * 1000));
    return this.#last;
  }

  /**
   * A version for a key that holds `stored`, when the one its writer brought is not larger. Never
   * just one more than `stored`: another commit may carry that number already.
   */
  nextAbove(stored: number): number {
    this.raiseAbove(stored);
    return this.next();
  }

  /** Everything handed out from now on is larger than `version`. */
  raiseAbove(version: number): void {
    if (version > this.#last) this.#last = version;
  }
}
