import type { Database } from "../database.ts";
import type { EntityKey, Mutation, StoredEntity } from "../ports/tables.ts";
import type { AnyEntity } from "./entity.ts";
import type { Row, Unknown } from "./entity-rows.ts";

/**
 * Something that must change when an entity changes: an index, a copy, an outbox.
 *
 * A write goes `read base → prepare → commit → committed`. What `prepare` contributes is committed with the
 * base, all or nothing. Work outside the base's partition happens in `prepare` (before the commit) and
 * `committed` (after it). When the commit loses a race, the write starts over from the read, so `prepare` may
 * run without a following `committed`: whatever it leaves behind must be harmless.
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
  /** The name it is declared under. */
  readonly name: string;
  /** Rejects while the index must not be read; see the life cycle of indexes. */
  readonly readable?: () => Promise<void>;
}

export interface OpenFollower {
  /** Sends requests of its own besides the commit, and therefore cannot follow the writes of a batch. */
  readonly reachesOut?: boolean;
  prepare(change: Change): Contribution | Promise<Contribution>;
}

/** An entity before and after a write: both for an update, one for an insert or a delete. */
export interface Change {
  readonly key: EntityKey;
  readonly before?: Snapshot | undefined;
  readonly after?: Row | undefined;
  /** Properties of the row after the write that this definition does not know; undefined if none remain. */
  readonly unknown?: Unknown | undefined;
  /** The write token that the base and the contributed rows carry. */
  readonly token: string;
  /** The index is being built or has duplicate values: entries may be missing, or belong to another entity. */
  readonly isPartial?: boolean;
  /** Lets followers of one kind share work for this change, under keys of their own. */
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
   * Explains why the service refused one of `mutations`: an error for the caller, "retry" to start over from
   * the read, or undefined to pass the refusal on. Not called for an unconditional delete of a missing row,
   * which is dropped from the commit.
   */
  readonly explain?: (mutation: Mutation) => Promise<Error | "retry" | undefined>;
  /** The latest time at which the commit may be sent, by the database's clock. */
  readonly commitByMs?: number | undefined;
  /** Runs after the commit, with the base's new ETag (undefined after a delete). */
  readonly committed?: (etag: string | undefined) => Promise<void>;
}
