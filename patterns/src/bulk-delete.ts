import { batchMutations } from "./batch.ts";
import type { Database } from "./database.ts";
import type { KeyRange } from "./keys/key-shape.ts";
import { TYPE_PROPERTY } from "./model/entity-rows.ts";
import { text } from "./ports/edm.ts";
import { isRefusal } from "./ports/port-error.ts";
import type { Continuation, StoredEntity } from "./ports/tables.ts";
import { and, compare } from "./query/filter.ts";

export interface BulkDeleteRange {
  /** Every partition otherwise: a table scan. */
  readonly partitionKey?: string;
  /** Every row otherwise. */
  readonly rows?: KeyRange;
}

/**
 * Deletes a range of rows, whatever they are and without regard to indexes: pages of keys, then
 * transactions of at most 100. Rows that are gone already do not matter, so it may be run again after
 * a crash. ⌈rows/1000⌉ + ⌈rows/100⌉ R, 2 × rows E.
 * @returns how many rows it deleted.
 */
export async function bulkDelete(
  database: Database,
  table: string,
  range: BulkDeleteRange = {},
): Promise<number> {
  let deleted = 0;
  for await (const page of pagesOf(database, table, range, [TYPE_PROPERTY])) {
    const mutations = page.map(
      ({ partitionKey, rowKey }) =>
        ({ kind: "delete", partitionKey, rowKey, ifMatch: "*" }) as const,
    );
    for (const result of await batchMutations(database, table, mutations)) {
      if (result.ok) deleted++;
      else if (!isRefusal(result.error, 404)) throw result.error;
    }
  }
  return deleted;
}

/** The rows of a range as they are stored, a page at a time. */
export async function* pagesOf(
  database: Database,
  table: string,
  { partitionKey, rows = {} }: BulkDeleteRange,
  select?: readonly string[],
): AsyncGenerator<readonly StoredEntity[]> {
  const filter = and(
    partitionKey === undefined ? undefined : compare("PartitionKey", "eq", text(partitionKey)),
    rows.from === undefined
      ? undefined
      : compare("RowKey", rows.afterFrom ? "gt" : "ge", text(rows.from)),
    rows.to === undefined
      ? undefined
      : compare("RowKey", rows.throughTo ? "le" : "lt", text(rows.to)),
  );
  let continuation: Continuation | undefined;
  do {
    const page = await database.tables.query(table, {
      ...(filter && { filter }),
      ...(select && { select }),
      ...(continuation && { continuation }),
    });
    yield page.entities;
    continuation = page.continuation;
  } while (continuation);
}
