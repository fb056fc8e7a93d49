/**
 * What this process is reading at the moment. Released lists and contents are freed only when their last
 * reader is done, so that an overwrite does not cut off a slow download. `LongReads` reports readers in other
 * processes.
 */
export class Readers {
  readonly #counts = new Map<string, number>();
  readonly #awaited = new Set<string>();
  #onDone: () => void = () => {};

  /** Calls `call` whenever the last read of something that `mustWaitFor` returned true for has ended. */
  whenDone(call: () => void): void {
    this.#onDone = call;
  }

  /** Ids of everything being read. */
  ids(): Iterable<string> {
    return this.#counts.keys();
  }

  mustWaitFor(id: string): boolean {
    if (!this.#counts.has(id)) return false;
    this.#awaited.add(id);
    return true;
  }

  /** Yields the same parts and counts as a reader from the first to the last. */
  async *during(
    id: string,
    parts: AsyncIterable<Uint8Array>,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    this.#begin(id);
    try {
      yield* parts;
    } finally {
      this.#end(id);
    }
  }

  /** Counts as a reader for the duration of the work. */
  async duringWork<T>(id: string, work: () => Promise<T>): Promise<T> {
    this.#begin(id);
    try {
      return await work();
    } finally {
      this.#end(id);
    }
  }

  #begin(id: string): void {
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
  }

  #end(id: string): void {
    const count = this.#counts.get(id)! - 1;
    if (count > 0) {
      this.#counts.set(id, count);
      return;
    }
    this.#counts.delete(id);
    if (this.#awaited.delete(id)) this.#onDone();
  }
}
