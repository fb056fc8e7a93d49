import { decodeUtf8 } from "./json-string.ts";

/**
 * The text of an Edm.Double, as the service prints it: fifteen significant digits if they are
 * exact, otherwise seventeen; the exponent as `E+24` or `E-05`, from 1E+15 on and below 0.0001;
 * always a point or an exponent, because a client would read `3` as an Edm.Int32.
 */
export function printDouble(value: number): string {
  if (value === 0) return "0.0"; // Also -0.
  const shortest = String(value);
  // If JavaScript needs at most fifteen digits, they are those the service prints; see the test.
  const size = Math.abs(value);
  const isShort = shortest.length <= 16 && !shortest.includes("e") && size >= 0.0001;
  if (isShort && shortest.includes(".")) return shortest;
  if (isShort && shortest.length <= 15) return `${shortest}.0`;
  // Sixteen digits or more: fifteen are not exact. This spares computed values half of what the general case takes.
  const isLong = shortest.length - (value < 0 ? 1 : 0) - (size < 1 ? 2 : 1) > 15;
  if (isLong && size >= 0.1 && size < 1e15) return value.toPrecision(17).replace(/0+$/, "");
  return layOut(value);
}

/** The general case, by way of scientific notation. */
function layOut(value: number): string {
  let scientific = value.toExponential(14);
  if (Number(scientific) !== value) scientific = value.toExponential(16);
  const [, sign = "", mantissa = "", exponentText = ""] = SCIENTIFIC.exec(scientific) ?? [];
  const exponent = Number(exponentText);
  const digits = mantissa.replace(".", "").replace(/0+$/, "");
  if (exponent >= 15 || exponent < -4) {
    const fraction = digits.length > 1 ? `.${digits.slice(1)}` : "";
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${digits[0]}${fraction}E${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
}

const SCIENTIFIC = /^(-?)([0-9.]+)e(.+)$/;

/**
 * Whether the JSON number `bytes[start, end)`, which has a fraction or an exponent, is already as
 * `printDouble` writes it. May return false for one that is. Spares most numbers the conversion to
 * a double and back.
 */
export function isPrintedDouble(bytes: Uint8Array, start: number, end: number): boolean {
  const first = bytes[start] === MINUS ? start + 1 : start;
  if (end - first > 16) return false; // Fifteen digits and the point.
  let point = 0;
  for (let at = first; at < end; at++) {
    const byte = bytes[at]!;
    if (byte === POINT) point = at;
    else if (byte > NINE) return false; // An exponent.
  }
  if (point === 0) return false;
  if (bytes[first] === ZERO) {
    // 0.0 itself has no sign, and a number below 0.0001 has an exponent.
    if (end === point + 2) return first === start || bytes[point + 1] !== ZERO;
    return bytes[end - 1] !== ZERO && countZeros(bytes, point + 1) < 4;
  }
  return bytes[end - 1] !== ZERO || end === point + 2;
}

/** The value of text that `printDouble` wrote. */
export function parsePrintedDouble(bytes: Uint8Array, start: number, end: number): number {
  const first = bytes[start] === MINUS ? start + 1 : start;
  if (end - first > 16) return Number(decodeUtf8(bytes, start, end));
  // Fifteen digits and the power of ten are exact doubles, so one division rounds to the nearest double.
  let digits = 0;
  let fraction = 0;
  for (let at = first; at < end; at++) {
    const byte = bytes[at]!;
    if (byte === POINT) fraction = end - at - 1;
    else if (byte > NINE) return Number(decodeUtf8(bytes, start, end));
    else digits = digits * 10 + byte - ZERO;
  }
  const value = digits / POWERS_OF_TEN[fraction]!;
  return first === start ? value : -value;
}

function countZeros(bytes: Uint8Array, at: number): number {
  let next = at;
  while (bytes[next] === ZERO) next++;
  return next - at;
}

const POWERS_OF_TEN = Array.from({ length: 16 }, (_, exponent) => 10 ** exponent);
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
