import { CLEAR_LINE } from "../clear-line.ts";

const SHOW_EVERY_MS = 500;

/** Shows on a terminal how many entities were moved, how fast, and how long the rest takes where that is known. */
export class TransferProgress {
  readonly #terminal: NodeJS.WriteStream | undefined;
  readonly #label: string;
  readonly #beganAt = performance.now();
  #shownAt = 0;
  #entities = 0;
  #done = 0;

  constructor(label: string, terminal: NodeJS.WriteStream = process.stderr) {
    this.#label = label;
    this.#terminal = terminal.isTTY ? terminal : undefined;
  }

  /** @param done the part of the work that is done, from 0 to 1, where known */
  add(entities: number, done = this.#done): void {
    this.#entities += entities;
    this.#done = done;
    const now = performance.now();
    if (this.#terminal === undefined || now - this.#shownAt < SHOW_EVERY_MS) return;
    this.#shownAt = now;
    this.#terminal.write(CLEAR_LINE + this.#line((now - this.#beganAt) / 1000));
  }

  end(): void {
    this.#terminal?.write(CLEAR_LINE);
  }

  #line(seconds: number): string {
    const rate = Math.round(this.#entities / Math.max(seconds, 0.001));
    const line = `${this.#label}: ${this.#entities} entities, ${rate}/s`;
    if (this.#done <= 0) return line;
    const left = Math.ceil((seconds * (1 - this.#done)) / this.#done);
    return `${line}, ${Math.floor(this.#done * 100)} %, about ${left} s left`;
  }
}
