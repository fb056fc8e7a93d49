import type { Plan } from "../store/page-read.ts";

export type { Plan } from "../store/page-read.ts";

import type { Filter } from "../ports/filter.ts";

/** A written permission to scan: visible in code review, and reported when used. */
export interface Permit<P extends Plan> {
  readonly allow: P;
  readonly because: string;
}

declare const WHY: unique symbol;

/** Nothing is of this type. It is in the type of a parameter, so that the compiler's message says why. */
interface ThisQueryScans<Text extends string> {
  readonly [WHY]: Text;
}

/**
 * No argument for cheap plans, one required argument for scans. (A union of lists, because the compiler reports the
 * types of one, where for a list alone it counts the arguments.)
 */
export type Pay<P extends Plan> = P extends "point" | "range"
  ? []
  :
      | [permit: Permit<P>]
      | [never, ThisQueryScans<`Add an index, or pass { allow: '${P}', because: '…' }`>];

export interface Explanation {
  readonly plan: Plan;
  readonly table: string;
  /** The `$filter` text; empty when there is none. */
  readonly filter: string;
  /** Billable requests, as a formula over the rows that qualify. */
  readonly requests: string;
  /** Entities the service reads. */
  readonly entities: string;
  readonly notes: readonly string[];
}

export interface Condition {
  readonly filter: Filter;
  and(other: Condition): Condition;
  or(other: Condition): Condition;
  not(): Condition;
}

export interface Column<Value> {
  eq(value: Value): Condition;
  ne(value: Value): Condition;
  gt(value: Value): Condition;
  gte(value: Value): Condition;
  lt(value: Value): Condition;
  lte(value: Value): Condition;
}

export type Columns<T> = { readonly [Name in keyof T]-?: Column<NonNullable<T[Name]>> };

export type Saved<T> = T & { readonly etag: string };

export interface QueryPage<T> {
  readonly items: T[];
  /** Opaque, and valid for this query only. Absent at the end. */
  readonly cursor?: string;
}

/** A query that has not run yet. Its type states its cost; running a scan requires a permit. */
export interface Query<T, P extends Plan> {
  /** Adds a condition on properties. The service inspects the whole range to answer it. */
  where(
    condition: (columns: Columns<T>) => Condition,
  ): Query<T, P extends "range" ? "partition-scan" : P>;
  /** Fetches only these fields. This saves bandwidth, not reads. */
  select<const Names extends readonly (keyof T)[]>(
    ...names: Names
  ): Query<Pick<T, Names[number]>, P>;
  /** Limits the result to this many entities, the first in key order. */
  limit(count: number): Query<T, P>;
  /** All entities, in memory at once. */
  all(...permit: Pay<P>): Promise<Saved<T>[]>;
  /** The first entity in key order. */
  first(...permit: Pay<P>): Promise<Saved<T> | undefined>;
  /** Yields the entities one by one, with one page in memory. */
  stream(...permit: Pay<P>): AsyncIterable<Saved<T>>;
  /** One page of at most `limit` entities (default: 1,000), starting at the cursor of the previous page. */
  page(cursor: string | undefined, ...permit: Pay<P>): Promise<QueryPage<Saved<T>>>;

  /** What the query would cost. Sends no request. */
  explain(): Explanation;
}
