import type { Page } from "../ports/tables.ts";
import type { Filter } from "./filter.ts";

/** The four classes of reads, cheapest first. */
export type Plan = "point" | "range" | "partition-scan" | "table-scan";

/** The written permission to scan: visible in review, reported when used. */
export interface Permit<P extends Plan> {
  readonly allow: P;
  readonly because: string;
}

/** No argument for cheap plans, one mandatory argument for scans; its name is the error message. */
export type Pay<P extends Plan> = P extends "point" | "range" ? [] : [permit: Permit<P>];

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

/** What one page of a query yielded. */
export interface PageRead {
  readonly plan: Plan;
  readonly table: string;
  readonly filter: Filter | undefined;
  /** Whether the query began with it. */
  readonly isFirst: boolean;
  readonly page: Page;
  /** How many entities of the page were given to the caller. */
  readonly returned: number;
  /** The index whose entries were checked against their entities to make them up. */
  readonly checked: string | undefined;
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
  /** Opaque, and good for this query only; absent at the end. */
  readonly cursor?: string;
}

/** A query that has not run yet. Its type says what it costs; running a scan takes a permit. */
export interface Query<T, P extends Plan> {
  /** A condition on properties: the service inspects the whole range to answer it. */
  where(
    condition: (columns: Columns<T>) => Condition,
  ): Query<T, P extends "range" ? "partition-scan" : P>;
  /** Fetches these fields only. It saves bandwidth, not scanning. */
  select<const Names extends readonly (keyof T)[]>(
    ...names: Names
  ): Query<Pick<T, Names[number]>, P>;
  /** At most so many entities, the first in key order. */
  limit(count: number): Query<T, P>;
  /** All of them, in memory at once. */
  all(...this_query_scans__add_an_index_or_pass_allow_and_because: Pay<P>): Promise<Saved<T>[]>;
  /** The first in key order. */
  first(
    ...this_query_scans__add_an_index_or_pass_allow_and_because: Pay<P>
  ): Promise<Saved<T> | undefined>;
  /** One after the other, with a page in memory. */
  stream(
    ...this_query_scans__add_an_index_or_pass_allow_and_because: Pay<P>
  ): AsyncIterable<Saved<T>>;
  /** One page of at most `limit` (default: 1,000), from the cursor of the page before. */
  page(
    cursor: string | undefined,
    ...this_query_scans__add_an_index_or_pass_allow_and_because: Pay<P>
  ): Promise<QueryPage<Saved<T>>>;

  /** What running it would cost, without running it. */
  explain(): Explanation;
}
