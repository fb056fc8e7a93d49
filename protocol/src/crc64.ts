/**
 * The checksum of Blob contents, CRC-64/NVME: reflected polynomial 0x9A6C9329AC4BC9B5, register and
 * result inverted. Reads sixteen bytes a step as four 32-bit words, each byte through a table of its
 * own: twice as fast as eight bytes a step, and as fast as MD5 in OpenSSL (64 MiB in 97 and 89 ms).
 * Words are read as the machine has them, which is least significant byte first wherever JavaScript runs.
 */
export class Crc64 {
  #low = -1;
  #high = -1;

  update(bytes: Uint8Array): this {
    const { length } = bytes;
    // Words must begin at a multiple of their size.
    const head = Math.min(length, -bytes.byteOffset & 3);
    const steps = (length - head) >>> 4;
    this.#byBytes(bytes, 0, head);
    if (steps > 0) {
      this.#byWords(new Int32Array(bytes.buffer, bytes.byteOffset + head, steps * 4));
    }
    this.#byBytes(bytes, head + steps * 16, length);
    return this;
  }

  /** Eight bytes, least significant first, as they travel in headers and frames. */
  digest(): Uint8Array {
    const bytes = new Uint8Array(8);
    const view = new DataView(bytes.buffer);
    view.setInt32(0, ~this.#low, true);
    view.setInt32(4, ~this.#high, true);
    return bytes;
  }

  #byBytes(bytes: Uint8Array, start: number, end: number): void {
    let low = this.#low;
    let high = this.#high;
    for (let at = start; at < end; at++) {
      const index = (low ^ bytes[at]!) & 0xff;
      low = ((low >>> 8) | (high << 24)) ^ TABLES[index]!;
      high = (high >>> 8) ^ TABLES[HIGH + index]!;
    }
    this.#low = low;
    this.#high = high;
  }

  /** Four words a step. Written out: in a loop over the bytes it takes three times as long. */
  #byWords(words: Int32Array): void {
    const t = TABLES;
    let low = this.#low;
    let high = this.#high;
    for (let at = 0; at < words.length; at += 4) {
      const a = low ^ words[at]!;
      const b = high ^ words[at + 1]!;
      const c = words[at + 2]!;
      const d = words[at + 3]!;
      const a0 = a & 0xff;
      const a1 = (a >>> 8) & 0xff;
      const a2 = (a >>> 16) & 0xff;
      const a3 = a >>> 24;
      const b0 = b & 0xff;
      const b1 = (b >>> 8) & 0xff;
      const b2 = (b >>> 16) & 0xff;
      const b3 = b >>> 24;
      const c0 = c & 0xff;
      const c1 = (c >>> 8) & 0xff;
      const c2 = (c >>> 16) & 0xff;
      const c3 = c >>> 24;
      const d0 = d & 0xff;
      const d1 = (d >>> 8) & 0xff;
      const d2 = (d >>> 16) & 0xff;
      const d3 = d >>> 24;
      low =
        t[7680 + a0]! ^
        t[7168 + a1]! ^
        t[6656 + a2]! ^
        t[6144 + a3]! ^
        t[5632 + b0]! ^
        t[5120 + b1]! ^
        t[4608 + b2]! ^
        t[4096 + b3]! ^
        t[3584 + c0]! ^
        t[3072 + c1]! ^
        t[2560 + c2]! ^
        t[2048 + c3]! ^
        t[1536 + d0]! ^
        t[1024 + d1]! ^
        t[512 + d2]! ^
        t[d3]!;
      high =
        t[7936 + a0]! ^
        t[7424 + a1]! ^
        t[6912 + a2]! ^
        t[6400 + a3]! ^
        t[5888 + b0]! ^
        t[5376 + b1]! ^
        t[4864 + b2]! ^
        t[4352 + b3]! ^
        t[3840 + c0]! ^
        t[3328 + c1]! ^
        t[2816 + c2]! ^
        t[2304 + c3]! ^
        t[1792 + d0]! ^
        t[1280 + d1]! ^
        t[768 + d2]! ^
        t[HIGH + d3]!;
    }
    this.#low = low;
    this.#high = high;
  }
}

/** Where the high words of a table begin. */
const HIGH = 256;
const TABLE_WORDS = 512;
const TABLES = makeTables(16);

/** Table n: what a byte does to the sum once n more bytes have followed it. Low words, then high ones. */
function makeTables(count: number): Int32Array {
  const tables = new Int32Array(count * TABLE_WORDS);
  for (let byte = 0; byte < 256; byte++) {
    let low = byte;
    let high = 0;
    for (let bit = 0; bit < 8; bit++) {
      const carry = low & 1;
      low = (low >>> 1) | (high << 31);
      high >>>= 1;
      if (carry === 0) continue;
      low ^= 0xac4bc9b5;
      high ^= 0x9a6c9329;
    }
    tables[byte] = low;
    tables[HIGH + byte] = high;
  }
  for (let at = TABLE_WORDS; at < tables.length; at++) {
    const inTable = at % TABLE_WORDS;
    if (inTable >= HIGH) continue;
    const low = tables[at - TABLE_WORDS]!;
    const high = tables[at - TABLE_WORDS + HIGH]!;
    const index = low & 0xff;
    tables[at] = ((low >>> 8) | (high << 24)) ^ tables[index]!;
    tables[at + HIGH] = (high >>> 8) ^ tables[HIGH + index]!;
  }
  return tables;
}
