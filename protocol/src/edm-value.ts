import { PROPERTY_SECONDS_MIN, parseInstant, writeInstant } from "./date-time.ts";

/**
 * The canonical text of each property value, which is the text stored, compared and sent.
 *
 * Each function reads the value in `bytes[start, end)` (without quotes), writes its text to `out`
 * from `at` on and returns where the text ends, or `NO_VALUE` if the bytes are not a value of the
 * type. The text is at most `VALUE_SLACK` bytes longer than the input.
 * Source: "Understanding the Table service data model".
 */
export type WriteValue = (
  out: Uint8Array,
  at: number,
  bytes: Uint8Array,
  start: number,
  end: number,
) => number;

export const NO_VALUE = -1;
/** A well-formed date-time before 1601. */
export const TOO_EARLY = -2;
export const VALUE_SLACK = 32;

/** Decimal digits without leading zeros; 0 has no sign. */
export const writeInt32: WriteValue = (out, at, bytes, start, end) => {
  const written = writeInteger(out, at, bytes, start, end);
  if (written === NO_VALUE || written - at <= 9) return written;
  return isInteger(out, at, written, INT32_MAX, INT32_MIN) ? written : NO_VALUE;
};

export const writeInt64: WriteValue = (out, at, bytes, start, end) => {
  const written = writeInteger(out, at, bytes, start, end);
  if (written === NO_VALUE || written - at <= 18) return written;
  return isInteger(out, at, written, INT64_MAX, INT64_MIN) ? written : NO_VALUE;
};

/** Without a fraction when whole, without trailing zeros otherwise; always UTC. */
export const writeDateTime: WriteValue = (out, at, bytes, start, end) => {
  const instant = parseInstant(bytes, start, end);
  if (instant === undefined) return NO_VALUE;
  if (instant.seconds < PROPERTY_SECONDS_MIN) return TOO_EARLY;
  return writeInstant(out, at, instant.seconds, instant.ticks);
};

/** Lower-case hexadecimal digits, 8-4-4-4-12. */
export const writeGuid: WriteValue = (out, at, bytes, start, end) => {
  if (end - start !== 36) return NO_VALUE;
  for (let i = 0; i < 36; i++) {
    const byte = bytes[start + i]!;
    const digit = HEX_DIGITS[byte]!;
    if (i === 8 || i === 13 || i === 18 || i === 23 ? byte !== DASH : digit === 0) return NO_VALUE;
    out[at + i] = digit === 0 ? DASH : digit;
  }
  return at + 36;
};

/** Base64 with padding. Unused bits of the last digit are cleared, so that equal bytes have equal text. */
export const writeBinary: WriteValue = (out, at, bytes, start, end) => {
  const length = end - start;
  if (length % 4 !== 0) return NO_VALUE;
  if (length === 0) return at;
  const padding = paddingOf(bytes, end);
  let all = 0;
  for (let i = start; i < end - padding; i++) all |= BASE64_VALUES[bytes[i]!]!;
  if (all > 0x3f) return NO_VALUE;
  out.set(bytes.subarray(start, end), at);
  if (padding > 0) {
    const last = at + length - padding - 1;
    const kept = BASE64_VALUES[out[last]!]! & (padding === 1 ? 0x3c : 0x30);
    out[last] = BASE64_DIGITS[kept]!;
  }
  return at + length;
};

/** Bytes of a binary value, from the length of its text. */
export function binaryBytes(bytes: Uint8Array, start: number, end: number): number {
  if (end === start) return 0;
  return ((end - start) / 4) * 3 - paddingOf(bytes, end);
}

/** How many of the last two base64 characters are padding. */
function paddingOf(bytes: Uint8Array, end: number): number {
  return bytes[end - 1] !== EQUALS ? 0 : bytes[end - 2] !== EQUALS ? 1 : 2;
}

/** Decodes text that `writeBinary` wrote. */
export function decodeBinary(bytes: Uint8Array, start: number, end: number): Uint8Array {
  const value = new Uint8Array(binaryBytes(bytes, start, end));
  let next = 0;
  for (let at = start; at < end; at += 4) {
    const bits =
      (BASE64_VALUES[bytes[at]!]! << 18) |
      (BASE64_VALUES[bytes[at + 1]!]! << 12) |
      ((BASE64_VALUES[bytes[at + 2]!]! & 0x3f) << 6) |
      (BASE64_VALUES[bytes[at + 3]!]! & 0x3f);
    // Writes past the end, where there is padding, are ignored.
    value[next++] = bits >> 16;
    value[next++] = bits >> 8;
    value[next++] = bits;
  }
  return value;
}

function writeInteger(
  out: Uint8Array,
  at: number,
  bytes: Uint8Array,
  start: number,
  end: number,
): number {
  const negative = bytes[start] === DASH;
  let next = negative ? start + 1 : start;
  if (next === end) return NO_VALUE;
  while (bytes[next] === ZERO && next + 1 < end) next++;
  const isZero = bytes[next] === ZERO;
  // No valid integer has more than 19 digits.
  if (end - next > 19) return NO_VALUE;
  let written = at;
  if (negative && !isZero) out[written++] = DASH;
  for (; next < end; next++) {
    const byte = bytes[next]!;
    if (byte < ZERO || byte > NINE) return NO_VALUE;
    out[written++] = byte;
  }
  return written;
}

/** Whether the number in `out[at, end)` is in range: its digits at most `max`, or `min` if negative. */
function isInteger(
  out: Uint8Array,
  at: number,
  end: number,
  max: Uint8Array,
  min: Uint8Array,
): boolean {
  const negative = out[at] === DASH;
  const first = negative ? at + 1 : at;
  const bound = negative ? min : max;
  if (end - first !== bound.length) return end - first < bound.length;
  for (let i = 0; i < bound.length; i++) {
    const difference = out[first + i]! - bound[i]!;
    if (difference !== 0) return difference < 0;
  }
  return true;
}

const encoder = new TextEncoder();
const INT32_MAX = encoder.encode("2147483647");
const INT32_MIN = encoder.encode("2147483648");
const INT64_MAX = encoder.encode("9223372036854775807");
const INT64_MIN = encoder.encode("9223372036854775808");

const DASH = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const EQUALS = 0x3d;

/** The hexadecimal digit in lower case; 0 for every other byte. */
const HEX_DIGITS = new Uint8Array(256);
for (const digit of encoder.encode("0123456789abcdef")) HEX_DIGITS[digit] = digit;
for (const digit of encoder.encode("ABCDEF")) HEX_DIGITS[digit] = digit | 0x20;

const BASE64_DIGITS = encoder.encode(
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
);
/** The six bits of a digit; 0x40 for every other byte. */
const BASE64_VALUES = new Uint8Array(256).fill(0x40);
BASE64_DIGITS.forEach((digit, value) => {
  BASE64_VALUES[digit] = value;
});
