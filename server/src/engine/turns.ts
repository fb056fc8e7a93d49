import type { Clock } from "../clock.ts";
import { CallTime } from "./call-time.ts";

/**
 * Lets tasks that share a key go one after the other, in the order they came. Where each reads what
 * the one before wrote, such as merges of one hot entity, every flush takes one of them further; a
 * race would let one win and send all others back to read again, some of them for ever.
 */
export class Turns {
  readonly #clock: Clock;
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Who waited as long as a call may take is refused when its turn comes: where every task meets an
   * engine that is away, the last would wait for all their time-outs, and its client is gone by then.
   * @throws EngineError `Unavailable`: the task did not begin
   */
  async take<T>(key: string, task: () => Promise<T>): Promise<T> {
    const time = new CallTime(this.#clock);
    const inTurn = () => {
      time.assertLeft();
      return task();
    };
    const before = this.#last.get(key);
    const mine = before ? before.then(inTurn, inTurn) : task();
    this.#last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(key) === mine) this.#last.delete(key);
    }
  }
}
