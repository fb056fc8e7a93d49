import type { LentReads, Room } from "./lent-reads.ts";
import { BodyAborted, type BodySource } from "./raw-request.ts";

/**
 * A body of which some is still on its way. It goes straight to where its reader wants it; what comes
 * before the reader asks is kept, and no more is taken from the client until then.
 */
export class ArrivingBody implements BodySource, Room {
  readonly #reads: LentReads;
  readonly #length: number;
  /** Bytes that have not come. */
  left: number;
  /** The answer is out: what is still to come is not for anybody. */
  isUnwanted = false;
  /** What has come and nobody has asked for. */
  #kept: Buffer;
  #memory: Uint8Array = NOTHING;
  #filled = 0;
  #asked: { resolve(bytes: number): void; reject(error: Error): void } | undefined;
  #aborted = false;

  constructor(reads: LentReads, begin: Buffer, length: number) {
    this.#reads = reads;
    this.#length = length;
    this.left = length - begin.length;
    this.#kept = Buffer.from(begin);
    reads.room = this;
    reads.socket.pause();
  }

  get isWhole(): boolean {
    return this.left === 0;
  }

  async read(bytesMax: number): Promise<Uint8Array | undefined> {
    if (this.#length > bytesMax) return undefined;
    const body = Buffer.allocUnsafeSlow(this.#length);
    await this.fill(body);
    return body;
  }

  fill(memory: Uint8Array): number | Promise<number> {
    const taken = this.#kept.subarray(0, memory.length);
    memory.set(taken);
    this.#kept = this.#kept.subarray(taken.length);
    if (taken.length === memory.length || this.isWhole) return taken.length;
    if (this.#aborted) throw new BodyAborted();
    return new Promise((resolve, reject) => {
      this.#memory = memory;
      this.#filled = taken.length;
      this.#asked = { resolve, reject };
      if (this.#reads.socket.isPaused()) this.#reads.socket.resume();
    });
  }

  /** Takes what came by another way than its reader's memory. @returns what is behind the body */
  take(lent: Buffer): Buffer {
    const bytes = lent.subarray(0, this.left);
    const room = this.next();
    if (room !== undefined) {
      const taken = bytes.subarray(0, room.length);
      room.set(taken);
      this.#keep(bytes.subarray(taken.length));
      this.left -= bytes.length - taken.length;
      this.filled(taken.length);
    } else {
      this.left -= bytes.length;
      if (!this.isUnwanted) this.#keep(bytes);
    }
    return lent.subarray(bytes.length);
  }

  #keep(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#kept = Buffer.concat([this.#kept, bytes]);
    this.#reads.socket.pause();
  }

  next(): Uint8Array | undefined {
    if (this.#asked === undefined) return undefined;
    // The next request must not get there.
    const end = Math.min(this.#memory.length, this.#filled + this.left);
    return this.#memory.subarray(this.#filled, end);
  }

  filled(bytes: number): void {
    this.#filled += bytes;
    this.left -= bytes;
    const isDone = this.#filled === this.#memory.length || this.isWhole;
    if (!isDone || this.#asked === undefined) return;
    const { resolve } = this.#asked;
    this.#asked = undefined;
    resolve(this.#filled);
  }

  /** Nobody will ask any more, and who waits still gets nothing. */
  discard(): void {
    this.#kept = NOTHING;
    this.isUnwanted = true;
    this.#refuse();
    this.#reads.socket.resume();
  }

  /** No more will come. */
  abort(): void {
    this.#aborted = true;
    this.#refuse();
  }

  #refuse(): void {
    this.#asked?.reject(new BodyAborted());
    this.#asked = undefined;
  }
}

const NOTHING = Buffer.alloc(0);
