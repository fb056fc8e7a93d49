import type { Properties } from "./edm.ts";
import type { EntityKey, Mutation, StoredEntity } from "./tables.ts";

/** The key alone. */
export function keyOf({ partitionKey, rowKey }: EntityKey): EntityKey {
  return { partitionKey, rowKey };
}

/** For people to read. */
export function printKey({ partitionKey, rowKey }: EntityKey): string {
  return `${partitionKey} | ${rowKey}`;
}

/** A write that succeeds only while the row is as it was read: `before`, or absent. */
export function writeOver(
  before: Pick<StoredEntity, "etag"> | undefined,
  key: EntityKey,
  properties: Properties,
): Mutation {
  return before
    ? { kind: "replace", ...keyOf(key), ifMatch: before.etag, properties }
    : { kind: "insert", ...keyOf(key), properties };
}

/** Default: deletes whatever version is stored. */
export function deleteOf(key: EntityKey, ifMatch = "*"): Mutation {
  return { kind: "delete", ...keyOf(key), ifMatch };
}

/** Changes nothing but the ETag: whatever is committed with it requires the row to exist, in that version. */
export function mergeNothing(key: EntityKey, ifMatch = "*"): Mutation {
  return { kind: "merge", ...keyOf(key), ifMatch, properties: {} };
}
