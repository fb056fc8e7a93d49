import { TYPE_PROPERTY } from "./model/entity-rows.ts";
import { deleteOf, keyOf } from "./ports/mutation.ts";
import { isRefusal, isRefusalInside } from "./ports/port-error.ts";
import type { StoredEntity } from "./ports/tables.ts";
import { pagesOf, type RowsOfTable } from "./query/pages.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "./store/limit.ts";
import type { Session } from "./store/session.ts";
import { TRANSACTION_OPERATIONS_MAX } from "./store/transaction-size.ts";

export type BulkDeleteRange = RowsOfTable;

/**
 * Deletes a range of rows of any kind, regardless of indexes: reads pages of keys, then deletes in transactions
 * of at most 100. Missing rows do not matter, so it may be run again after a crash. ⌈rows/1000⌉ + ⌈rows/100⌉ R,
 * 2 × rows E.
 * @returns the number of rows it deleted.
 */
export async function bulkDelete(
  session: Session,
  table: string,
  range: BulkDeleteRange = {},
): Promise<number> {
  let deleted = 0;
  for await (const { entities } of pagesOf(session, table, range, [TYPE_PROPERTY])) {
    deleted += await deleteRows(session, table, entities);
  }
  return deleted;
}

/**
 * Deletes rows that were read, whatever version they are now; missing rows do not matter. `keep` is called
 * before each request and rejects once the rows are no longer ours to delete. With `keep`, a row is deleted
 * only in the version that was read before: a request that was delayed until another client rewrote the row
 * leaves it alone. A rewritten row is read again and deleted if `isMeant` accepts it.
 */
export async function deleteRows(
  { tables }: Session,
  table: string,
  rows: readonly StoredEntity[],
  keep?: () => Promise<void>,
  isMeant: (now: StoredEntity) => boolean = () => true,
): Promise<number> {
  const partitions = new Map<string, StoredEntity[]>();
  for (const row of rows) {
    const partition = partitions.get(row.partitionKey) ?? [];
    partitions.set(row.partitionKey, partition);
    partition.push(row);
  }
  let deleted = 0;
  await mapBounded([...partitions.values()], LOOKUPS_AT_ONCE, async (partition) => {
    for (let left = partition; left.length > 0; ) {
      const some = left.slice(0, TRANSACTION_OPERATIONS_MAX);
      await keep?.();
      try {
        await tables.commit(
          table,
          some.map((row) => deleteOf(row, keep && row.etag)),
        );
        deleted += some.length;
        left = left.slice(some.length);
      } catch (error) {
        const refused = isRefusal(error, 404, 412) && some[error.index];
        if (!refused) throw error;
        // Another client has already deleted the row, or the table.
        if (!isRefusalInside(error, 404, 412)) return;
        const now = error.status === 412 ? await tables.get(table, keyOf(refused)) : undefined;
        const again = now && isMeant(now) ? [now] : [];
        left = left.flatMap((row) => (row === refused ? again : [row]));
      }
    }
  });
  return deleted;
}
