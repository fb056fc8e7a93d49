import type { Clock } from "./clock.ts";

/** Clocks that are kept are stepped by less. */
const JUMP_MS_MIN = 60_000;
/** How long somebody has to notice a clock that is wrong. */
const PATIENCE_MS = 24 * 3_600_000;

/**
 * The time by which things are old enough to be freed for good. Where the clock jumps ahead, it goes on as
 * if nothing had happened, and follows after a day: what a wrong clock made old is only hidden until then,
 * and is there again when the clock is set right. A machine that was suspended frees its share a day later.
 */
export class PatientClock implements Clock {
  readonly #clock: Clock;
  readonly #stopwatch: () => number;
  /** What the clock was ahead of the stopwatch when it was last believed. */
  #believed: number;
  #jumpedAt: number | undefined;

  /** @param stopwatch milliseconds that only grow */
  constructor(clock: Clock, stopwatch = () => performance.now()) {
    this.#clock = clock;
    this.#stopwatch = stopwatch;
    this.#believed = clock.now() - stopwatch();
  }

  now(): number {
    const elapsed = this.#stopwatch();
    const ahead = this.#clock.now() - elapsed;
    if (ahead - this.#believed >= JUMP_MS_MIN) {
      this.#jumpedAt ??= elapsed;
      if (elapsed - this.#jumpedAt < PATIENCE_MS) return elapsed + this.#believed;
    }
    this.#jumpedAt = undefined;
    this.#believed = ahead;
    return elapsed + ahead;
  }
}
