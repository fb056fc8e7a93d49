import type { Row } from "../entities.ts";
import { idOf, type TableEdits } from "../staged.ts";
import { readEntity } from "../table-facts.ts";

const READS_AT_ONCE = 4;
/** More rows are a change in bulk. */
export const STAGED_DELETES_MAX = 500;

/**
 * Stages the deletion of rows. Each is read whole first: its ETag is the condition of the delete, and its values are
 * what undoing writes.
 * @throws ServerError for one that could not be read
 */
export async function stageDeletes(
  table: string,
  edits: TableEdits,
  rows: readonly Row[],
): Promise<void> {
  const left = [...rows];
  const work = async () => {
    for (let row = left.shift(); row; row = left.shift()) {
      const base = await readEntity(table, row);
      edits.stage(idOf(row), { kind: "delete", row: base.row, base });
    }
  };
  await Promise.all(Array.from({ length: READS_AT_ONCE }, work));
}
