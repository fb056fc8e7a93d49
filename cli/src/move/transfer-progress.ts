import { CLEAR_LINE } from "../clear-line.ts";

const SHOW_EVERY_MS = 500;

export interface ProgressOptions {
  /** What is counted: its name, and how many make one of it. */
  readonly unit?: { readonly name: string; readonly size: number };
  readonly terminal?: NodeJS.WriteStream;
}

export const MEGABYTES = { name: "MB", size: 1e6 };

/** Shows on a terminal how much was moved, how fast, and how long the rest takes where that is known. */
export class TransferProgress {
  readonly #terminal: NodeJS.WriteStream | undefined;
  readonly #label: string;
  readonly #beganAt = performance.now();
  #shownAt = 0;
  readonly #unit: { readonly name: string; readonly size: number };
  #moved = 0;
  #done = 0;

  constructor(
    label: string,
    { unit = { name: "entities", size: 1 }, terminal = process.stderr }: ProgressOptions = {},
  ) {
    this.#label = label;
    this.#unit = unit;
    this.#terminal = terminal.isTTY ? terminal : undefined;
  }

  /** @param done the part of the work that is done, from 0 to 1, where known */
  add(moved: number, done = this.#done): void {
    this.#moved += moved;
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
    const { name, size } = this.#unit;
    const moved = this.#moved / size;
    const rate = Math.round(moved / Math.max(seconds, 0.001));
    const line = `${this.#label}: ${Math.round(moved)} ${name}, ${rate}/s`;
    if (this.#done <= 0) return line;
    const left = Math.ceil((seconds * (1 - this.#done)) / this.#done);
    return `${line}, ${Math.floor(this.#done * 100)} %, about ${left} s left`;
  }
}
