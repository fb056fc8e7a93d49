import { ServiceError } from "@rowhouse/protocol/errors";
import type { RequestHead } from "../operation.ts";

/** Bytes of a blob, the last one included; no `last` means to the end. */
export interface ByteRange {
  readonly first: number;
  readonly last: number | undefined;
}

/**
 * The range a request asks for, `x-ms-range` before `Range`. Everything but `bytes=a-b` and
 * `bytes=a-` is as if it were not there, as HTTP has it. Ends of any length are ends: clients send
 * the largest number they have for "all the rest", and rounding moves nothing that a blob can reach.
 */
export function rangeOf(head: RequestHead): ByteRange | undefined {
  const text = head.header("x-ms-range") ?? head.header("range");
  const match = text === undefined ? null : /^bytes=(\d+)-(\d*)$/i.exec(text.trim());
  if (match === null) return undefined;
  const first = Number(match[1]);
  const last = match[2] === "" ? undefined : Number(match[2]);
  return last !== undefined && last < first ? undefined : { first, last };
}

/**
 * Where the range begins and ends (not included) in a blob of this size.
 * @throws ServiceError InvalidRange when it begins behind the end.
 */
export function clipRange(range: ByteRange, size: number): { start: number; end: number } {
  if (range.first >= size) {
    throw new ServiceError("InvalidRange", { headers: [["Content-Range", `bytes */${size}`]] });
  }
  const end = range.last === undefined ? size : Math.min(range.last + 1, size);
  return { start: range.first, end };
}
