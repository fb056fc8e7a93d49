import type { Clock } from "../clock.ts";
import { CALL_MS_MAX, EngineError } from "./engine.ts";

/**
 * The time of a call that others keep from going on: who loses to rivals again and again, or waits for
 * its turn, is refused when no client waits for it any more.
 */
export class CallTime {
  readonly #clock: Clock;
  readonly #beganAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#beganAt = clock.now();
  }

  /** To be asked where nothing is under way. @throws EngineError `Unavailable` */
  assertLeft(): void {
    if (this.#clock.now() - this.#beganAt > CALL_MS_MAX) {
      throw new EngineError("Unavailable", "Others came first for as long as a call may take.");
    }
  }
}
