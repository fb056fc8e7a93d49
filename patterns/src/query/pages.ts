import type { KeyRange } from "../keys/key-range.ts";
import { type Filter, inRange } from "../ports/filter.ts";
import type { Continuation, Page, TableQuery } from "../ports/tables.ts";
import type { Session } from "../store/session.ts";

/** Where the next page begins; absent for the first page, and after the last. */
export interface From<Next> {
  readonly continuation?: Next;
}

/** Requests page after page until one has no continuation. */
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

/** The stored rows that a filter selects, one page at a time. */
export function pagesWhere(
  { tables }: Session,
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
  /** Default: every partition, which is a table scan. */
  readonly partitionKey?: string;
  /** Default: every row. */
  readonly rows?: KeyRange;
}

/** The stored rows of a range, one page at a time. */
export function pagesOf(
  session: Session,
  table: string,
  { partitionKey, rows = {} }: RowsOfTable,
  select?: readonly string[],
): AsyncGenerator<Page> {
  const filter = inRange(partitionKey, rows);
  return pagesWhere(session, table, { filter, ...(select && { select }) });
}
