/** Numbers as key text: fixed width, so that comparing characters compares the numbers. */

const INT64_OFFSET = 1n << 63n;
const ALL_BITS = (1n << 64n) - 1n;

/** How values of one type are written in a key, all with the same width. */
export interface FixedCodec<Value> {
  readonly descending?: boolean;
  /** Its texts are decimal digits. */
  readonly isDecimal?: true;
  encode(value: Value): string;
  decode(text: string): Value;
}

export function uint(width: number): FixedCodec<number> {
  const max = 10 ** width - 1;
  return {
    isDecimal: true,
    encode: (value) => padded(whole(value, 0, max), width),
    decode: (text) => whole(Number(digits(text)), 0, max),
  };
}

export function uintDescending(width: number): FixedCodec<number> {
  const { encode, decode } = uint(width);
  return {
    descending: true,
    isDecimal: true,
    encode: (value) => complement(encode(value)),
    decode: (text) => decode(complement(padded(digits(text), width))),
  };
}

/** Negative numbers count up from the smallest one; `-` sorts before the digits. */
export function int(width: number): FixedCodec<number> {
  const max = 10 ** width - 1;
  return {
    encode: (value) =>
      whole(value, -max, max) < 0 ? "-" + complement(padded(-value, width)) : padded(value, width),
    decode: (text) =>
      whole(
        text.startsWith("-") ? -complement(digits(text.slice(1))) : Number(digits(text)),
        -max,
        max,
      ),
  };
}

export const int64: FixedCodec<bigint> = {
  encode(value) {
    if (value < -INT64_OFFSET || value >= INT64_OFFSET) {
      throw new RangeError(`${value} does not fit in 64 bits`);
    }
    return hex(value + INT64_OFFSET, 16);
  },
  decode: (text) => bitsOf(text) - INT64_OFFSET,
};

/** The same text for a number of 32 bits. */
export const int32: FixedCodec<number> = {
  encode: (value) => int64.encode(BigInt(whole(value, -(2 ** 31), 2 ** 31 - 1))),
  decode: (text) => Number(int64.decode(text)),
};

/** IEEE 754 bits, made sortable as text: negative numbers have all bits inverted, the others only the sign bit. */
export const double: FixedCodec<number> = {
  encode(value) {
    if (Number.isNaN(value)) throw new RangeError("NaN has no order");
    // -0 is stored as 0.
    const bits = new BigUint64Array(Float64Array.of(value || 0).buffer)[0]!;
    return hex(bits ^ (bits >= INT64_OFFSET ? ALL_BITS : INT64_OFFSET), 16);
  },
  decode(text) {
    const bits = bitsOf(text);
    const inverted = bits ^ (bits >= INT64_OFFSET ? INT64_OFFSET : ALL_BITS);
    return new Float64Array(BigUint64Array.of(inverted).buffer)[0]!;
  },
};

/** Returns the text unchanged. `Number` and `BigInt` would also accept an empty text and `0x10`. */
export function digits(text: string): string {
  if (/^\d+$/.test(text)) return text;
  throw new RangeError(`"${text}" is not all digits`);
}

function bitsOf(text: string): bigint {
  if (/^[\da-f]{1,16}$/.test(text)) return BigInt("0x" + text);
  throw new RangeError(`"${text}" is not 16 hexadecimal digits`);
}

/** The nines' complement, digit by digit: above 2^53 a subtraction would not be exact. */
function complement(digits: string): string {
  return digits.replace(/\d/g, (digit) => String(9 - Number(digit)));
}

function whole(value: number, min: number, max: number): number {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw new RangeError(`${value} is not a whole number from ${min} to ${max}`);
}

/** Hexadecimal digits of a fixed width. */
export function hex(value: number | bigint, width: number): string {
  return padded(value.toString(16), width);
}

/** Digits of a fixed width. */
export function padded(value: number | bigint | string, width: number): string {
  return String(value).padStart(width, "0");
}
