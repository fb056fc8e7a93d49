import { type Awaitable, handledLater } from "../awaitable.ts";
import type { BodySource } from "../http/raw-request.ts";
import type { RunningDigest } from "./content-digest.ts";

/**
 * The memory that a large upload passes through. What a socket gives goes straight to long parts,
 * which are written and summed from where they are and then filled again, so an upload of any length
 * takes `PARTS_MAX` of them. They are kept from one upload to the next, for new memory costs more than
 * what is done with it. The thread that sums shares them.
 *
 *   free ──▶ filling ──▶ lent to who writes, and being summed ──▶ free, when both are through
 */
export class UploadParts {
  #count = 0;
  readonly #free: Part[] = [];
  readonly #lent: LentPart[] = [];
  /** Written, and to be summed still, in that order. */
  readonly #summing: Promise<Part>[] = [];

  /**
   * The content of a body in long parts, summed. Each is lent until the one after the next is asked
   * for, the last ones until `giveBack`. While one is handled the next one fills.
   * @param contentOf the content among bytes of the body, at the beginning of their memory
   */
  async *gather(
    body: Pick<BodySource, "fill">,
    bodyBytes: number,
    contentOf: (bytes: Part) => Part,
    digest: RunningDigest,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    let ahead = await this.#ask(body);
    for (let left = bodyBytes; left > 0; left -= PART_BYTES) {
      const { part, filling } = ahead;
      if (left > PART_BYTES) ahead = await this.#ask(body);
      const content = contentOf(part.subarray(0, await filling));
      if (content.length > 0) {
        this.#lent.push({ part, summed: digest.update(content) });
        yield content;
        if (this.#lent.length > 1) this.#take(this.#lent.shift()!);
      } else {
        this.#free.push(part);
      }
    }
  }

  /** To be called once nobody writes them any more. */
  giveBack(): void {
    for (const lent of this.#lent.splice(0)) this.#take(lent);
    for (const part of this.#free.splice(0)) free(part);
    for (const summing of this.#summing.splice(0)) summing.then(free, () => {});
  }

  async #ask(body: Pick<BodySource, "fill">): Promise<FillingPart> {
    const part = await this.#next();
    return { part, filling: handledLater(Promise.resolve(body.fill(part))) };
  }

  async #next(): Promise<Part> {
    const part = this.#free.pop();
    if (part !== undefined) return part;
    if (this.#count === PARTS_MAX) return await this.#summing.shift()!;
    this.#count++;
    return freeParts.pop() ?? new Uint8Array(new SharedArrayBuffer(PART_BYTES));
  }

  #take({ part, summed }: LentPart): void {
    if (!(summed instanceof Promise)) {
      this.#free.push(part);
      return;
    }
    this.#summing.push(handledLater(summed.then(() => part)));
  }
}

export type Part = Uint8Array<SharedArrayBuffer>;

interface FillingPart {
  readonly part: Part;
  readonly filling: Promise<number>;
}

interface LentPart {
  readonly part: Part;
  readonly summed: Awaitable<void>;
}

/** Fewer trips to the threads that write and sum: half as much takes 1.1 times the processor. */
const PART_BYTES = 1 << 20;
/** Two fill, two are lent, and the others wait for a thread that is late. */
const PARTS_MAX = 6;
const FREE_PARTS_MAX = 12;

const freeParts: Part[] = [];

function free(part: Part): void {
  if (freeParts.length < FREE_PARTS_MAX) freeParts.push(part);
}
