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

/** Succeeds only while the row is as it was read: `before`, or absent. */
export function writeOver(
  before: Pick<StoredEntity, "etag"> | undefined,
  key: EntityKey,
  properties: Properties,
): Mutation {
  return before
    ? { kind: "replace", ...keyOf(key), ifMatch: before.etag, properties }
    : { kind: "insert", ...keyOf(key), properties };
}

/** Default: whatever the row is by now. */
export function deleteOf(key: EntityKey, ifMatch = "*"): Mutation {
  return { kind: "delete", ...keyOf(key), ifMatch };
}

/** Changes nothing but the ETag: what is committed with it needs the row to be there, and to be that one. */
export function mergeNothing(key: EntityKey, ifMatch = "*"): Mutation {
  return { kind: "merge", ...keyOf(key), ifMatch, properties: {} };
}
