import type { LentBody } from "../operation.ts";

/**
 * The body of a list, in the page it was written to. Pages are used again: a body of its own for each
 * list is memory from the system, two copies of it, and garbage to collect every few lists: 100 and
 * 1,000 entities of 1 KB took a server 336 and 2,770 µs of CPU that way, and take 236 and 1,310 so.
 *
 * It is taken once: by `copy`, or, when it is long, as it is. A page goes back when it has left its
 * sender; one whose sending was broken off is dropped.
 */
export class ListBody implements LentBody {
  readonly start = HEAD_ROOM_BYTES;
  readonly end: number;
  readonly #page: Page;

  constructor(page: Page, end: number) {
    this.#page = page;
    this.end = end;
  }

  get length(): number {
    return this.end - this.start;
  }

  get memory(): Buffer {
    return this.#page.bytes;
  }

  /** Whether it is worth sending without a copy, and safe. */
  get isLong(): boolean {
    return this.length >= LONG_BYTES;
  }

  copy(): Uint8Array {
    const body = Buffer.allocUnsafe(this.length);
    this.memory.copy(body, 0, this.start, this.end);
    this.giveBack();
    return body;
  }

  giveBack(): void {
    const { bytes } = this.#page;
    if (spare.length < SPARE_PAGES_MAX && bytes.length <= SPARE_BYTES_MAX) spare.push(this.#page);
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    let isTaken = false;
    return {
      next: async () => {
        if (isTaken) {
          this.giveBack();
          return { done: true, value: undefined };
        }
        isTaken = true;
        return { done: false, value: this.memory.subarray(this.start, this.end) };
      },
    };
  }
}

/** Four times the `highWaterMark` of sockets in Node 20, as much as in Node 22 and later. */
const LONG_BYTES = 64 * 1024;

/** Where a list is written before its length is known, `HEAD_ROOM_BYTES` behind the beginning. */
export class Page {
  bytes: Buffer = Buffer.allocUnsafeSlow(PAGE_BYTES);

  /** Makes room for `count` bytes behind the first `at`, which stay. */
  reserve(at: number, count: number): void {
    if (at + count <= this.bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(at + count, 2 * this.bytes.length));
    larger.set(this.bytes.subarray(0, at));
    this.bytes = larger;
  }
}

/** A list that fails never gives its page back; there are others. */
export function takePage(): Page {
  return spare.pop() ?? new Page();
}

const spare: Page[] = [];
const PAGE_BYTES = 128 * 1024;
/** The head of an answer is put in front of it, and the whole sent in one piece. */
export const HEAD_ROOM_BYTES = 4096;
/** As many lists are sent at once by a busy server; together no more than 16 MiB. */
const SPARE_PAGES_MAX = 8;
/** A thousand entities of 1 KB fit. */
const SPARE_BYTES_MAX = 2 * 1024 * 1024;
