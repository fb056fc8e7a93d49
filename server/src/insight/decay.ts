/**
 * Counts that fade: an event one half-life ago counts half. Instead of shrinking all counts continually, new
 * events weigh more ("forward decay"). All counts of one scale are comparable at any moment, and `amount /
 * weight` is their current value.
 */
export class DecayScale {
  readonly halfLifeMs: number;
  #landmark: number;
  #at: number;
  #weight = 1;

  constructor(halfLifeMs: number, now: number) {
    this.halfLifeMs = halfLifeMs;
    this.#landmark = now;
    this.#at = now;
  }

  /** Weight of one event at the time last passed to `weightAt`. */
  get weight(): number {
    return this.#weight;
  }

  /** Weight of one event at `now`. A late event gets the latest weight. */
  weightAt(now: number): number {
    // Most events fall within the same millisecond as the one before.
    if (now > this.#at) {
      this.#at = now;
      this.#weight = 2 ** ((now - this.#landmark) / this.halfLifeMs);
    } else if (now < this.#at - LATE_MS_MAX) {
      this.#landmark -= this.#at - now;
      this.#at = now;
    }
    return this.#weight;
  }

  /** Rate, in events per second, of a steady stream that would have left `amount`. */
  perSecond(amount: number, now: number): number {
    return ((amount / this.weightAt(now)) * Math.LN2 * 1000) / this.halfLifeMs;
  }

  /** The factor to apply to every count once weights have grown large, else undefined. */
  rescale(): number | undefined {
    if (this.#weight < WEIGHT_MAX) return undefined;
    const factor = 1 / this.#weight;
    this.#landmark = this.#at;
    this.#weight = 1;
    return factor;
  }
}

/** A time that is earlier than this means that the clock was set back: counts fade on from the earlier time. */
export const LATE_MS_MAX = 60_000;
/** Far below the point where adding to a double would lose whole numbers. */
const WEIGHT_MAX = 2 ** 30;
