import type { Clock } from "../clock.ts";

/** So many processes have no version in common. Each is left 62,500 a second; 64 clients made 22,000 of one core. */
const PLACES = 16;

/** Hands out versions: microseconds since 1970 that only ever grow, whatever the clock does. */
export class VersionClock {
  readonly #clock: Clock;
  #last = 0;
  /** Own versions are those with a certain remainder when divided by this. */
  #places = 1;
  #start = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * From now on shares the versions with others, which take other places: of 16 in a row no two ever
   * hand out the same one. Without that a key that one process deletes and another puts anew, all within
   * a millisecond of their clocks, may get a version again that it had.
   */
  takePlace(place: number): void {
    this.#places = PLACES;
    // Clocks tell whole milliseconds. Processes that have to share a remainder, being more than 16, at least
    // begin at different microseconds of it.
    this.#start = place % STARTS;
  }

  next(): number {
    const least = Math.max(this.#last + 1, Math.floor(this.#clock.now() * 1000) + this.#start);
    const beyond = (least - this.#start) % this.#places;
    this.#last = beyond === 0 ? least : least + this.#places - beyond;
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

/** The remainders, as often as they fit a millisecond. */
const STARTS = 1000 - (1000 % PLACES);

/**
 * The most that an engine adds which has to raise a version without a clock, as a database does inside a
 * statement. The raised version has the same remainder, divided by this, as the one that its writer brought:
 * so it keeps the writer's place, and rarely meets another raised version.
 */
export const RAISED_BY_MAX = 64 * PLACES;
