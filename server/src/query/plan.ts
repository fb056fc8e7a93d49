import type { FilterNode } from "@rowhouse/protocol/filter-tree";

/**
 * What a query reads: the entities whose keys are in `reads`, of which it returns those that match
 * `residual`. Entities outside `reads` never match.
 */
export interface Plan {
  /** The most expensive class among the reads. */
  readonly class: PlanClass;
  /** Disjoint and in key order. */
  readonly reads: readonly KeyRead[];
  /** The conditions not already guaranteed by the keys; undefined if there are none. */
  readonly residual: FilterNode | undefined;
  /**
   * For reads of several partitions: the row keys that a match must have, as the alternating starts
   * and ends of intervals; with an odd count, the last never ends. The residual implies them, so an
   * engine may use them to skip entities. Undefined if they would skip nothing.
   */
  readonly rowKeys: readonly string[] | undefined;
}

/**
 * Cheapest first. A range query stays within one partition; a partition range covers several (the
 * service's "prefix of partitions"); "nothing" is a filter that no entity can match.
 */
export const PLAN_CLASSES = [
  "nothing",
  "point query",
  "range query",
  "partition scan",
  "partition range",
  "table scan",
] as const;

export type PlanClass = (typeof PLAN_CLASSES)[number];

export type KeyRead = PointRead | RangeRead;

/** One entity, by its keys. */
export interface PointRead {
  readonly kind: "point";
  readonly class: "point query";
  readonly partitionKey: string;
  readonly rowKey: string;
}

/**
 * From `start` (inclusive) to `end` (exclusive; undefined: the end of the table). Bounds are
 * positions between keys, not keys: they may be longer than any key or contain characters that no
 * key may contain. The bound that excludes "a", for example, is "a\0".
 */
export interface RangeRead {
  readonly kind: "range";
  readonly class: Exclude<PlanClass, "nothing" | "point query">;
  readonly start: KeyPosition;
  readonly end: KeyPosition | undefined;
}

/** Ordered by partition key, then row key, as UTF-16 code units, like `<` on strings. */
export interface KeyPosition {
  readonly partitionKey: string;
  readonly rowKey: string;
}

/** A read of `[start, end)`, in the cheapest class it fits. */
export function keyRead(start: KeyPosition, end: KeyPosition | undefined): KeyRead {
  const { partitionKey, rowKey } = start;
  if (end?.partitionKey === partitionKey) {
    return end.rowKey === after(rowKey)
      ? { kind: "point", class: "point query", partitionKey, rowKey }
      : { kind: "range", class: "range query", start, end };
  }
  if (end?.partitionKey === after(partitionKey) && end.rowKey === "") {
    return { kind: "range", class: rowKey === "" ? "partition scan" : "range query", start, end };
  }
  const whole = partitionKey === "" && rowKey === "" && end === undefined;
  return { kind: "range", class: whole ? "table scan" : "partition range", start, end };
}

/** The smallest string larger than `text`. */
export function after(text: string): string {
  return `${text}\0`;
}

/** Key order; undefined is the end of the table. */
export function isBefore(a: KeyPosition, b: KeyPosition | undefined): boolean {
  if (b === undefined || a.partitionKey < b.partitionKey) return true;
  return a.partitionKey === b.partitionKey && a.rowKey < b.rowKey;
}

/** The class of a query with these reads: the most expensive one. */
export function dearestClass(reads: readonly KeyRead[]): PlanClass {
  let dearest = 0;
  for (const read of reads) dearest = Math.max(dearest, PLAN_CLASSES.indexOf(read.class));
  return PLAN_CLASSES[dearest]!;
}
