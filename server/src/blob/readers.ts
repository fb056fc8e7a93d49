/**
 * What this process is reading just now. Lists and contents that were let go of are freed when their
 * last reader is done, so that a slow download is not cut off by an overwrite. Of readers in other
 * processes `LongReads` tells.
 */
export class Readers {
  readonly #counts = new Map<string, number>();
  readonly #awaited = new Set<string>();
  #onDone: () => void = () => {};

  /** Calls when something that `mustWaitFor` was true of is no longer read. */
  whenDone(call: () => void): void {
    this.#onDone = call;
  }

  /** What is being read. */
  ids(): Iterable<string> {
    return this.#counts.keys();
  }

  mustWaitFor(id: string): boolean {
    if (!this.#counts.has(id)) return false;
    this.#awaited.add(id);
    return true;
  }

  /** The same parts, with the thing held from the first one to the last. */
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

  /** Holds the thing while work is done with it. */
  async hold<T>(id: string, work: () => Promise<T>): Promise<T> {
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
