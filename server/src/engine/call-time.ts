import { type Clock, elapsedMs } from "../clock.ts";
import { CALL_MS_MAX, EngineError } from "./engine.ts";

/**
 * The time of a call that others keep from going on: who loses to rivals again and again, or waits for
 * its turn, is refused when no client waits for it any more. A clock that is set makes it no shorter.
 */
export class CallTime {
  readonly #clock: Clock;
  readonly #beganAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#beganAt = elapsedMs(clock);
  }

  /** To be asked where nothing is under way. @throws EngineError `Unavailable` */
  assertLeft(): void {
    if (elapsedMs(this.#clock) - this.#beganAt > CALL_MS_MAX) {
      throw new EngineError("Unavailable", "Others came first for as long as a call may take.");
    }
  }
}
