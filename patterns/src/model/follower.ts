import type { Database } from "../database.ts";
import type { EntityKey, Mutation, StoredEntity } from "../ports/tables.ts";
import type { AnyEntity } from "./entity.ts";
import type { Row, Unknown } from "./entity-rows.ts";

/**
 * Something that must change when an entity changes: an index, a copy, an outbox.
 *
 * A write goes `read base → prepare → commit → committed`. What `prepare` contributes is committed with
 * the base, all or none; what cannot share its partition is done in `prepare` (before) and `committed`
 * (after). When the commit loses a race, everything starts again from the read, so `prepare` may run
 * without a `committed` to follow: whatever it leaves behind must be harmless.
 */
export interface Follower {
  /** Why this cannot follow `entity` under `name`; one sentence each. */
  problems(entity: AnyEntity, name: string): string[];
  /** The tables it needs besides the entity's own. */
  readonly tables: readonly string[];
  follow(context: FollowerContext): OpenFollower;
}

export interface FollowerContext {
  readonly database: Database;
  readonly entity: AnyEntity;
  /** What it is declared as. */
  readonly name: string;
  /** Rejects while the index may not be read; see the life cycle of indexes. */
  readonly readable?: () => Promise<void>;
}

export interface OpenFollower {
  /** It sends requests of its own beside the commit, so it does not follow writes of many at once. */
  readonly reachesOut?: boolean;
  prepare(change: Change): Contribution | Promise<Contribution>;
}

/** One entity before and after a write: both for an update, one for an insert or a delete. */
export interface Change {
  readonly key: EntityKey;
  readonly before?: Snapshot | undefined;
  readonly after?: Row | undefined;
  /** What else the row holds after the write; nothing where that leaves only what is known. */
  readonly unknown?: Unknown | undefined;
  /** The write token that base and contributed rows carry. */
  readonly token: string;
  /** The index is being built, or its values are not unique: entries may be missing, or stand for another entity. */
  readonly isPartial?: boolean;
  /** Lets followers of one kind share work for this change, by a key of their own. */
  readonly shared: Map<unknown, unknown>;
}

export interface Snapshot {
  readonly row: Row;
  readonly stored: StoredEntity;
}

export interface Contribution {
  /** In the base's table and partition. */
  readonly mutations?: readonly Mutation[];
  /**
   * Explains why the service refused one of `mutations`: an error for the caller, or "retry" to start
   * over from the read; nothing to pass the refusal on. An unconditional delete of a row that is gone is
   * left out without asking.
   */
  readonly explain?: (mutation: Mutation) => Promise<Error | "retry" | undefined>;
  /** The commit must not be sent later than this, by the database's clock. */
  readonly commitByMs?: number | undefined;
  /** After the commit, with the base's new ETag (undefined after a delete). */
  readonly committed?: (etag: string | undefined) => Promise<void>;
}
