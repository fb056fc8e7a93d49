import { type Clock, elapsedMs } from "./clock.ts";

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
  /** What the clock was ahead of the time that went by when it was last believed. */
  #believed: number;
  /** Those not believed yet, each further ahead: behind a suspend, the next may be a clock that is wrong. */
  readonly #jumps: Jump[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#believed = clock.now() - this.elapsed();
  }

  elapsed(): number {
    return elapsedMs(this.#clock);
  }

  now(): number {
    const jumps = this.#jumps;
    const elapsed = this.elapsed();
    const ahead = this.#clock.now() - elapsed;
    // Set right.
    while (jumps.length > 0 && ahead - (jumps.at(-2)?.ahead ?? this.#believed) < JUMP_MS_MIN) {
      jumps.pop();
    }
    while (jumps.length > 0 && elapsed - jumps[0]!.at >= PATIENCE_MS) {
      this.#believed = jumps.shift()!.ahead;
    }
    const last = jumps.at(-1)?.ahead ?? this.#believed;
    if (ahead - last >= JUMP_MS_MIN) jumps.push({ at: elapsed, ahead });
    if (jumps.length === 0) this.#believed = ahead;
    return elapsed + this.#believed;
  }
}

interface Jump {
  /** By the time that went by. */
  readonly at: number;
  /** What the clock was ahead of it then. */
  readonly ahead: number;
}
