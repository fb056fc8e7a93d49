import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import type { IndexDefinition } from "../query/indexes/index-definition.ts";

/**
 * The value of a table in the catalog. Every write to a table with indexes is committed on the premise that this has
 * not changed, so a change of an index's state takes effect for all processes at once.
 */
export interface TableValue {
  readonly policies: readonly AccessPolicy[];
  /** The indexes of the table; absent if there are none. */
  readonly indexes?: readonly TableIndex[];
  /** The table is an index of the table with this name: only the server writes it. */
  readonly indexOf?: string;
}

export interface TableIndex extends IndexDefinition {
  /** The id of the index table. */
  readonly id: number;
  readonly state: IndexState;
  /** When it was declared, in microseconds since 1970 by the engine's versions. */
  readonly since: number;
  /**
   * Writers that do not know the index yet may still commit until some time after `since`: only where premises are not
   * checked by every write. Building waits for them.
   */
  readonly awaitsWriters?: true;
  /** Entities per second at which it is built; 0: as fast as possible. Default: 20,000. */
  readonly rate?: number;
}

/**
 * Writers maintain an index in every state. Queries use it only when it is ready: until then entities may lack their
 * entries. It is stale once an entry was found missing, and is repaired or dropped.
 */
export type IndexState = "building" | "ready" | "stale";
