import type { Properties } from "./edm.ts";
import type { Filter } from "./filter.ts";
import type { Profile } from "./profile.ts";

/**
 * Everything the library needs of a Table endpoint. Each call is one request: adapters neither retry nor page
 * on their own, so that the layers above can count, retry and crash each request.
 *
 * Every method rejects with `PortError` when the service refuses or cannot be reached.
 */
export interface TablesPort {
  readonly profile: Profile;

  /**
   * Point query. Undefined when the entity is absent. A missing table is refused, here as in `query` and
   * `commit`.
   */
  get(table: string, key: EntityKey, options?: ReadOptions): Promise<StoredEntity | undefined>;

  /** One page, in key order if the profile guarantees order. It may be empty and still have a continuation. */
  query(table: string, query: TableQuery): Promise<Page>;

  /**
   * Sends one mutation as a plain request, several as an entity group transaction.
   * @returns the new ETag of each mutation, in order; undefined for deletes and where the service returns none.
   */
  commit(
    table: string,
    mutations: readonly Mutation[],
    options?: Deadline,
  ): Promise<(string | undefined)[]>;

  /** False when the table already exists. */
  createTable(table: string): Promise<boolean>;
  /** False when there is no such table. */
  deleteTable(table: string): Promise<boolean>;
  /** One page of the table names from `from` (included) to `to`. */
  listTables(range: TableNameRange): Promise<TableNamePage>;
}

export interface EntityKey {
  readonly partitionKey: string;
  readonly rowKey: string;
}

export interface StoredEntity extends EntityKey {
  readonly etag: string;
  /** ISO text, with a precision of up to 100 ns. Absent when a projection left it out. */
  readonly timestamp?: string;
  /** The service's clock when it answered, in milliseconds since 1970; absent if unknown. */
  readonly servedAtMs?: number;
  readonly properties: Properties;
}

export interface ReadOptions {
  /** The keys and the ETag are always returned. */
  readonly select?: readonly string[];
}

export interface TableQuery extends ReadOptions {
  readonly filter?: Filter;
  readonly top?: number;
  readonly continuation?: Continuation;
}

/** Where the next page begins: opaque, and valid even if no entity has these keys. */
export interface Continuation {
  readonly partitionKey: string;
  readonly rowKey?: string;
}

export interface Page {
  readonly entities: readonly StoredEntity[];
  readonly continuation?: Continuation;
  /** How many entities the service read to find them; absent if it does not say. */
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

/** How long a write is of use. */
export interface Deadline {
  /** The service refuses the request instead of executing it later than this. */
  readonly timeoutS?: number;
  /** By the client's clock: later than this the request is neither sent nor retried. */
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
