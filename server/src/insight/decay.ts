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

  /** What one event weighs at `now`; time that goes backwards stands still. */
  weightAt(now: number): number {
    // Most events come within the same millisecond as the one before.
    if (now > this.#at) {
      this.#at = now;
      this.#weight = 2 ** ((now - this.#landmark) / this.halfLifeMs);
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

/** Far below where doubles lose whole numbers beside it. */
const WEIGHT_MAX = 2 ** 30;
