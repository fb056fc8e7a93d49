/**
 * Counts that fade: what was counted a half-life ago counts half. Instead of shrinking every count
 * all the time, new events weigh more ("forward decay"); all counts of one scale are comparable at
 * any moment, and `amount / weight` is what is left of them now.
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

  /** What one event weighs at the time last asked for. */
  get weight(): number {
    return this.#weight;
  }

  /** What one event weighs at `now`. One that is told late weighs what those before it do. */
  weightAt(now: number): number {
    // Most events come within the same millisecond as the one before.
    if (now > this.#at) {
      this.#at = now;
      this.#weight = 2 ** ((now - this.#landmark) / this.halfLifeMs);
    } else if (now < this.#at - LATE_MS_MAX) {
      this.#landmark -= this.#at - now;
      this.#at = now;
    }
    return this.#weight;
  }

  /** Events per second for a steady stream that left `amount`. */
  perSecond(amount: number, now: number): number {
    return ((amount / this.weightAt(now)) * Math.LN2 * 1000) / this.halfLifeMs;
  }

  /** The factor for every count when weights have grown large, else undefined. */
  rescale(): number | undefined {
    if (this.#weight < WEIGHT_MAX) return undefined;
    const factor = 1 / this.#weight;
    this.#landmark = this.#at;
    this.#weight = 1;
    return factor;
  }
}

/** What is earlier still comes of a clock that was set back: counts fade on from there. */
export const LATE_MS_MAX = 60_000;
/** Far below where doubles lose whole numbers beside it. */
const WEIGHT_MAX = 2 ** 30;
