import { createHash, type Hash } from "node:crypto";
import { availableParallelism } from "node:os";
import { Crc64 } from "@rowhouse/protocol/crc64";
import type { Awaitable } from "../../awaitable.ts";
import { beginMd5 } from "./md5-thread.ts";

/** Computes the checksums of content as it passes through. */
export interface RunningDigest {
  /** Adds a part, which must not change until this resolves. */
  update(part: Uint8Array<SharedArrayBuffer>): Awaitable<void>;
  /** Call it once at the end, or `forget` instead. */
  digest(): Awaitable<Digests>;
  forget(): void;
}

export interface WantedDigests {
  readonly md5: boolean;
  /** A CRC64 computed elsewhere, if there is one. */
  readonly crc64?: Pick<Crc64, "digest"> | undefined;
}

/** Always computes a CRC64; an MD5 only on request. */
export class ContentDigest implements RunningDigest {
  readonly #ownCrc64: Crc64 | undefined;
  readonly #crc64: Pick<Crc64, "digest">;
  readonly #md5: Hash | undefined;
  #bytes = 0;

  constructor({ md5, crc64 }: WantedDigests) {
    this.#ownCrc64 = crc64 ? undefined : new Crc64();
    this.#crc64 = crc64 ?? this.#ownCrc64!;
    this.#md5 = md5 ? createHash("md5") : undefined;
  }

  update(part: Uint8Array): void {
    this.#bytes += part.length;
    this.#ownCrc64?.update(part);
    this.#md5?.update(part);
  }

  digest(): Digests {
    return {
      bytes: this.#bytes,
      crc64: Buffer.from(this.#crc64.digest()).toString("base64"),
      md5: this.#md5?.digest("base64"),
    };
  }

  forget(): void {}
}

/** Checksums in base64. */
export interface Digests {
  readonly bytes: number;
  readonly crc64: string;
  readonly md5: string | undefined;
}

export function digestOf(bytes: Uint8Array, wanted: WantedDigests): Digests {
  const digest = new ContentDigest(wanted);
  digest.update(bytes);
  return digest.digest();
}

/** Shorter content is summed on the main thread: messages to the MD5 thread would cost as much. */
const THREADED_BYTES_MIN = 1 << 20;
/** On a single processor, a second thread only adds work. */
const hasSpareCore = availableParallelism() > 1;

/** Begins the checksums of content of this length, and picks the thread for the MD5. */
export function beginDigest(bytes: number, wanted: WantedDigests): RunningDigest {
  const isThreaded = wanted.md5 && hasSpareCore && bytes >= THREADED_BYTES_MIN;
  return isThreaded ? new ThreadedDigest(wanted) : new ContentDigest(wanted);
}

/** Both checksums, with the MD5 computed in the other thread. */
class ThreadedDigest implements RunningDigest {
  readonly #local: ContentDigest;
  readonly #thread = beginMd5();

  constructor({ crc64 }: WantedDigests) {
    this.#local = new ContentDigest({ md5: false, crc64 });
  }

  update(part: Uint8Array<SharedArrayBuffer>): Promise<void> {
    const summed = this.#thread.update(part);
    this.#local.update(part);
    return summed;
  }

  async digest(): Promise<Digests> {
    return { ...this.#local.digest(), md5: await this.#thread.digest() };
  }

  forget(): void {
    this.#thread.forget();
  }
}
