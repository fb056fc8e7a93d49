/**
 * A blob or container was last changed at some microsecond since 1970, which never repeats for it. Its ETag
 * encodes that instant exactly, its Last-Modified to the second.
 */

/** 100-nanosecond ticks from the year 1 to 1970. */
const EPOCH_TICKS = 621_355_968_000_000_000n;

/** `0x` and 15 hexadecimal digits, without the quotation marks used in headers. */
export function etagOf(modified: number): string {
  return `0x${(BigInt(modified) * 10n + EPOCH_TICKS).toString(16).toUpperCase()}`;
}

export function lastModifiedOf(modified: number): string {
  return printTime(modified / 1000);
}

/** RFC 1123, from milliseconds since 1970. */
export function printTime(milliseconds: number): string {
  return new Date(milliseconds).toUTCString();
}

/** The two headers, alternating names and values. */
export function validatorHeaders(modified: number): string[] {
  return ["ETag", `"${etagOf(modified)}"`, "Last-Modified", lastModifiedOf(modified)];
}

/** The instant of a change: always later than the previous one, even if the clock was set back. */
export function nextModified(version: number, before: number | undefined): number {
  return before === undefined ? version : Math.max(version, before + 1);
}
