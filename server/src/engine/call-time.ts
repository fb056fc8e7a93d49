import { type Clock, elapsedMs } from "../clock.ts";
import { CALL_MS_MAX, EngineError } from "./engine.ts";

/**
 * The time limit of a call that may lose to rivals or wait for its turn: it is refused once no client waits
 * for its answer any more. Setting the clock does not shorten it.
 */
export class CallTime {
  readonly #clock: Clock;
  readonly #beganAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#beganAt = elapsedMs(clock);
  }

  get isOver(): boolean {
    return elapsedMs(this.#clock) - this.#beganAt > CALL_MS_MAX;
  }

  /** Call it only when nothing is in flight. @throws EngineError `Unavailable` */
  assertLeft(): void {
    if (this.isOver) {
      throw new EngineError(
        "Unavailable",
        `Concurrent writes won for the ${CALL_MS_MAX / 1000} seconds that a call may take. Retry the request.`,
      );
    }
  }
}
