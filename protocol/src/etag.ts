import { parseDateTime, ticksOfMicros } from "./date-time.ts";
import { ServiceError } from "./errors.ts";

/** What a write requires of the existing entity: any will do, or it must have this Timestamp. */
export type IfMatch = "*" | EtagCondition;

export interface EtagCondition {
  /** Whether the tag names the entity with this Timestamp, in microseconds since 1970. */
  matches(timestampMicros: number): boolean;
}

/**
 * Parses an `If-Match` header. Tags are compared as instants, so escaped colons and trailing zeros
 * make no difference. A weak tag that is not an instant is valid and matches nothing.
 * Source: "Specifying conditional headers for Table service operations".
 * @throws ServiceError InvalidInput for anything but `*` or one weak tag.
 */
export function parseIfMatch(header: string): IfMatch {
  const value = header.trim();
  if (value === "*") return "*";
  const tag = WEAK_TAG.exec(value)?.[1];
  if (tag === undefined) throw new ServiceError("InvalidInput", { message: malformedEtag(header) });
  const ticks = parseTimestamp(tag);
  return { matches: (timestampMicros) => ticksOfMicros(timestampMicros) === ticks };
}

/** Some clients write headers in lower case, their values too (not confirmed by a recording). */
const WEAK_TAG = /^[Ww]\/"([^"]*)"$/;
const TIMESTAMP_TAG = /^datetime'([^']*)'$/;

function parseTimestamp(tag: string): bigint | undefined {
  // Client libraries differ in whether they escape quotes and colons.
  const unescaped = tag.replace(/%3A/gi, ":").replaceAll("%27", "'");
  const text = TIMESTAMP_TAG.exec(unescaped)?.[1];
  return text === undefined ? undefined : parseDateTime(text);
}

function malformedEtag(found: string): string {
  return `The etag value '${found}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid.`;
}
