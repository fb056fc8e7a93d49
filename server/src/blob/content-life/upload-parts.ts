import { type Awaitable, handledLater } from "../../awaitable.ts";
import { sharedOwnPages } from "../../own-pages.ts";
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
  /** Monotonic milliseconds. */
  readonly #now: () => number;
  #count = 0;
  readonly #free: Part[] = [];
  readonly #lent: LentPart[] = [];
  /** Parts that are written and still being summed, in that order. */
  readonly #summing: Promise<Part>[] = [];

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * The content of a body in long parts, which are also summed. Each is lent until the one after the next is
   * requested, the last ones until `giveBack`. While one part is handled, the next is filled, and is summed
   * as soon as it has arrived, so that the MD5, the slowest step of all, waits for no write.
   * @param contentOf the content among bytes of the body, moved to the beginning of their memory
   */
  async *gather(
    body: Pick<BodySource, "fill" | "reserve">,
    bodyBytes: number,
    contentOf: (bytes: Part) => Part,
    digest: RunningDigest,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    let isLeft = false;
    let partBytes = FIRST_PART_BYTES;
    /** Bytes of the body that no part has been asked for yet. */
    let left = bodyBytes;
    const arrive = async (part: Part): Promise<ArrivedPart> => {
      const filled = await body.fill(part);
      // A consumer that has left no longer needs the checksum, either.
      const content = isLeft ? NOTHING : contentOf(part.subarray(0, filled));
      return { content, summed: content.length > 0 ? digest.update(content) : undefined };
    };
    const ask = async (): Promise<AskedPart> => {
      const part = await this.#next(partBytes, body);
      left -= part.length;
      return { part, arriving: handledLater(arrive(part)) };
    };
    try {
      for (let ahead: AskedPart | undefined; ahead !== undefined || left > 0; ) {
        const began = this.#now();
        const { part, arriving } = ahead ?? (await ask());
        ahead = partBytes === PART_BYTES && left > 0 ? await ask() : undefined;
        const { content, summed } = await arriving;
        if (partBytes < PART_BYTES && this.#now() - began < QUICK_MS) partBytes *= PART_GROWTH;
        if (content.length > 0) {
          this.#lent.push({ part, summed });
          yield content;
          if (this.#lent.length > 1) this.#take(this.#lent.shift()!);
        } else {
          this.#take({ part, summed });
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

  /** Short parts are not used again. */
  async #next(bytes: number, body: Pick<BodySource, "reserve">): Promise<Part> {
    if (bytes === PART_BYTES) {
      const part = this.#free.pop();
      if (part !== undefined) return part;
      if (this.#count === PARTS_MAX) return await this.#summing.shift()!;
      this.#count++;
    }
    body.reserve(bytes);
    const pooled = bytes === PART_BYTES ? freeParts.pop() : undefined;
    return pooled ?? sharedOwnPages(bytes);
  }

  #take({ part, summed }: LentPart): void {
    if (part.length < PART_BYTES) return;
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
/**
 * A client that sends nothing holds no more than the first part, and a slow one short parts: a part is longer than
 * the one before if that arrived quickly.
 */
const FIRST_PART_BYTES = 16 << 10;
const PART_GROWTH = 8;
const QUICK_MS = 500;
/** Two are being filled, two are lent, and the others wait for a slow thread. */
const PARTS_MAX = 6;
const FREE_PARTS_MAX = 12;

const freeParts: Part[] = [];
const NOTHING: Part = new Uint8Array(new SharedArrayBuffer(0));

function free(part: Part): void {
  if (freeParts.length < FREE_PARTS_MAX) freeParts.push(part);
}
