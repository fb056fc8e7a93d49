import { tableError, validationFailed } from "../errors.ts";
import type { Mutation } from "../ports/tables.ts";
import type { Session } from "./session.ts";

export const TRANSACTION_OPERATIONS_MAX = 100;
/** What a mutation adds to the request besides its properties, and the share of the limit that is used. */
const OVERHEAD_BYTES = 700;
const FILL_MAX = 0.9;

/** @throws batch-too-large or validation-failed, before anything is sent. */
export function assertFits(mutations: readonly Mutation[], session: Session): void {
  if (mutations.length < 2) return;
  const operations = mutations.length;
  const bytes = bytesOnWire(mutations);
  const limit = bytesLimit(session);
  if (operations > TRANSACTION_OPERATIONS_MAX || bytes > limit) {
    const message = `${operations} operations of ${bytes} bytes; at most ${TRANSACTION_OPERATIONS_MAX} of ${limit} bytes fit in a transaction.`;
    throw tableError("batch-too-large", message, { operations, bytes });
  }
  const rowKeys = mutations.map(({ rowKey }) => rowKey);
  const twice = rowKeys.find((rowKey, i) => rowKeys.indexOf(rowKey) < i);
  if (twice !== undefined)
    throw validationFailed("The transaction", twice, "the row is changed twice");
}

export function bytesLimit(session: Session): number {
  return Math.floor(session.profile.transactionBytesMax * FILL_MAX);
}

/** An upper estimate of the mutations' size in the body of a transaction. */
export function bytesOnWire(mutations: readonly Mutation[]): number {
  // A property with an explicit type is named twice.
  const names = mutations.map((one) => "properties" in one && Object.keys(one.properties));
  const json = JSON.stringify([mutations, names]);
  return mutations.length * OVERHEAD_BYTES + new TextEncoder().encode(json).length;
}
