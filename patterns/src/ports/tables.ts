import type { Filter } from "../query/filter.ts";
import type { Properties } from "./edm.ts";
import type { Profile } from "./profile.ts";

/**
 * All the library needs of a Table endpoint. A call is one request: adapters neither retry nor page on
 * their own, so that the layers above can count, repeat and crash each request.
 *
 * Every method rejects with `PortError` when the service refuses or cannot be reached.
 */
export interface TablesPort {
  readonly profile: Profile;

  /** Point query. Undefined when the entity is absent; an absent table is refused, as by all that follow. */
  get(table: string, key: EntityKey, options?: ReadOptions): Promise<StoredEntity | undefined>;

  /** One page, in key order where the profile promises order. It may be empty and still continue. */
  query(table: string, query: TableQuery): Promise<Page>;

  /**
   * Applies one mutation as a plain request, several as an entity group transaction.
   * @returns the new ETag for each mutation, in order; undefined for deletes and where the service
   * does not tell.
   */
  commit(
    table: string,
    mutations: readonly Mutation[],
    options?: Deadline,
  ): Promise<(string | undefined)[]>;

  /** False when the table is there already. */
  createTable(table: string): Promise<boolean>;
  /** False when there is no such table. */
  deleteTable(table: string): Promise<boolean>;
  /** One page of the names from `from` on and below `to`. */
  listTables(range: TableNameRange): Promise<TableNamePage>;
}

export interface EntityKey {
  readonly partitionKey: string;
  readonly rowKey: string;
}

export interface StoredEntity extends EntityKey {
  readonly etag: string;
  /** ISO text, up to 100 ns. Absent when a projection left it out. */
  readonly timestamp?: string;
  /** The service's clock when it answered, in milliseconds since 1970; absent where it is unknown. */
  readonly servedAtMs?: number;
  readonly properties: Properties;
}

export interface ReadOptions {
  /** Keys and ETag come along unasked. */
  readonly select?: readonly string[];
}

export interface TableQuery extends ReadOptions {
  readonly filter?: Filter;
  readonly top?: number;
  readonly continuation?: Continuation;
}

/** Where the next page begins: opaque, and legal even if no entity has these keys. */
export interface Continuation {
  readonly partitionKey: string;
  readonly rowKey?: string;
}

export interface Page {
  readonly entities: readonly StoredEntity[];
  readonly continuation?: Continuation;
  /** The entities that the service read to find them; absent where it does not tell. */
  readonly inspected?: number;
}

export type Mutation =
  | (EntityKey & {
      readonly kind: "insert" | "insertOrReplace" | "insertOrMerge";
      readonly properties: Properties;
    })
  | (EntityKey & {
      readonly kind: "replace" | "merge";
      /** An ETag, or `*` for any. */
      readonly ifMatch: string;
      readonly properties: Properties;
    })
  | (EntityKey & { readonly kind: "delete"; readonly ifMatch: string });

/** When a write is of no use any more. */
export interface Deadline {
  /** The service refuses the request rather than execute it later than this. */
  readonly timeoutS?: number;
  /** By the client's clock: later than this it is neither sent nor repeated. */
  readonly sendByMs?: number;
}

export interface TableNameRange {
  readonly from?: string;
  readonly to?: string;
  readonly continuation?: string;
}

export interface TableNamePage {
  readonly names: readonly string[];
  readonly continuation?: string;
}
