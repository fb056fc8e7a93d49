import { Crc64Words, WORD_TABLES } from "./crc64-wasm.ts";

/**
 * The checksum of Blob contents, CRC-64/NVME: reflected polynomial 0x9A6C9329AC4BC9B5, register and
 * result inverted. Long content goes through WebAssembly in whole words. Short content, the bytes
 * left over, and everything where there is no WebAssembly are summed byte by byte.
 */
export class Crc64 {
  #low = -1;
  #high = -1;

  update(bytes: Uint8Array): this {
    let at = 0;
    if (bytes.length >= WORDS_BYTES_MIN && Crc64Words.isPossible) {
      at = bytes.length & ~7;
      this.#addWords(at === bytes.length ? bytes : bytes.subarray(0, at));
    }
    this.#addBytes(bytes, at);
    return this;
  }

  /** Appends the content that `next` has summed, which is `bytes` bytes long, to the content summed here. */
  append(next: Crc64, bytes: number): this {
    const moved = multiply({ low: ~this.#low, high: ~this.#high }, powerOf(bytes));
    this.#low = moved.low ^ next.#low;
    this.#high = moved.high ^ next.#high;
    return this;
  }

  /** Eight bytes, least significant first, as sent in headers and frames. */
  digest(): Uint8Array {
    // Relies on little-endian typed arrays, as on every platform where JavaScript runs.
    return new Uint8Array(Int32Array.of(~this.#low, ~this.#high).buffer);
  }

  #addWords(bytes: Uint8Array): void {
    words ??= new Crc64Words(TABLES);
    const { sum } = words;
    sum[0] = this.#low;
    sum[1] = this.#high;
    words.add(bytes);
    this.#low = sum[0]!;
    this.#high = sum[1]!;
  }

  #addBytes(bytes: Uint8Array, start: number): void {
    let low = this.#low;
    let high = this.#high;
    for (let at = start; at < bytes.length; at++) {
      const index = ((low ^ bytes[at]!) & 0xff) * 2;
      low = ((low >>> 8) | (high << 24)) ^ TABLES[index]!;
      high = (high >>> 8) ^ TABLES[index + 1]!;
    }
    this.#low = low;
    this.#high = high;
  }
}

/** A polynomial of degree 63 at most, with its lowest power in the highest bit. */
interface Polynomial {
  readonly low: number;
  readonly high: number;
}

/** x^64 modulo the generator polynomial. */
const POLYNOMIAL: Polynomial = { low: 0xac4bc9b5, high: 0x9a6c9329 };
const ONE: Polynomial = { low: 0, high: 0x80000000 };
const BYTE: Polynomial = { low: 0, high: 0x00800000 }; // x^8.

function multiply(a: Polynomial, b: Polynomial): Polynomial {
  let low = 0;
  let high = 0;
  let { low: bLow, high: bHigh } = b;
  for (let power = 0; power < 64; power++) {
    const word = power < 32 ? a.high : a.low;
    if (word << (power % 32) < 0) {
      low ^= bLow;
      high ^= bHigh;
    }
    const carry = bLow & 1;
    bLow = (bLow >>> 1) | (bHigh << 31);
    bHigh >>>= 1;
    if (carry === 0) continue;
    bLow ^= POLYNOMIAL.low;
    bHigh ^= POLYNOMIAL.high;
  }
  return { low, high };
}

let lastBytes = 0;
let lastPower = ONE;

/**
 * The factor by which appending `bytes` bytes multiplies a sum. Segments of a message mostly share
 * one length.
 */
function powerOf(bytes: number): Polynomial {
  if (bytes === lastBytes) return lastPower;
  let power = ONE;
  let square = BYTE;
  for (let left = bytes; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) power = multiply(power, square);
    square = multiply(square, square);
  }
  lastBytes = bytes;
  lastPower = power;
  return power;
}

/** Shorter content is summed faster than it is copied to the module. */
const WORDS_BYTES_MIN = 128;
let words: Crc64Words | undefined;

const TABLE_WORDS = 512;
const TABLES = makeTables(WORD_TABLES);

/** Table n: the effect of a byte on the sum when n more bytes follow it. Low and high words alternate. */
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
      low ^= POLYNOMIAL.low;
      high ^= POLYNOMIAL.high;
    }
    tables[byte * 2] = low;
    tables[byte * 2 + 1] = high;
  }
  for (let at = TABLE_WORDS; at < tables.length; at += 2) {
    const low = tables[at - TABLE_WORDS]!;
    const high = tables[at - TABLE_WORDS + 1]!;
    const index = (low & 0xff) * 2;
    tables[at] = ((low >>> 8) | (high << 24)) ^ tables[index]!;
    tables[at + 1] = (high >>> 8) ^ tables[index + 1]!;
  }
  return tables;
}
