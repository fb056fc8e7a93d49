/** A buffer starts with so many bytes, or as many as are expected, and becomes four times larger when it is full. */
const FIRST_BYTES = 16 * 1024;
const GROWTH = 4;

/** The next size of a buffer for bytes that arrive, whose total number is `expected`. */
export function grownBytes(filled: number, expected: number): number {
  return Math.min(Math.max(GROWTH * filled, FIRST_BYTES), expected);
}

/** Bytes that arrive in parts. */
export class GrowingBytes {
  #room: Buffer = NOTHING;
  length = 0;

  get bytes(): Buffer {
    return this.#room.subarray(0, this.length);
  }

  /** Bytes that the memory has room for. */
  get room(): number {
    return this.#room.length;
  }

  /** @param expected the total number of bytes, or at least those that are known of */
  append(bytes: Uint8Array, expected: number): void {
    const length = this.length + bytes.length;
    if (length > this.#room.length) {
      const room = Buffer.allocUnsafeSlow(Math.max(length, grownBytes(length, expected)));
      room.set(this.bytes);
      this.#room = room;
    }
    this.#room.set(bytes, this.length);
    this.length = length;
  }
}

const NOTHING = Buffer.alloc(0);
