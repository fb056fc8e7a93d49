import type { RunningDigest } from "./content-digest.ts";

/**
 * The memory that a large upload passes through. What a socket gives in pieces gathers in long parts,
 * which are written and summed from where they are and then filled again, so an upload of any length
 * takes `PARTS_MAX` of them. They are kept from one upload to the next, for new memory costs more than
 * what is done with it.
 *
 *   free ──▶ filling ──▶ lent to who writes ──▶ with the digest ──▶ filling …, or free
 */
export class UploadParts {
  #count = 0;
  readonly #free: Uint8Array<ArrayBuffer>[] = [];
  readonly #lent: Uint8Array<ArrayBuffer>[] = [];
  /** With the digest, in the order in which it gives them back. */
  readonly #summing: Promise<Uint8Array<ArrayBuffer>>[] = [];

  /**
   * The same content in long parts, summed. Each is lent until the one after the next is asked for,
   * the last ones until `giveBack`.
   */
  async *gather(
    content: AsyncIterable<Uint8Array>,
    digest: RunningDigest,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    let part = await this.#take();
    let filled = 0;
    for await (const bytes of content) {
      for (let at = 0; at < bytes.length; ) {
        const taken = bytes.subarray(at, at + PART_BYTES - filled);
        part.set(taken, filled);
        filled += taken.length;
        at += taken.length;
        if (filled < PART_BYTES) continue;
        yield* this.#lend(part, digest);
        part = await this.#take();
        filled = 0;
      }
    }
    if (filled > 0) yield* this.#lend(part.subarray(0, filled), digest);
    else this.#free.push(part);
    // It is being written still.
    const last = this.#lent[0];
    if (last) this.#sum(last.slice(), digest);
  }

  /** To be called once nobody writes them any more. */
  giveBack(): void {
    for (const bytes of [...this.#free, ...this.#lent]) free(bytes);
    for (const summing of this.#summing) summing.then(free, () => {});
  }

  *#lend(
    bytes: Uint8Array<ArrayBuffer>,
    digest: RunningDigest,
  ): Generator<Uint8Array, void, undefined> {
    digest.update(bytes);
    this.#lent.push(bytes);
    yield bytes;
    if (this.#lent.length > 1) this.#sum(this.#lent.shift()!, digest);
  }

  #sum(bytes: Uint8Array<ArrayBuffer>, digest: RunningDigest): void {
    const summed = digest.take(bytes);
    if (summed instanceof Promise) this.#summing.push(summed);
    else this.#free.push(summed);
  }

  async #take(): Promise<Uint8Array<ArrayBuffer>> {
    const part = this.#free.pop();
    if (part !== undefined) return part;
    if (this.#count === PARTS_MAX) return await this.#summing.shift()!;
    this.#count++;
    return freeParts.pop() ?? new Uint8Array(PART_BYTES);
  }
}

/** Fewer trips to the threads that write and sum. */
const PART_BYTES = 256 << 10;
/** One fills, two are lent, and the others wait for a thread that is late. */
const PARTS_MAX = 6;
const FREE_PARTS_MAX = 32;

const freeParts: Uint8Array<ArrayBuffer>[] = [];

function free({ buffer }: Uint8Array<ArrayBuffer>): void {
  if (buffer.byteLength === PART_BYTES && freeParts.length < FREE_PARTS_MAX) {
    freeParts.push(new Uint8Array(buffer));
  }
}
