import type { Client } from "./workload.ts";

/**
 * Begins operations at times of their own, whatever became of those before: together the clients keep
 * one rate, each with random gaps, as requests of people who do not know of each other come. An
 * operation that is due while its client still waits for an answer begins behind that, and its
 * latency counts from when it was due: what was kept waiting is not left out.
 */
export class Pace {
  readonly #gapMs: number;
  readonly #due = new Map<Client, number>();
  #waiting: { readonly due: number; readonly begin: (due: number) => void }[] = [];

  /** Of all clients together. */
  constructor(operationsPerSecond: number, clients: number) {
    this.#gapMs = (1000 * clients) / operationsPerSecond;
  }

  /** Calls `begin` with the time at which the next operation of `client` is due, then or later. */
  next(client: Client, begin: (due: number) => void): void {
    const now = performance.now();
    const due = this.dueAfter(this.#due.get(client) ?? now, client);
    this.#due.set(client, due);
    if (due <= now) {
      begin(due);
      return;
    }
    this.#waiting.push({ due, begin });
    // A timer comes up to a millisecond late, which is longer than a flush takes.
    if (this.#waiting.length === 1) setImmediate(this.#beginDue);
  }

  /** Exponential gaps: the next comes as soon whether or not one has just been. */
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
