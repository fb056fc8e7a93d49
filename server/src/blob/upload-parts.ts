import type { BodySource } from "../http/raw-request.ts";
import type { RunningDigest } from "./content-digest.ts";

/**
 * The memory that a large upload passes through. What a socket gives goes straight to long parts,
 * which are written and summed from where they are and then filled again, so an upload of any length
 * takes `PARTS_MAX` of them. They are kept from one upload to the next, for new memory costs more than
 * what is done with it.
 *
 *   free ──▶ filling ──▶ lent to who writes ──▶ with the digest ──▶ filling …, or free
 */
export class UploadParts {
  #count = 0;
  readonly #free: Part[] = [];
  readonly #lent: Part[] = [];
  /** With the digest, in the order in which it gives them back. */
  readonly #summing: Promise<Part>[] = [];

  /**
   * The content of a body in long parts, summed. Each is lent until the one after the next is asked
   * for, the last ones until `giveBack`.
   * @param contentOf the content among bytes of the body, at the beginning of their memory
   */
  async *gather(
    body: Pick<BodySource, "fill">,
    contentOf: (bytes: Part) => Part,
    digest: RunningDigest,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    for (let filled = PART_BYTES; filled === PART_BYTES; ) {
      const part = await this.#take();
      filled = await body.fill(part);
      const content = contentOf(part.subarray(0, filled));
      if (content.length > 0) yield* this.#lend(content, digest);
      else this.#free.push(part);
    }
    // It is being written still.
    const last = this.#lent[0];
    if (last) this.#sum(last.slice(), digest);
  }

  /** To be called once nobody writes them any more. */
  giveBack(): void {
    for (const bytes of [...this.#free, ...this.#lent]) free(bytes);
    for (const summing of this.#summing) summing.then(free, () => {});
  }

  *#lend(bytes: Part, digest: RunningDigest): Generator<Uint8Array, void, undefined> {
    digest.update(bytes);
    this.#lent.push(bytes);
    yield bytes;
    if (this.#lent.length > 1) this.#sum(this.#lent.shift()!, digest);
  }

  #sum(bytes: Part, digest: RunningDigest): void {
    const summed = digest.take(bytes);
    if (summed instanceof Promise) this.#summing.push(summed);
    else this.#free.push(summed);
  }

  async #take(): Promise<Part> {
    const part = this.#free.pop();
    if (part !== undefined) return part;
    if (this.#count === PARTS_MAX) return await this.#summing.shift()!;
    this.#count++;
    return freeParts.pop() ?? new Uint8Array(PART_BYTES);
  }
}

export type Part = Uint8Array<ArrayBuffer>;

/** Fewer trips to the threads that write and sum. */
const PART_BYTES = 512 << 10;
/** One fills, two are lent, and the others wait for a thread that is late. */
const PARTS_MAX = 6;
const FREE_PARTS_MAX = 24;

const freeParts: Part[] = [];

function free({ buffer }: Part): void {
  if (buffer.byteLength === PART_BYTES && freeParts.length < FREE_PARTS_MAX) {
    freeParts.push(new Uint8Array(buffer));
  }
}
