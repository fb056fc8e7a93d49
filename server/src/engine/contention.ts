import type { Awaitable } from "../awaitable.ts";
import type { Clock } from "../clock.ts";
import { CallTime } from "./call-time.ts";
import { KeyedQueue } from "./keyed-queue.ts";

/** The result of an attempt that lost to a rival: repeat it on the data as it is then. */
export const LOST = Symbol("lost");

/** `again`: whether an earlier attempt was lost. */
export type Attempt<T> = (again: boolean) => Awaitable<T | typeof LOST>;

/**
 * Repeats attempts that rivals may spoil until one succeeds. Of the attempts that meet, each flush lets one win: if
 * all losers retried at once, a thousand of them would cost 500,000 commits, and the last ones would run out of time.
 * So losers retry in turn, and each wins its turn unless a newcomer or another process interferes.
 *
 * A caller that has taken as long as a call may take, its wait for a turn included, is refused: its client is
 * gone. If the engine is away and every turn ends in a timeout, those waiting behind it are refused too.
 */
export class Contention {
  readonly #clock: Clock;
  readonly #turns = new KeyedQueue();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * For changes that seldom meet a rival: tries immediately, and waits for a turn under `key` if it loses.
   * @throws EngineError `Unavailable` if it has taken as long as a call may take
   */
  async settle<T>(key: string, attempt: Attempt<T>): Promise<T> {
    const time = new CallTime(this.#clock);
    const first = await attempt(false);
    return first === LOST ? this.#inTurn(key, attempt, time, true) : first;
  }

  /**
   * For changes that meet a rival whenever there is one: waits for its turn first.
   * @throws EngineError as `settle` does
   */
  inTurn<T>(key: string, attempt: Attempt<T>): Promise<T> {
    return this.#inTurn(key, attempt, new CallTime(this.#clock), false);
  }

  #inTurn<T>(key: string, attempt: Attempt<T>, time: CallTime, wasLost: boolean): Promise<T> {
    return this.#turns.take(key, async () => {
      for (let again = wasLost; ; again = true) {
        time.assertLeft();
        const result = await attempt(again);
        if (result !== LOST) return result;
      }
    });
  }
}
