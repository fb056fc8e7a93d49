/**
 * Times as key text. Ticks are units of 100 ns since year 1, in 19 digits; inverted ticks count down from the
 * last tick of the year 9999, so that the newest sorts first. Ticks exceed 2^53, hence BigInt.
 */

import { digits, type FixedCodec, padded } from "./number.ts";

const TICKS_AT_EPOCH = 621_355_968_000_000_000n;
const TICKS_MAX = 3_155_378_975_999_999_999n;
const TICKS_PER_MS = 10_000n;
const TICKS_DIGITS = 19;

export type TimeUnit = "year" | "month" | "day" | "hour";

export const UNIT_LENGTH: Record<TimeUnit, number> = { year: 4, month: 6, day: 8, hour: 10 };

export const date: FixedCodec<Date> = {
  encode: (value) => padded(ticksOf(value), TICKS_DIGITS),
  decode: (text) => dateAt(BigInt(digits(text))),
};

export const dateDescending: FixedCodec<Date> = {
  descending: true,
  encode: (value) => padded(TICKS_MAX - ticksOf(value), TICKS_DIGITS),
  decode: (text) => dateAt(TICKS_MAX - BigInt(digits(text))),
};

/** `2014`, `201407`, `20140731` or `2014073118`, in UTC. */
export function encodeIsoDate(value: Date, unit: TimeUnit): string {
  const text = validDate(value).toISOString();
  if (text.length !== 24) throw new RangeError(`${text} is outside the years 0000 to 9999`);
  return text.replace(/\D/g, "").slice(0, UNIT_LENGTH[unit]);
}

/** The first instant of the period. */
export function decodeIsoDate(text: string): Date {
  const [, year, month = "01", day = "01", hour = "00"] =
    /^(.{4})(..)?(..)?(..)?$/.exec(text) ?? [];
  return new Date(`${year}-${month}-${day}T${hour}:00:00Z`);
}

function validDate(value: Date): Date {
  if (value instanceof Date && !Number.isNaN(value.getTime())) return value;
  throw new RangeError("a valid Date is expected");
}

function ticksOf(value: Date): bigint {
  const ms = validDate(value).getTime();
  const ticks = BigInt(ms) * TICKS_PER_MS + TICKS_AT_EPOCH;
  if (ticks < 0n || ticks > TICKS_MAX) {
    throw new RangeError(`${value.toISOString()} is outside the years 1 to 9999`);
  }
  return ticks;
}

function dateAt(ticks: bigint): Date {
  return new Date(Number((ticks - TICKS_AT_EPOCH) / TICKS_PER_MS));
}
