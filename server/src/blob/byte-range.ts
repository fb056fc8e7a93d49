import { ServiceError } from "@rowhouse/protocol/errors";
import type { RequestHead } from "../wire/operation.ts";

/** Bytes of a blob, including the last one; without `last`, up to the end. */
export interface ByteRange {
  readonly first: number;
  readonly last: number | undefined;
}

/**
 * The range a request asks for; `x-ms-range` takes precedence over `Range`. Anything but `bytes=a-b` and
 * `bytes=a-` is ignored, as HTTP requires. Ends of any length are accepted: clients send the largest number
 * they have for "all the rest", and rounding it changes nothing within a blob's maximum size.
 */
export function rangeOf(head: RequestHead): ByteRange | undefined {
  return parseRange(head.header("x-ms-range") ?? head.header("range"));
}

export function parseRange(text: string | undefined): ByteRange | undefined {
  const match = text === undefined ? null : /^bytes=(\d+)-(\d*)$/i.exec(text.trim());
  if (match === null) return undefined;
  const first = Number(match[1]);
  const last = match[2] === "" ? undefined : Number(match[2]);
  return last !== undefined && last < first ? undefined : { first, last };
}

/**
 * Start and end (exclusive) of the range in a blob of this size.
 * @throws ServiceError InvalidRange when the range begins after the blob's end.
 */
export function clipRange(range: ByteRange, size: number): { start: number; end: number } {
  if (range.first >= size) {
    throw new ServiceError("InvalidRange", { headers: [["Content-Range", `bytes */${size}`]] });
  }
  const end = range.last === undefined ? size : Math.min(range.last + 1, size);
  return { start: range.first, end };
}
