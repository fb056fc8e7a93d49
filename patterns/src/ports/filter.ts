import { isOneRow, type KeyRange } from "../keys/key-range.ts";
import { bytesOf, type EdmValue, hexOf, text } from "./edm.ts";

export type Comparison = "eq" | "ne" | "gt" | "ge" | "lt" | "le";

/** A filter as a tree; adapters send its text. */
export type Filter =
  | { readonly kind: "and" | "or"; readonly left: Filter; readonly right: Filter }
  | { readonly kind: "not"; readonly operand: Filter }
  | {
      readonly kind: "compare";
      readonly property: string;
      readonly comparison: Comparison;
      readonly value: EdmValue;
    };

export function compare(property: string, comparison: Comparison, value: EdmValue): Filter {
  return { kind: "compare", property, comparison, value };
}

export function and(...filters: readonly (Filter | undefined)[]): Filter | undefined {
  return filters.reduce(
    (left, right) => (left && right ? { kind: "and", left, right } : (left ?? right)),
    undefined,
  );
}

/** No condition when `key` is undefined. */
export function bound(
  name: "PartitionKey" | "RowKey",
  comparison: Comparison,
  key: string | undefined,
): Filter | undefined {
  return key === undefined ? undefined : compare(name, comparison, text(key));
}

/** Selects the rows of a range, in one partition or in all. */
export function inRange(partitionKey: string | undefined, range: KeyRange): Filter | undefined {
  const { from, to } = range;
  return and(
    bound("PartitionKey", "eq", partitionKey),
    ...(isOneRow(range)
      ? [bound("RowKey", "eq", from)]
      : [
          bound("RowKey", range.afterFrom ? "gt" : "ge", from),
          bound("RowKey", range.throughTo ? "le" : "lt", to),
        ]),
  );
}

/**
 * The `$filter` text; empty for no filter. Parentheses appear only around an `or` inside an `and`, and after
 * `not`.
 */
export function printFilter(filter: Filter | undefined): string {
  if (!filter) return "";
  switch (filter.kind) {
    case "compare":
      return `${filter.property} ${filter.comparison} ${printLiteral(filter.value)}`;
    case "not":
      return `not (${printFilter(filter.operand)})`;
    default: {
      const side = (operand: Filter) =>
        filter.kind === "and" && operand.kind === "or"
          ? `(${printFilter(operand)})`
          : printFilter(operand);
      return `${side(filter.left)} ${filter.kind} ${side(filter.right)}`;
    }
  }
}

function printLiteral({ type, value }: EdmValue): string {
  switch (type) {
    case "String":
      return `'${String(value).replaceAll("'", "''")}'`;
    case "Int64":
      return `${value}L`;
    case "Guid":
    case "DateTime":
      return `${type.toLowerCase()}'${value}'`;
    case "Binary":
      return `X'${hexOf(bytesOf(String(value)))}'`;
    case "Double":
      // Digits alone would be parsed as an Int32.
      return String(value)
        .replace("Infinity", "INF")
        .replace(/^-?\d+$/, "$&.0");
    default:
      return String(value);
  }
}
