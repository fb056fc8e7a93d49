import { createHash, type Hash } from "node:crypto";
import { Crc64 } from "@rowhouse/protocol/crc64";

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
