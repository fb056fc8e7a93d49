import { bulkSlice, ServerError } from "./session.ts";

/** A change to all entities that a filter finds, as `POST api/v1/bulk` takes it. */
export interface BulkWork {
  readonly table: string;
  readonly filter: string;
  /** An entity as JSON without keys; undefined to delete. */
  readonly merge: string | undefined;
  readonly isDryRun: boolean;
}

export interface BulkTotals {
  readonly read: number;
  readonly matched: number;
  readonly changed: number;
  /** Changed by others in the meantime. */
  readonly leftAlone: number;
  readonly examples: readonly (readonly [partitionKey: string, rowKey: string])[];
}

interface Slice extends BulkTotals {
  readonly next?: Readonly<Record<string, string>>;
  readonly failure?: { readonly status: number; readonly code: string; readonly message: string };
}

export const NOTHING_DONE: BulkTotals = {
  ...{ read: 0, matched: 0, changed: 0, leftAlone: 0 },
  examples: [],
};

/**
 * Has the server work, slice after slice, until everything is done or the signal ends it.
 * @param progress called after each slice with the sums so far
 * @throws ServerError where the server refuses; what was done until then is done, and was told to `progress`
 */
export async function workInBulk(
  work: BulkWork,
  progress: (totals: BulkTotals) => void,
  signal: AbortSignal,
): Promise<void> {
  let totals = NOTHING_DONE;
  let next: Slice["next"] = {};
  while (next && !signal.aborted) {
    const slice = (await bulkSlice({ ...work, next })) as Slice;
    totals = {
      read: totals.read + slice.read,
      matched: totals.matched + slice.matched,
      changed: totals.changed + slice.changed,
      leftAlone: totals.leftAlone + slice.leftAlone,
      examples: [...totals.examples, ...slice.examples].slice(0, 10),
    };
    progress(totals);
    if (slice.failure) {
      const { status, code, message } = slice.failure;
      throw new ServerError(status, code, message);
    }
    next = slice.next;
  }
}
