import { bytesOf, type EdmValue, hexOf } from "./edm.ts";
import type { Comparison, Filter } from "./filter.ts";
import type { StoredEntity } from "./tables.ts";

/** Whether the service would return the entity. A comparison with an absent property is false. */
export function matches(filter: Filter, entity: StoredEntity): boolean {
  switch (filter.kind) {
    case "and":
      return matches(filter.left, entity) && matches(filter.right, entity);
    case "or":
      return matches(filter.left, entity) || matches(filter.right, entity);
    case "not":
      return !matches(filter.operand, entity);
    case "compare": {
      const order = orderOf(propertyOf(entity, filter.property), filter.value);
      return order !== undefined && holds(filter.comparison, order);
    }
  }
}

function propertyOf(entity: StoredEntity, property: string): EdmValue | undefined {
  switch (property) {
    case "PartitionKey":
      return { type: "String", value: entity.partitionKey };
    case "RowKey":
      return { type: "String", value: entity.rowKey };
    case "Timestamp":
      return { type: "DateTime", value: entity.timestamp ?? "" };
    default:
      return entity.properties[property];
  }
}

const NUMERIC = ["Double", "Int32", "Int64"];

/** Negative, zero or positive; NaN when a value is NaN; undefined when the types cannot be compared. */
function orderOf(a: EdmValue | undefined, b: EdmValue): number | undefined {
  if (!a) return undefined;
  if (NUMERIC.includes(a.type) && NUMERIC.includes(b.type)) {
    const exact = a.type === "Int64" && b.type === "Int64";
    return exact
      ? order(BigInt(a.value), BigInt(b.value))
      : order(Number(a.value), Number(b.value));
  }
  if (a.type !== b.type) return undefined;
  switch (a.type) {
    case "DateTime":
      return order(comparableDate(String(a.value)), comparableDate(String(b.value)));
    case "Binary":
      return order(hexOf(bytesOf(String(a.value))), hexOf(bytesOf(String(b.value))));
    default:
      return order(a.value, b.value);
  }
}

function order<Value extends string | number | bigint | boolean>(a: Value, b: Value): number {
  return a < b ? -1 : a > b ? 1 : a === b ? 0 : Number.NaN;
}

/** ISO text with all seven fraction digits, so that comparing characters compares instants. */
function comparableDate(iso: string): string {
  const [seconds = "", fraction = ""] = iso.replace("Z", "").split(".");
  return `${seconds}.${fraction.padEnd(7, "0")}`;
}

function holds(comparison: Comparison, order: number): boolean {
  switch (comparison) {
    case "eq":
      return order === 0;
    case "ne":
      return order !== 0;
    case "gt":
      return order > 0;
    case "ge":
      return order >= 0;
    case "lt":
      return order < 0;
    case "le":
      return order <= 0;
  }
}
