import type { Awaitable } from "../awaitable.ts";
import type { Clock } from "../clock.ts";
import { CallTime } from "./call-time.ts";
import { Turns } from "./turns.ts";

/** What an attempt answers when a rival came first: it is to be made again, on what is there then. */
export const LOST = Symbol("lost");

/** Is told whether it was lost before. */
export type Attempt<T> = (again: boolean) => Awaitable<T | typeof LOST>;

/**
 * Makes attempts that rivals may spoil until one holds. Of those that meet, each flush lets one win: where
 * all others came back at once, a thousand of them would be 500,000 commits, and the unluckiest come too
 * late. So they come back in turns, in which each wins but against newcomers and other processes.
 *
 * Who has had as long as a call may take, its wait for a turn included, is refused: its client is gone. So
 * are those behind it, where every turn is one time-out of an engine that is away.
 */
export class Contention {
  readonly #clock: Clock;
  readonly #turns = new Turns();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * For what seldom meets a rival: tries at once, and waits for a turn among those of `key` when it lost.
   * @throws EngineError `Unavailable` when it had as long as a call may take
   */
  async settle<T>(key: string, attempt: Attempt<T>): Promise<T> {
    const time = new CallTime(this.#clock);
    const first = await attempt(false);
    return first === LOST ? this.#inTurn(key, attempt, time, true) : first;
  }

  /**
   * For what meets a rival whenever there is one: waits for its turn first.
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
