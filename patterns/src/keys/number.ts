/** Numbers as key text: fixed width, so that comparing characters compares the numbers. */

const INT64_OFFSET = 1n << 63n;
const ALL_BITS = (1n << 64n) - 1n;

export function encodeUint(value: number, width: number): string {
  assertInteger(value, 0, 10 ** width - 1);
  return padded(value, width);
}

export function encodeUintDescending(value: number, width: number): string {
  assertInteger(value, 0, 10 ** width - 1);
  return complement(padded(value, width));
}

export function decodeUintDescending(text: string, width: number): number {
  return Number(complement(padded(text, width)));
}

/** Negative numbers count up from the smallest one; `-` sorts before the digits. */
export function encodeInt(value: number, width: number): string {
  const max = 10 ** width - 1;
  assertInteger(value, -max, max);
  return value < 0 ? "-" + complement(padded(-value, width)) : padded(value, width);
}

export function decodeInt(text: string): number {
  return text.startsWith("-") ? -Number(complement(text.slice(1))) : Number(text);
}

export function encodeInt64(value: bigint): string {
  if (value < -INT64_OFFSET || value >= INT64_OFFSET) {
    throw new RangeError(`${value} does not fit in 64 bits.`);
  }
  return hex(value + INT64_OFFSET, 16);
}

export function decodeInt64(text: string): bigint {
  return BigInt("0x" + text) - INT64_OFFSET;
}

/** IEEE order made bytewise: negative numbers have all bits inverted, the others only the sign. */
export function encodeDouble(value: number): string {
  if (Number.isNaN(value)) throw new RangeError("NaN has no place in an order.");
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value === 0 ? 0 : value);
  const bits = view.getBigUint64(0);
  return hex(bits >= INT64_OFFSET ? ~bits & ALL_BITS : bits | INT64_OFFSET, 16);
}

export function decodeDouble(text: string): number {
  const bits = BigInt("0x" + text);
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, bits >= INT64_OFFSET ? bits & ~INT64_OFFSET & ALL_BITS : ~bits & ALL_BITS);
  return view.getFloat64(0);
}

/** What is missing to nines, digit by digit: beyond 2^53 a subtraction would not be exact. */
function complement(digits: string): string {
  return digits.replace(/\d/g, (digit) => String(9 - Number(digit)));
}

function assertInteger(value: number, min: number, max: number): void {
  if (!Number.isSafeInteger(value) || value < min || value > max) {
    throw new RangeError(`${value} is not a whole number from ${min} to ${max}.`);
  }
}

/** Hexadecimal digits of a fixed width. */
export function hex(value: number | bigint, width: number): string {
  return padded(value.toString(16), width);
}

/** Digits of a fixed width. */
export function padded(value: number | bigint | string, width: number): string {
  return String(value).padStart(width, "0");
}
