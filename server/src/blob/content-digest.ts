import { createHash, type Hash } from "node:crypto";
import { availableParallelism } from "node:os";
import { Crc64 } from "@rowhouse/protocol/crc64";
import { beginMd5 } from "./md5-thread.ts";

/** The checksums of content as it flows by: CRC64 always, MD5 where somebody asks for it. */
export class ContentDigest {
  readonly #crc64 = new Crc64();
  readonly #md5: Hash | undefined;
  #bytes = 0;

  constructor({ md5 }: { readonly md5: boolean }) {
    this.#md5 = md5 ? createHash("md5") : undefined;
  }

  update(part: Uint8Array): void {
    this.#bytes += part.length;
    this.#crc64.update(part);
    this.#md5?.update(part);
  }

  /** To be asked once, at the end. */
  digest(): Digests {
    return {
      bytes: this.#bytes,
      crc64: Buffer.from(this.#crc64.digest()).toString("base64"),
      md5: this.#md5?.digest("base64"),
    };
  }
}

/** In base64. */
export interface Digests {
  readonly bytes: number;
  readonly crc64: string;
  readonly md5: string | undefined;
}

export function digestOf(bytes: Uint8Array, wanted: { readonly md5: boolean }): Digests {
  const digest = new ContentDigest(wanted);
  digest.update(bytes);
  return digest.digest();
}

/** Less content than this is summed where it is: handing it over costs as much. */
const BESIDE_BYTES_MIN = 1 << 20;
/** Where there is but one processor, a second thread only adds work. */
const hasRoomBeside = availableParallelism() > 1;

/** Whether MD5 is better left to a thread, for content of this length. */
export function isSummedBeside(bytes: number, { md5 }: { readonly md5: boolean }): boolean {
  return md5 && hasRoomBeside && bytes >= BESIDE_BYTES_MIN;
}

/** Both checksums of content as it flows by, with MD5 in a thread beside. */
export class DigestBeside {
  readonly #here = new ContentDigest({ md5: false });
  readonly #beside = beginMd5();

  /** @returns what to wait for before the next part, if anything */
  update(part: Uint8Array): Promise<unknown> | undefined {
    const ready = this.#beside.update(part);
    this.#here.update(part);
    return ready;
  }

  /** To be asked once, or else `forget`. */
  async digest(): Promise<Digests> {
    return { ...this.#here.digest(), md5: await this.#beside.digest() };
  }

  forget(): void {
    this.#beside.forget();
  }
}
