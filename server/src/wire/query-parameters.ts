import { ServiceError } from "@rowhouse/protocol/errors";
import type { Query } from "./query.ts";

/** Reads parameters of the query string as queues and blobs do, with their errors. */

export interface IntegerBounds {
  readonly min: number;
  readonly max: number;
  /** How a larger number is treated. Default: it is refused. */
  readonly above?: "counts as max";
}

/**
 * An integer within bounds; undefined when the parameter is absent.
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

/** Digits with an optional minus sign. A value too large for a number becomes infinite. */
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
