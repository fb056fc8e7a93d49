import type { FilterNode } from "@rowhouse/protocol/filter-tree";

/**
 * What a query has to read: the entities with keys in `reads`, of which it returns those that pass
 * `residual`. Entities outside `reads` never match.
 */
export interface Plan {
  /** The dearest class among the reads. */
  readonly class: PlanClass;
  /** Disjoint and in key order. */
  readonly reads: readonly KeyRead[];
  /** What the keys read do not already guarantee; undefined when they guarantee everything. */
  readonly residual: FilterNode | undefined;
  /**
   * Where several partitions are read: the row keys an entity must have to match, as the places where
   * they begin and end in turn, an odd one out never ending. The residual asks for them too, so an
   * engine may use this to leave others out. Undefined where it would leave out nothing.
   */
  readonly rowKeys: readonly string[] | undefined;
}

/**
 * Cheapest first. A range query stays inside one partition; a partition range covers several
 * (the service's "prefix of partitions"); "nothing" is a filter that no entity can pass.
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
 * From `start` (included) up to `end` (excluded; undefined: to the end of the table). Bounds are
 * places between keys, not keys: they may be longer than any key, or hold characters that no key
 * may, as the exclusive bound after "a" is "a\0".
 */
export interface RangeRead {
  readonly kind: "range";
  readonly class: Exclude<PlanClass, "nothing" | "point query">;
  readonly start: KeyPosition;
  readonly end: KeyPosition | undefined;
}

/** Ordered by partition key, then row key, as UTF-16 code units: what `<` does with strings. */
export interface KeyPosition {
  readonly partitionKey: string;
  readonly rowKey: string;
}

/** A read of `[start, end)` as the cheapest kind it is. */
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

/** Key order. No position is the end of the table. */
export function isBefore(a: KeyPosition, b: KeyPosition | undefined): boolean {
  if (b === undefined || a.partitionKey < b.partitionKey) return true;
  return a.partitionKey === b.partitionKey && a.rowKey < b.rowKey;
}

/** The class of a query that does all of `reads`: its dearest. */
export function dearestClass(reads: readonly KeyRead[]): PlanClass {
  let dearest = 0;
  for (const read of reads) dearest = Math.max(dearest, PLAN_CLASSES.indexOf(read.class));
  return PLAN_CLASSES[dearest]!;
}
