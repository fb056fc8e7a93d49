import { dateOfDays, daysOfDate, daysOfMonth } from "./calendar.ts";

/**
 * Edm.DateTime: an instant in UTC, counted in ticks of 100 ns since 0001-01-01.
 *
 * A count of ticks is a `bigint`. Hot paths (a Timestamp per entity written or read) hold an
 * instant as two numbers instead, because a single bigint operation costs as much as printing the
 * digits.
 * Source: "Understanding the Table service data model", "Formatting DateTime values".
 */
export interface Instant {
  /** Whole seconds since 0001-01-01T00:00:00Z. */
  readonly seconds: number;
  /** Ticks within the second, 0 … 9,999,999. */
  readonly ticks: number;
}

export const INSTANT_SECONDS_MAX = 315_537_897_599; // 9999-12-31T23:59:59Z.
/** The earliest second a property may hold, that of 1601-01-01T00:00:00Z. */
export const PROPERTY_SECONDS_MIN = 50_491_123_200;

const TICKS_PER_SECOND = 10_000_000n;
const SECONDS_PER_DAY = 86_400;
const SECONDS_BEFORE_1970 = 719_162 * SECONDS_PER_DAY;

export function ticksOfInstant({ seconds, ticks }: Instant): bigint {
  return BigInt(seconds) * TICKS_PER_SECOND + BigInt(ticks);
}

/** Ticks of a Timestamp, which engines count in microseconds since 1970. */
export function ticksOfMicros(micros: number): bigint {
  return BigInt(micros) * 10n + BigInt(SECONDS_BEFORE_1970) * TICKS_PER_SECOND;
}

/**
 * The order of two instants as `printDateTime` prints them: negative, 0 or positive. Only their
 * fractions differ in length, and a `Z` stands where the shorter one ends.
 */
export function comparePrinted(
  bytes: Uint8Array,
  start: number,
  end: number,
  printed: Uint8Array,
): number {
  for (let i = 0; i < end - start; i++) {
    const a = bytes[start + i]!;
    const b = printed[i]!;
    if (a !== b) return a === LETTER_Z ? -1 : b === LETTER_Z ? 1 : a - b;
  }
  return 0;
}

/** `2020-01-01T00:00:00.5Z`: trailing zeros of the fraction are dropped, and an empty fraction too. */
export function printDateTime(ticks: bigint): string {
  return print(Number(ticks / TICKS_PER_SECOND), Number(ticks % TICKS_PER_SECOND));
}

export function printInstant({ seconds, ticks }: Instant): string {
  return print(seconds, ticks);
}

/** The seconds of a Timestamp's instant. */
export function secondsOfMicros(micros: number): number {
  return Math.floor(micros / 1_000_000) + SECONDS_BEFORE_1970;
}

/** The ticks of a Timestamp's instant. */
export function ticksWithinSecond(micros: number): number {
  // Not `%`, which calls `fmod` for doubles: 18 ns instead of 2.
  return (micros - Math.floor(micros / 1_000_000) * 1_000_000) * 10;
}

function print(seconds: number, ticks: number): string {
  const end = writeInstant(scratch, 0, seconds, ticks);
  return decoder.decode(scratch.subarray(0, end));
}

/**
 * Ticks of an ISO 8601 text: `2020-01-01`, `…T00:00`, `…T00:00:00`, with a fraction of any length
 * (digits beyond the seventh are cut off), then `Z`, an offset `+02:00`, or nothing, which means UTC.
 * Undefined when the text is anything else or falls outside the years 1 to 9999.
 */
export function parseDateTime(text: string): bigint | undefined {
  // A text that fills the spare byte of `scratch` is too long; `parseInstant` refuses it.
  const { read, written } = encoder.encodeInto(text, scratch);
  if (read !== text.length) return undefined;
  const instant = parseInstant(scratch, 0, written);
  return instant === undefined ? undefined : ticksOfInstant(instant);
}

/** A longer text could only have more fraction digits, which are cut off anyway. */
const TEXT_LENGTH_MAX = 64;

/** `parseDateTime` of the text `bytes[start, end)`. */
export function parseInstant(bytes: Uint8Array, start: number, end: number): Instant | undefined {
  if (end - start < 10 || end - start > TEXT_LENGTH_MAX) return undefined;
  const year = twoDigits(bytes, start, end) * 100 + twoDigits(bytes, start + 2, end);
  const month = twoDigits(bytes, start + 5, end);
  const day = twoDigits(bytes, start + 8, end);
  if (bytes[start + 4] !== DASH || bytes[start + 7] !== DASH) return undefined;
  if (!(year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= daysOfMonth(year, month))) {
    return undefined; // Also for NaN.
  }
  let seconds = daysOfDate(year, month, day) * SECONDS_PER_DAY;
  let ticks = 0;
  let at = start + 10;
  if (at < end) {
    const minuteOfDay = parseHourAndMinute(bytes, at + 1, end);
    if (bytes[at] !== LETTER_T || Number.isNaN(minuteOfDay)) return undefined;
    seconds += minuteOfDay * 60;
    at += 6;
    if (at < end && bytes[at] === COLON) {
      const second = twoDigits(bytes, at + 1, end);
      if (!(second <= 59)) return undefined;
      seconds += second;
      at += 3;
      if (at < end && bytes[at] === POINT) {
        const first = ++at;
        for (let scale = 1_000_000; at < end && isDigit(bytes[at]!); at++) {
          ticks += (bytes[at]! - ZERO) * scale;
          scale = (scale / 10) | 0;
        }
        if (at === first) return undefined;
      }
    }
    if (at < end) seconds -= parseOffset(bytes, at, end);
  }
  // Also for NaN, which is an invalid offset.
  return seconds >= 0 && seconds <= INSTANT_SECONDS_MAX ? { seconds, ticks } : undefined;
}

/** Minutes of `hh:mm`, or NaN. */
function parseHourAndMinute(bytes: Uint8Array, at: number, end: number): number {
  const hour = twoDigits(bytes, at, end);
  const minute = twoDigits(bytes, at + 3, end);
  return hour <= 23 && minute <= 59 && bytes[at + 2] === COLON ? hour * 60 + minute : Number.NaN;
}

/** Seconds east of UTC, 0 for `Z`; NaN if the rest of the text is not a time zone. */
function parseOffset(bytes: Uint8Array, at: number, end: number): number {
  if (bytes[at] === LETTER_Z && at + 1 === end) return 0;
  const minutes = at + 6 === end ? parseHourAndMinute(bytes, at + 1, end) : Number.NaN;
  if (!(minutes <= 14 * 60)) return Number.NaN;
  if (bytes[at] === DASH) return -minutes * 60;
  return bytes[at] === PLUS ? minutes * 60 : Number.NaN;
}

/** Writes what `printDateTime` prints, and returns where it ends. */
export function writeInstant(out: Uint8Array, at: number, seconds: number, ticks: number): number {
  const second = writeDate(out, at, seconds);
  const minute = (second / 60) | 0;
  writeTwoDigits(out, at + 11, (minute / 60) | 0);
  out[at + 13] = COLON;
  writeTwoDigits(out, at + 14, minute % 60);
  out[at + 16] = COLON;
  writeTwoDigits(out, at + 17, second % 60);
  return writeFraction(out, at + 19, ticks);
}

/** Writes an instant as in an ETag, where `:` becomes `%3A`. */
export function writeEtagInstant(
  out: Uint8Array,
  at: number,
  seconds: number,
  ticks: number,
): number {
  const second = writeDate(out, at, seconds);
  const minute = (second / 60) | 0;
  writeTwoDigits(out, at + 11, (minute / 60) | 0);
  writeEscapedColon(out, at + 13);
  writeTwoDigits(out, at + 16, minute % 60);
  writeEscapedColon(out, at + 18);
  writeTwoDigits(out, at + 21, second % 60);
  return writeFraction(out, at + 23, ticks);
}

/** Writes `2020-01-01T` and returns the second of the day. */
function writeDate(out: Uint8Array, at: number, seconds: number): number {
  const days = (seconds / SECONDS_PER_DAY) | 0;
  const date = dateOfDays(days);
  const year = (date / 10_000) | 0;
  writeTwoDigits(out, at, (year / 100) | 0);
  writeTwoDigits(out, at + 2, year % 100);
  out[at + 4] = DASH;
  writeTwoDigits(out, at + 5, ((date / 100) | 0) % 100);
  out[at + 7] = DASH;
  writeTwoDigits(out, at + 8, date % 100);
  out[at + 10] = LETTER_T;
  return (seconds - days * SECONDS_PER_DAY) | 0;
}

/** Writes `.5Z` or, for a whole second, `Z`. */
function writeFraction(out: Uint8Array, at: number, ticks: number): number {
  let end = at;
  if (ticks !== 0) {
    out[at] = POINT;
    let rest = ticks | 0;
    for (let digit = 7; digit > 0; digit--) {
      const tenth = (rest / 10) | 0;
      out[at + digit] = ZERO + rest - tenth * 10;
      rest = tenth;
    }
    end = at + 8;
    while (out[end - 1] === ZERO) end--;
  }
  out[end] = LETTER_Z;
  return end + 1;
}

export function writeTwoDigits(out: Uint8Array, at: number, value: number): void {
  const tens = (value * 205) >> 11; // value / 10 for 0 … 99.
  out[at] = ZERO + tens;
  out[at + 1] = ZERO + value - tens * 10;
}

function writeEscapedColon(out: Uint8Array, at: number): void {
  out[at] = 0x25; // %
  out[at + 1] = 0x33; // 3
  out[at + 2] = 0x41; // A
}

/** NaN if there are not two digits: every comparison with NaN is false. */
function twoDigits(bytes: Uint8Array, at: number, end: number): number {
  if (at + 2 > end) return Number.NaN;
  const tens = bytes[at]! - ZERO;
  const ones = bytes[at + 1]! - ZERO;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : Number.NaN;
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= 0x39;
}

const PLUS = 0x2b;
const DASH = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
const LETTER_T = 0x54;
const LETTER_Z = 0x5a;

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const scratch = new Uint8Array(TEXT_LENGTH_MAX + 1);
