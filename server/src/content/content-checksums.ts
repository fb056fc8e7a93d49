import { crc32 } from "node:zlib";

/**
 * The checksums at the end of a content's file: a CRC-32 of every 64 KiB, then a footer. So a range is checked without
 * reading more than the pieces it touches. Files of storage format 1 end with their content.
 *
 *     at  bytes   content
 *     0   n       the content
 *     n   4 × p   CRC-32 of each piece of 64 KiB, the last one shorter; little-endian
 *         8       n, a double, little-endian
 *         8       "RHSUMS01"
 */
export const PIECE_BYTES = 64 << 10;
export const FOOTER_BYTES = 16;
const MAGIC = Buffer.from("RHSUMS01");

/** Sums up content as it is written. */
export class PieceSums {
  readonly #sums: number[] = [];
  #sum = 0;
  #bytes = 0;

  add(part: Uint8Array): void {
    for (let at = 0; at < part.length; ) {
      const room = PIECE_BYTES - (this.#bytes % PIECE_BYTES);
      const piece = part.subarray(at, at + room);
      this.#sum = crc32(piece, this.#sum);
      this.#bytes += piece.length;
      at += piece.length;
      if (this.#bytes % PIECE_BYTES === 0) this.#end();
    }
  }

  /** What follows the content in its file. */
  trailer(): Buffer {
    if (this.#bytes % PIECE_BYTES !== 0) this.#end();
    const trailer = Buffer.alloc(this.#sums.length * 4 + FOOTER_BYTES);
    for (const [index, sum] of this.#sums.entries()) trailer.writeUInt32LE(sum, index * 4);
    const footerAt = this.#sums.length * 4;
    trailer.writeDoubleLE(this.#bytes, footerAt);
    MAGIC.copy(trailer, footerAt + 8);
    return trailer;
  }

  #end(): void {
    this.#sums.push(this.#sum);
    this.#sum = 0;
  }
}

export function pieceCount(bytes: number): number {
  return Math.ceil(bytes / PIECE_BYTES);
}

/** The length of the content in a file of this size; undefined if no checksums follow it. */
export function lengthInFooter(footer: Buffer, fileBytes: number): number | undefined {
  if (!footer.subarray(8).equals(MAGIC)) return undefined;
  const bytes = footer.readDoubleLE(0);
  return bytes + pieceCount(bytes) * 4 + FOOTER_BYTES === fileBytes ? bytes : undefined;
}

/** Whether whole pieces are what was written. @param sums of these pieces, as in the file */
export function arePiecesIntact(pieces: Uint8Array, sums: Buffer): boolean {
  for (let at = 0, index = 0; at < pieces.length; at += PIECE_BYTES, index++) {
    if (crc32(pieces.subarray(at, at + PIECE_BYTES)) !== sums.readUInt32LE(index * 4)) return false;
  }
  return true;
}
