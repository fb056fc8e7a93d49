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
   * for, the last ones until `giveBack`. While one is handled the next one fills, and is summed as soon
   * as it is there, so that the MD5, which takes longest of all, waits for no write.
   * @param contentOf the content among bytes of the body, at the beginning of their memory
   */
  async *gather(
    body: Pick<BodySource, "fill">,
    bodyBytes: number,
    contentOf: (bytes: Part) => Part,
    digest: RunningDigest,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    let isLeft = false;
    const arrive = async (part: Part): Promise<ArrivedPart> => {
      const filled = await body.fill(part);
      // Who has left forgets the sum, too.
      const content = isLeft ? NOTHING : contentOf(part.subarray(0, filled));
      return { content, summed: content.length > 0 ? digest.update(content) : undefined };
    };
    const ask = async (): Promise<AskedPart> => {
      const part = await this.#next();
      return { part, arriving: handledLater(arrive(part)) };
    };
    try {
      let ahead = await ask();
      for (let left = bodyBytes; left > 0; left -= PART_BYTES) {
        const { part, arriving } = ahead;
        if (left > PART_BYTES) ahead = await ask();
        const { content, summed } = await arriving;
        if (content.length > 0) {
          this.#lent.push({ part, summed });
          yield content;
          if (this.#lent.length > 1) this.#take(this.#lent.shift()!);
        } else {
          this.#free.push(part);
        }
      }
    } finally {
      isLeft = true;
    }
  }

  /** To be called once nobody writes them any more. */
  giveBack(): void {
    for (const lent of this.#lent.splice(0)) this.#take(lent);
    for (const part of this.#free.splice(0)) free(part);
    for (const summing of this.#summing.splice(0)) summing.then(free, () => {});
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

interface AskedPart {
  readonly part: Part;
  readonly arriving: Promise<ArrivedPart>;
}

interface ArrivedPart {
  readonly content: Part;
  readonly summed: Awaitable<void>;
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
const NOTHING: Part = new Uint8Array(new SharedArrayBuffer(0));

function free(part: Part): void {
  if (freeParts.length < FREE_PARTS_MAX) freeParts.push(part);
}
