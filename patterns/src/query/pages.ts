import type { Database } from "../database.ts";
import type { KeyRange } from "../keys/key-range.ts";
import type { Continuation, StoredEntity } from "../ports/tables.ts";
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
export async function* pagesWhere(
  database: Database,
  table: string,
  filter: Filter | undefined,
  options: { readonly select?: readonly string[]; readonly top?: number } = {},
): AsyncGenerator<readonly StoredEntity[]> {
  const query = { ...options, ...(filter && { filter }) };
  for await (const { entities } of pages((from: From<Continuation>) =>
    database.tables.query(table, { ...query, ...from }),
  )) {
    yield entities;
  }
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
): AsyncGenerator<readonly StoredEntity[]> {
  return pagesWhere(database, table, inRange(partitionKey, rows), select && { select });
}
