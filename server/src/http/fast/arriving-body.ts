import { BodyAborted, type BodySource } from "../../wire/body-source.ts";
import { grownBytes } from "../growing-bytes.ts";
import type { Holding } from "../peer-memory.ts";
import type { Room, SharedReadBuffers } from "./shared-read-buffer.ts";

/**
 * A body that is still arriving. Bytes go straight to the memory its reader provides. Bytes that arrive
 * before the reader asks are held, and the client is not read from again until it does.
 */
export class ArrivingBody implements BodySource, Room {
  readonly #reads: SharedReadBuffers;
  readonly #holding: Holding;
  readonly bytes: number;
  /** Bytes that have not arrived. */
  left: number;
  /** The answer is out, so the rest of the body is discarded as it arrives. */
  isUnwanted = false;
  /** Bytes that have arrived before the reader asked for them. */
  #kept: Buffer;
  /** Pending calls of `fill`, in the order they are served. */
  readonly #asked: Asked[] = [];
  #aborted = false;

  /** @param holding counts what is held of the body, and how fast it arrives; its owner releases it */
  constructor(reads: SharedReadBuffers, begin: Buffer, length: number, holding: Holding) {
    this.#reads = reads;
    this.#holding = holding;
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
    let [body, filled] = [NOTHING, 0];
    do {
      const larger = grownBytes(filled || this.#kept.length, this.bytes);
      this.reserve(larger - body.length);
      const grown = Buffer.allocUnsafeSlow(larger);
      body.copy(grown);
      body = grown;
      filled += await this.fill(body.subarray(filled));
    } while (filled < this.bytes);
    return body;
  }

  reserve(bytes: number): void {
    this.#holding.reserve(bytes);
  }

  fill(memory: Uint8Array): number | Promise<number> {
    // Held bytes arrived first.
    const taken = this.#kept.subarray(0, memory.length);
    memory.set(taken);
    this.#kept = this.#kept.subarray(taken.length);
    if (taken.length === memory.length || this.isWhole) return taken.length;
    if (this.#aborted) throw new BodyAborted();
    this.#holding.waitsFor = "body";
    return new Promise((resolve, reject) => {
      this.#asked.push({ memory, filled: taken.length, resolve, reject });
      if (this.#reads.socket.isPaused()) this.#reads.socket.resume();
    });
  }

  /** Accepts bytes that were not read straight into the reader's memory. @returns the bytes behind the body */
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
    this.#holding.moved(bytes.length);
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
    // The next request's bytes must not end up there.
    return memory.subarray(filled, Math.min(memory.length, filled + this.left));
  }

  filled(bytes: number): void {
    this.left -= bytes;
    this.#holding.moved(bytes);
    const first = this.#asked[0];
    if (first === undefined) return;
    first.filled += bytes;
    if (this.isWhole) {
      this.#holding.waitsFor = undefined;
      for (const { filled, resolve } of this.#asked.splice(0)) resolve(filled);
    } else if (first.filled === first.memory.length) {
      this.#asked.shift();
      first.resolve(first.filled);
      if (this.#asked.length > 0) return;
      // Otherwise further bytes would have to be held.
      this.#reads.socket.pause();
      this.#holding.waitsFor = undefined;
    }
  }

  /** The reader is done: rejects pending calls, and discards the rest of the body. */
  discard(): void {
    this.#kept = NOTHING;
    this.isUnwanted = true;
    this.#refuse();
    if (!this.isWhole) this.#holding.waitsFor = "body";
    this.#reads.socket.resume();
  }

  /** The connection is gone: no more bytes will arrive. */
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
