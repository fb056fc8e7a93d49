import type { DecodedEntity } from "@rowhouse/protocol/entity-json";
import type { ServiceError } from "@rowhouse/protocol/errors";
import type { IfMatch } from "@rowhouse/protocol/etag";

/** One write inside a transaction. A single write is a transaction of one. */
export interface Mutation {
  readonly kind: "insert" | "replace" | "merge" | "delete";
  readonly partitionKey: string;
  readonly rowKey: string;
  /** Absent for deletes. */
  readonly entity: DecodedEntity | undefined;
  /** `If-Match`. Without it, replace and merge are upserts; inserts never have one. */
  readonly ifMatch: IfMatch | undefined;
}

export type CommitOutcome =
  | { readonly committed: true; readonly stored: readonly StoredEntity[] }
  /** Nothing was written; `index` is the mutation that failed. */
  | { readonly committed: false; readonly index: number; readonly error: ServiceError };

/** The result of a mutation: the record, or undefined after a delete. */
export interface StoredEntity {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly record: Uint8Array | undefined;
}
