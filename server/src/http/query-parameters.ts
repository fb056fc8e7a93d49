import { ServiceError } from "@rowhouse/protocol/errors";
import type { Query } from "./query.ts";

/** Reading parameters of the query string as queues and blobs do, and refusing them in their words. */

export interface IntegerBounds {
  readonly min: number;
  readonly max: number;
  /** What becomes of a larger number. Default: it is refused. */
  readonly above?: "counts as max";
}

/**
 * A whole number within bounds; undefined when the parameter was not sent.
 * @throws ServiceError InvalidQueryParameterValue or OutOfRangeQueryParameterValue.
 */
export function integerParameter(
  query: Query,
  name: string,
  { min, max, above }: IntegerBounds,
): number | undefined {
  const text = query.get(name);
  if (text === undefined) return undefined;
  const value = parseInteger(name, text);
  if (value >= min && (value <= max || above !== undefined)) return Math.min(value, max);
  throw new ServiceError("OutOfRangeQueryParameterValue", {
    details: [
      ["QueryParameterName", name],
      ["QueryParameterValue", text],
      ["MinimumAllowed", String(min)],
      ["MaximumAllowed", String(max)],
    ],
  });
}

/** Digits, with a minus sign or without; more of them than a number can tell make it infinite. */
export function parseInteger(name: string, text: string): number {
  if (!/^-?\d+$/.test(text)) throw invalidParameter(name, text, "A whole number is expected.");
  return Number(text);
}

export function invalidParameter(name: string, value: string, reason: string): ServiceError {
  return new ServiceError("InvalidQueryParameterValue", {
    details: [
      ["QueryParameterName", name],
      ["QueryParameterValue", value],
      ["Reason", reason],
    ],
  });
}

export function missingParameter(name: string): ServiceError {
  return new ServiceError("MissingRequiredQueryParameter", {
    details: [["QueryParameterName", name]],
  });
}
