/** Bytes that come in parts. */
export class GrowingBytes {
  #room: Buffer = NOTHING;
  length = 0;

  get bytes(): Buffer {
    return this.#room.subarray(0, this.length);
  }

  /** @param expected how many there will be in all, as far as known; room that no byte reaches costs nothing */
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
