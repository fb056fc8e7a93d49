/** Bytes that arrive in parts. */
export class GrowingBytes {
  #room: Buffer = NOTHING;
  length = 0;

  get bytes(): Buffer {
    return this.#room.subarray(0, this.length);
  }

  /** @param expected the total number of bytes, if known; reserved memory that is never filled costs nothing */
  append(bytes: Uint8Array, expected: number): void {
    const length = this.length + bytes.length;
    if (length > this.#room.length) {
      const room = Buffer.allocUnsafeSlow(Math.max(length, expected));
      room.set(this.bytes);
      this.#room = room;
    }
    this.#room.set(bytes, this.length);
    this.length = length;
  }
}

const NOTHING = Buffer.alloc(0);
