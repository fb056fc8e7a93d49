import { type Awaitable, handledLater } from "../../awaitable.ts";
import type { BodySource } from "../../wire/body-source.ts";
import type { RunningDigest } from "./content-digest.ts";

/**
 * The memory that a large upload passes through. A socket's bytes go straight into long parts, which are
 * written and summed in place and then refilled, so an upload of any length takes at most `PARTS_MAX` of
 * them. They are reused by later uploads: allocating memory costs more than the work done with it. The MD5
 * thread shares them.
 *
 *   free ──▶ filling ──▶ lent to the writer and being summed ──▶ free, when both are done
 */
export class UploadParts {
  #count = 0;
  readonly #free: Part[] = [];
  readonly #lent: LentPart[] = [];
  /** Parts that are written and still being summed, in that order. */
  readonly #summing: Promise<Part>[] = [];

  /**
   * The content of a body in long parts, which are also summed. Each is lent until the one after the next is
   * requested, the last ones until `giveBack`. While one part is handled, the next is filled, and is summed
   * as soon as it has arrived, so that the MD5, the slowest step of all, waits for no write.
   * @param contentOf the content among bytes of the body, moved to the beginning of their memory
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
      // A consumer that has left no longer needs the checksum, either.
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

  /** Call it once the parts are no longer read. */
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

/** Half this size takes 1.1 times the processor: it means more messages to the threads that write and sum. */
const PART_BYTES = 1 << 20;
/** Two are being filled, two are lent, and the others wait for a slow thread. */
const PARTS_MAX = 6;
const FREE_PARTS_MAX = 12;

const freeParts: Part[] = [];
const NOTHING: Part = new Uint8Array(new SharedArrayBuffer(0));

function free(part: Part): void {
  if (freeParts.length < FREE_PARTS_MAX) freeParts.push(part);
}
