import type { Client } from "./workload.ts";

/**
 * Starts operations at scheduled times, whether or not earlier ones have finished. Together the clients keep
 * one rate, each with random gaps, like the requests of independent users. An operation that is due while its
 * client still waits for an answer starts after that answer, and its latency counts from when it was due, so
 * waiting is included.
 */
export class Pace {
  readonly #gapMs: number;
  readonly #due = new Map<Client, number>();
  #waiting: { readonly due: number; readonly begin: (due: number) => void }[] = [];

  /** The rate of all clients together. */
  constructor(operationsPerSecond: number, clients: number) {
    this.#gapMs = (1000 * clients) / operationsPerSecond;
  }

  /** Calls `begin` when the next operation of `client` is due or later, with the time it was due. */
  next(client: Client, begin: (due: number) => void): void {
    const now = performance.now();
    const due = this.dueAfter(this.#due.get(client) ?? now, client);
    this.#due.set(client, due);
    if (due <= now) {
      begin(due);
      return;
    }
    this.#waiting.push({ due, begin });
    // A timer can be a millisecond late, which is longer than a flush takes.
    if (this.#waiting.length === 1) setImmediate(this.#beginDue);
  }

  /** Exponential gaps: the wait for the next operation does not depend on when the last one was. */
  dueAfter(last: number, client: Client): number {
    const uniform = (client.random(RESOLUTION) + 1) / RESOLUTION;
    return last - Math.log(uniform) * this.#gapMs;
  }

  #beginDue = (): void => {
    const now = performance.now();
    const due = this.#waiting.filter((each) => each.due <= now);
    if (due.length > 0) this.#waiting = this.#waiting.filter((each) => each.due > now);
    if (this.#waiting.length > 0) setImmediate(this.#beginDue);
    for (const each of due) each.begin(each.due);
  };
}

const RESOLUTION = 2 ** 30;
