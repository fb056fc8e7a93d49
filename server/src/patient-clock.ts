import { type Clock, elapsedMs } from "./clock.ts";

/** A clock kept in step by time synchronization is corrected by less than this. */
const JUMP_MS_MIN = 60_000;
/** How long an operator has to notice a wrong clock. */
const PATIENCE_MS = 24 * 3_600_000;

/**
 * The time by which to decide that something is old enough to be freed for good. When the clock jumps ahead,
 * this one continues as if nothing had happened and follows a day later. Data that a wrong clock made look
 * expired is only hidden during that day, and reappears when the clock is set right. After a suspend, a
 * machine frees its share a day late.
 */
export class PatientClock implements Clock {
  readonly #clock: Clock;
  /** By how much the clock was ahead of elapsed time when it was last believed. */
  #believed: number;
  /**
   * Jumps not believed yet, each further ahead than the one before: after a suspend, the next jump may be a
   * wrong clock.
   */
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
    // The clock was set right.
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
  /** In elapsed time. */
  readonly at: number;
  /** By how much the clock was then ahead of elapsed time. */
  readonly ahead: number;
}
