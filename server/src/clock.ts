/** Where time comes from. Injected everywhere, so that tests can stop it. */
export interface Clock {
  /** Milliseconds since 1970, as `Date.now`. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };
