import type { ComparisonOperator } from "@rowhouse/protocol/filter-tree";
import { after, type KeyPosition } from "./plan.ts";

/**
 * Sets of keys that a filter can express, as data: `or` is a union and `and` an intersection, each
 * one sweep over two sorted lists.
 *
 * All sets are built from half-open intervals. Every string has a successor (`after`), so every
 * comparison is such an interval: `eq 'a'` is ["a", "a\0"), `gt 'a'` begins at "a\0".
 */

/** Row keys, as the alternating starts and ends of intervals; with an odd count, the last never ends. */
export type RowSet = readonly string[];

export const NO_ROWS: RowSet = [];
export const ALL_ROWS: RowSet = [""];

/** The partitions from `from` up to the next segment's `from`, all with the same row keys. */
export interface Segment {
  readonly from: string;
  readonly rows: RowSet;
}

/** Segments ordered by `from`; the first has "". */
export type KeySet = readonly Segment[];

export const ALL_KEYS: KeySet = [{ from: "", rows: ALL_ROWS }];
export const NO_KEYS: KeySet = [{ from: "", rows: NO_ROWS }];

export function rowsWhere(operator: ComparisonOperator, value: string): RowSet {
  switch (operator) {
    case "eq":
      return [value, after(value)];
    case "ne":
      return value === "" ? [after(value)] : ["", value, after(value)];
    case "lt":
      return value === "" ? NO_ROWS : ["", value];
    case "le":
      return ["", after(value)];
    case "gt":
      return [after(value)];
    case "ge":
      return value === "" ? ALL_ROWS : [value];
  }
}

export function partitionsWhere(operator: ComparisonOperator, value: string): KeySet {
  const segments: Segment[] = [];
  let inside = false;
  for (const from of rowsWhere(operator, value)) {
    if (segments.length === 0 && from !== "") segments.push({ from: "", rows: NO_ROWS });
    inside = !inside;
    segments.push({ from, rows: inside ? ALL_ROWS : NO_ROWS });
  }
  return segments.length === 0 ? NO_KEYS : segments;
}

/** The same row keys in every partition. */
export function inEveryPartition(rows: RowSet): KeySet {
  return [{ from: "", rows }];
}

export function keysFrom({ partitionKey, rowKey }: KeyPosition): KeySet {
  const segments: Segment[] = partitionKey === "" ? [] : [{ from: "", rows: NO_ROWS }];
  segments.push({ from: partitionKey, rows: rowsWhere("ge", rowKey) });
  if (rowKey !== "") segments.push({ from: after(partitionKey), rows: ALL_ROWS });
  return segments;
}

export function keysBefore({ partitionKey, rowKey }: KeyPosition): KeySet {
  const segments: Segment[] = partitionKey === "" ? [] : [{ from: "", rows: ALL_ROWS }];
  segments.push({ from: partitionKey, rows: rowsWhere("lt", rowKey) });
  if (rowKey !== "") segments.push({ from: after(partitionKey), rows: NO_ROWS });
  return segments;
}

/** Whether the segment at `index` is one partition: there is no key between a string and its successor. */
export function isOnePartition(keys: KeySet, index: number): boolean {
  return keys[index + 1]?.from === after(keys[index]!.from);
}

/**
 * Unions and intersections in bounded time. A filter of n comparisons makes lists of O(n)
 * partitions, but each may have O(n) row keys again. When the bound is reached, results become too
 * wide and `exhausted` is set: a plan may then read more than necessary, never less.
 */
export class KeyAlgebra {
  #stepsLeft: number;
  #last = { a: NO_ROWS, b: NO_ROWS, both: true, result: NO_ROWS };

  constructor(stepsMax: number) {
    this.#stepsLeft = stepsMax;
  }

  get exhausted(): boolean {
    return this.#stepsLeft < 0;
  }

  union(sets: readonly KeySet[]): KeySet {
    return this.#combineAll(sets, false) ?? NO_KEYS;
  }

  intersection(sets: readonly KeySet[]): KeySet {
    return this.#combineAll(sets, true) ?? ALL_KEYS;
  }

  /** Whether every key of `inner` is in `outer`. False if the bound is reached. */
  isWithin(inner: KeySet, outer: KeySet): boolean {
    return this.#everyOverlap(inner, outer, (a, b) => sameRows(this.#combineRows(a, b, true), a));
  }

  /** Whether no key is in both. False if the bound is reached. */
  areDisjoint(left: KeySet, right: KeySet): boolean {
    return this.#everyOverlap(left, right, (a, b) => this.#combineRows(a, b, true).length === 0);
  }

  #everyOverlap(a: KeySet, b: KeySet, test: (a: RowSet, b: RowSet) => boolean): boolean {
    let i = 0;
    let j = 0;
    while (i < a.length && j < b.length) {
      this.#stepsLeft--;
      if (!test(a[i]!.rows, b[j]!.rows) || this.exhausted) return false;
      const order = compareStarts(a[i + 1], b[j + 1]);
      if (order <= 0) i++;
      if (order >= 0) j++;
    }
    return true;
  }

  /** Combines pairwise, so that a chain of n takes n log n. */
  #combineAll(sets: readonly KeySet[], both: boolean): KeySet | undefined {
    let round = sets;
    while (round.length > 1) {
      const next: KeySet[] = [];
      for (let i = 0; i < round.length; i += 2) {
        const right = round[i + 1];
        next.push(right === undefined ? round[i]! : this.#combine(round[i]!, right, both));
      }
      round = next;
    }
    return round[0];
  }

  #combine(a: KeySet, b: KeySet, both: boolean): KeySet {
    const result: Segment[] = [];
    let i = 0;
    let j = 0;
    let from = "";
    while (i < a.length && j < b.length) {
      const rows = this.#combineRows(a[i]!.rows, b[j]!.rows, both);
      if (result.at(-1)?.rows !== rows) result.push({ from, rows });
      const [nextA, nextB] = [a[i + 1], b[j + 1]];
      const order = compareStarts(nextA, nextB);
      from = (order <= 0 ? nextA?.from : nextB?.from) ?? "";
      if (order <= 0) i++;
      if (order >= 0) j++;
    }
    return result;
  }

  /** No rows and all rows are always the same objects, so that most combinations end early. */
  #combineRows(a: RowSet, b: RowSet, both: boolean): RowSet {
    if (a === b) return a;
    const [neutral, absorbing] = both ? [ALL_ROWS, NO_ROWS] : [NO_ROWS, ALL_ROWS];
    if (a === neutral || b === absorbing) return b;
    if (b === neutral || a === absorbing) return a;
    // Partitions that share their row keys repeat the same pair.
    const last = this.#last;
    if (a === last.a && b === last.b && both === last.both) return last.result;
    this.#stepsLeft -= a.length + b.length;
    if (this.exhausted) return both ? a : ALL_ROWS;
    const result = sweepRows(a, b, both);
    this.#last = { a, b, both, result };
    return result;
  }
}

function sweepRows(a: RowSet, b: RowSet, both: boolean): RowSet {
  const result: string[] = [];
  let i = 0;
  let j = 0;
  let inside = false;
  while (i < a.length || j < b.length) {
    const [left, right] = [a[i], b[j]];
    const at = right === undefined || (left !== undefined && left < right) ? left! : right;
    if (left === at) i++;
    if (right === at) j++;
    const inA = i % 2 === 1;
    const inB = j % 2 === 1;
    if ((both ? inA && inB : inA || inB) === inside) continue;
    inside = !inside;
    result.push(at);
  }
  if (result.length === 0) return NO_ROWS;
  return result.length === 1 && result[0] === "" ? ALL_ROWS : result;
}

function sameRows(a: RowSet, b: RowSet): boolean {
  return a === b || (a.length === b.length && a.every((at, index) => at === b[index]));
}

/** Which of two segments begins first; the end of a list comes last. */
function compareStarts(a: Segment | undefined, b: Segment | undefined): number {
  if (a === undefined || b === undefined) return a === b ? 0 : a === undefined ? 1 : -1;
  return a.from === b.from ? 0 : a.from < b.from ? -1 : 1;
}
