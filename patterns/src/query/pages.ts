import type { Database } from "../database.ts";
import type { KeyRange } from "../keys/key-range.ts";
import type { Continuation, Page, TableQuery } from "../ports/tables.ts";
import { type Filter, inRange } from "./filter.ts";

/** Where the next page begins; the start when it does not say. */
export interface From<Next> {
  readonly continuation?: Next;
}

/** Asks for page after page until one does not continue. */
export async function* pages<Next, Page extends From<Next>>(
  ask: (from: From<Next>) => Promise<Page>,
  start?: Next,
): AsyncGenerator<Page> {
  let continuation = start;
  do {
    const page = await ask(continuation === undefined ? {} : { continuation });
    yield page;
    continuation = page.continuation;
  } while (continuation !== undefined);
}

/** The rows a filter selects as they are stored, a page at a time. */
export function pagesWhere(
  { tables }: Database,
  table: string,
  { filter, ...query }: RowsWhere,
  start?: Continuation,
): AsyncGenerator<Page> {
  const selected = { ...query, ...(filter && { filter }) };
  return pages((from: From<Continuation>) => tables.query(table, { ...selected, ...from }), start);
}

export interface RowsWhere extends Omit<TableQuery, "filter" | "continuation"> {
  /** Undefined for every row. */
  readonly filter: Filter | undefined;
}

export interface RowsOfTable {
  /** Default: every partition, a table scan. */
  readonly partitionKey?: string;
  /** Default: every row. */
  readonly rows?: KeyRange;
}

/** The rows of a range. */
export function pagesOf(
  database: Database,
  table: string,
  { partitionKey, rows = {} }: RowsOfTable,
  select?: readonly string[],
): AsyncGenerator<Page> {
  const filter = inRange(partitionKey, rows);
  return pagesWhere(database, table, { filter, ...(select && { select }) });
}
