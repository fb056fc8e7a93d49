import { ServiceError } from "@rowhouse/protocol/errors";
import type { RequestHead } from "./operation.ts";

/** Client input may be repeated in a header value only if it matches. */
export const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;

/** All values sent under a lower-case name. */
export function headerValues(
  { rawHeaders }: Pick<RequestHead, "rawHeaders">,
  name: string,
): string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const header = rawHeaders[i]!;
    if (header.length === name.length && header.toLowerCase() === name)
      values.push(rawHeaders[i + 1]!);
  }
  return values;
}

/** A list header, which a client may send in several pieces; `header` returns only the last. */
export function listHeader(
  head: Pick<RequestHead, "header" | "rawHeaders">,
  name: string,
): string | undefined {
  const value = head.header(name);
  if (value === undefined) return undefined;
  const values = headerValues(head, name);
  return values.length > 1 ? values.join(", ") : value;
}

// Reads headers as queues and blobs do, with their errors.

/** @throws ServiceError MissingRequiredHeader */
export function requiredHeader(head: Pick<RequestHead, "header">, name: string): string {
  const value = head.header(name);
  if (value === undefined || value === "") throw missingHeader(name);
  return value;
}

/**
 * A non-negative integer; undefined when the header is absent.
 * @throws ServiceError InvalidHeaderValue
 */
export function integerHeader(head: Pick<RequestHead, "header">, name: string): number | undefined {
  const text = head.header(name);
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw invalidHeader(name, text);
  return Number(text);
}

export function missingHeader(name: string): ServiceError {
  return new ServiceError("MissingRequiredHeader", { details: [["HeaderName", name]] });
}

export function invalidHeader(name: string, value: string): ServiceError {
  return new ServiceError("InvalidHeaderValue", {
    details: [
      ["HeaderName", name],
      ["HeaderValue", value],
    ],
  });
}
