import type { BodySource } from "./body-source.ts";

/** Fills memory from parts of any length. */
export class PartsFiller implements Pick<BodySource, "fill"> {
  readonly #parts: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array(0);
  #last: Promise<number> = Promise.resolve(0);

  constructor(parts: AsyncIterable<Uint8Array>) {
    this.#parts = parts[Symbol.asyncIterator]();
  }

  fill(memory: Uint8Array): Promise<number> {
    this.#last = this.#last.then(() => this.#fill(memory));
    return this.#last;
  }

  /** Skips the rest. */
  async discard(): Promise<void> {
    await this.#last;
    while (!(await this.#parts.next()).done);
  }

  async #fill(memory: Uint8Array): Promise<number> {
    let filled = 0;
    while (filled < memory.length) {
      if (this.#rest.length === 0) {
        const next = await this.#parts.next();
        if (next.done) break;
        this.#rest = next.value;
      }
      const taken = this.#rest.subarray(0, memory.length - filled);
      memory.set(taken, filled);
      filled += taken.length;
      this.#rest = this.#rest.subarray(taken.length);
    }
    return filled;
  }
}
