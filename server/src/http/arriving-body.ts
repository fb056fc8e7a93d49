import type { LentReads, Room } from "./lent-reads.ts";
import { BodyAborted, type BodySource } from "./raw-request.ts";

/**
 * A body of which some is still on its way. It goes straight to where its reader wants it; what comes
 * before the reader asks is kept, and no more is taken from the client until then.
 */
export class ArrivingBody implements BodySource, Room {
  readonly #reads: LentReads;
  readonly bytes: number;
  /** Bytes that have not come. */
  left: number;
  /** The answer is out: nobody wants what is still to come. */
  isUnwanted = false;
  /** What has come and nobody has asked for. */
  #kept: Buffer;
  /** In the order in which it is filled. */
  readonly #asked: Asked[] = [];
  #aborted = false;

  constructor(reads: LentReads, begin: Buffer, length: number) {
    this.#reads = reads;
    this.bytes = length;
    this.left = length - begin.length;
    this.#kept = Buffer.from(begin);
    reads.room = this;
    reads.socket.pause();
  }

  get isWhole(): boolean {
    return this.left === 0;
  }

  async read(bytesMax: number): Promise<Uint8Array | undefined> {
    if (this.bytes > bytesMax) return undefined;
    const body = Buffer.allocUnsafeSlow(this.bytes);
    await this.fill(body);
    return body;
  }

  fill(memory: Uint8Array): number | Promise<number> {
    // What is kept came before anybody asked.
    const taken = this.#kept.subarray(0, memory.length);
    memory.set(taken);
    this.#kept = this.#kept.subarray(taken.length);
    if (taken.length === memory.length || this.isWhole) return taken.length;
    if (this.#aborted) throw new BodyAborted();
    return new Promise((resolve, reject) => {
      this.#asked.push({ memory, filled: taken.length, resolve, reject });
      if (this.#reads.socket.isPaused()) this.#reads.socket.resume();
    });
  }

  /** Takes what came by another way than its reader's memory. @returns what is behind the body */
  take(lent: Buffer): Buffer {
    let bytes = lent.subarray(0, this.left);
    const behind = lent.subarray(bytes.length);
    for (let room = this.next(); room !== undefined && bytes.length > 0; room = this.next()) {
      const taken = bytes.subarray(0, room.length);
      room.set(taken);
      bytes = bytes.subarray(taken.length);
      this.filled(taken.length);
    }
    this.left -= bytes.length;
    if (bytes.length > 0 && !this.isUnwanted) {
      this.#kept = Buffer.concat([this.#kept, bytes]);
      this.#reads.socket.pause();
    }
    return behind;
  }

  next(): Uint8Array | undefined {
    const first = this.#asked[0];
    if (first === undefined) return undefined;
    const { memory, filled } = first;
    // The next request must not get there.
    return memory.subarray(filled, Math.min(memory.length, filled + this.left));
  }

  filled(bytes: number): void {
    this.left -= bytes;
    const first = this.#asked[0];
    if (first === undefined) return;
    first.filled += bytes;
    if (this.isWhole) {
      for (const { filled, resolve } of this.#asked.splice(0)) resolve(filled);
    } else if (first.filled === first.memory.length) {
      this.#asked.shift();
      first.resolve(first.filled);
      // Or else what comes would have to be kept.
      if (this.#asked.length === 0) this.#reads.socket.pause();
    }
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
    for (const { reject } of this.#asked.splice(0)) reject(new BodyAborted());
  }
}

interface Asked {
  readonly memory: Uint8Array;
  filled: number;
  readonly resolve: (bytes: number) => void;
  readonly reject: (error: Error) => void;
}

const NOTHING = Buffer.alloc(0);
