import { ownPages } from "../own-pages.ts";
import { PIECE_BYTES } from "./content-checksums.ts";

/**
 * Reads at once: libuv has four threads, and a flush must find one that is free. What has been read is also checked
 * and sent before other requests get their turn, so 3,000 downloads that begin together delay nobody by more than
 * three parts.
 */
const READS_MAX = 3;
const LONG_BYTES = 4 * PIECE_BYTES;
/** While all reads together hold less, each gets long buffers. */
const AMPLE_BYTES = 32 << 20;
const FREE_BUFFERS_MAX = 16;

/**
 * What all reads of a store take of the disk and of memory at once. A client that does not read its download holds
 * its buffers for as long as it likes, so the more of them are held, the shorter they are.
 */
export class ContentReads {
  #running = 0;
  /** In the order of their calls. */
  readonly #waiting: (() => void)[] = [];
  #heldBytes = 0;
  /** By size. New memory for each read costs as much as reading into it. */
  readonly #free = new Map<number, Buffer[]>([
    [PIECE_BYTES, []],
    [LONG_BYTES, []],
  ]);

  /** Runs the work when fewer than `READS_MAX` others run. */
  async inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running < READS_MAX) this.#running++;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    }
  }

  /** Bytes of all buffers that are taken. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  get hasPlenty(): boolean {
    return this.#heldBytes < AMPLE_BYTES;
  }

  /** Room for a number of whole pieces. Give it back when nobody reads or fills it any more. */
  takeBuffer(bytesLeft: number): Buffer {
    const bytes = bytesLeft > PIECE_BYTES && this.hasPlenty ? LONG_BYTES : PIECE_BYTES;
    const buffer = this.#free.get(bytes)?.pop() ?? ownPages(bytes);
    this.#heldBytes += buffer.length;
    return buffer;
  }

  giveBack(buffer: Buffer): void {
    this.#heldBytes -= buffer.length;
    const free = this.#free.get(buffer.length);
    if (free && free.length < FREE_BUFFERS_MAX) free.push(buffer);
  }
}

/** Whether it is one of those that a read has two of, to fill one while its consumer holds the other. */
export function isLong(buffer: Buffer): boolean {
  return buffer.length === LONG_BYTES;
}
