import { batchMutations } from "./batch.ts";
import type { Database } from "./database.ts";
import { TYPE_PROPERTY } from "./model/entity-rows.ts";
import { deleteOf } from "./ports/mutation.ts";
import { isRefusal } from "./ports/port-error.ts";
import type { EntityKey } from "./ports/tables.ts";
import { pagesOf, type RowsOfTable } from "./query/pages.ts";

export type BulkDeleteRange = RowsOfTable;

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
    deleted += await deleteRows(database, table, page);
  }
  return deleted;
}

/** Deletes rows that were read, whatever they are by now; those that are gone do not matter. */
export async function deleteRows(
  database: Database,
  table: string,
  rows: readonly EntityKey[],
): Promise<number> {
  let deleted = 0;
  for (const result of await batchMutations(database, table, rows.map(deleteOf))) {
    if (result.ok) deleted++;
    else if (!isRefusal(result.error, 404)) throw result.error;
  }
  return deleted;
}
