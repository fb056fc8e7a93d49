import type { KeyDeclaration } from "../keys/key.ts";
import { KeyShape } from "../keys/key-shape.ts";
import type { Properties } from "../ports/edm.ts";
import type { Continuation, EntityKey, Mutation, StoredEntity } from "../ports/tables.ts";
import type { Session } from "../store/session.ts";
import type { EntityRows, Row, Unknown } from "./entity-rows.ts";
import type { EntryOptions, Place } from "./entry-options.ts";

/** A definition without its types. */
export interface AnyEntity {
  readonly name: string;
  readonly table: string;
  readonly rows: EntityRows;
  readonly indexes: Readonly<Record<string, Index>>;
  readonly followers: Readonly<Record<string, Follower>>;
}

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
  readonly queues?: readonly string[];
  readonly containers?: readonly string[];
  follow(context: FollowerContext): OpenFollower;
}

export interface FollowerContext {
  readonly session: Session;
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

/**
 * What the compiler knows about an index. A kind is an interface whose `api` is written in terms of
 * `this["entity"]` and `this["partition"]`, which the entity fills in, so new kinds need no change to the core.
 */
export interface IndexKind {
  /** The fields of the entity. */
  readonly entity: unknown;
  /** The declaration of the entity's partition key. */
  readonly partition: unknown;
  /** The names of the fields that its keys need. */
  readonly fields: string;
  /** The API under `repository.by.<name>`. */
  readonly api: unknown;
}

/** Where entries are stored. Default: in the table and the partitions of their entities. */
export interface PlaceDeclaration {
  readonly table?: string;
  readonly partition?: KeyDeclaration;
  readonly row: KeyDeclaration;
}

/** A follower that can be queried under its name. */
export abstract class Index<Kind extends IndexKind = IndexKind> implements Follower {
  /** For the compiler only. */
  declare readonly kind: Kind;

  readonly tables: readonly string[];
  readonly queues?: readonly string[];
  readonly containers?: readonly string[];
  /** Whether the server keeps its entries and its table, so that it is only read here and has no state. */
  readonly isKeptByServer: boolean = false;
  /** The options as declared. */
  readonly options: EntryOptions;
  /** The parts of the place that differ from the entity's own. */
  readonly #place: Pick<Place, "row"> & Partial<Place>;

  constructor(options: EntryOptions, { table, partition, row }: PlaceDeclaration) {
    this.options = options;
    this.tables = table === undefined ? [] : [table];
    this.#place = {
      row: new KeyShape(row),
      ...(table && { table }),
      ...(partition && { partition: new KeyShape(partition) }),
    };
  }

  /** Where its entries are stored. */
  place({ table, rows }: AnyEntity): Place {
    return { table, partition: rows.partition, ...this.#place };
  }

  abstract problems(entity: AnyEntity, name: string): string[];
  abstract follow(context: FollowerContext): OpenIndex;
}

export interface OpenIndex extends OpenFollower {
  readonly api: unknown;
  readonly keeper?: EntryKeeper | ListKeeper;
}

/** What it takes to build and repair an index. */
export interface Keeper {
  /** Only the scrub removes what writers left behind. */
  readonly isLeftToScrub?: boolean;
  /** The keys of an entity's entries, each once. */
  keysOf(entity: Row): readonly EntityKey[];
  /**
   * Corrects the entries of one base, including those at `hints`. Safe alongside any writer. Entries that carry
   * the token of the base's last write are assumed to be correct, unless `rewrites` is set.
   */
  reconcile(base: EntityKey, hints: readonly EntityKey[], rewrites?: boolean): Promise<Reconciled>;
}

/** What it takes to check an index whose entries are rows. */
export interface EntryKeeper extends Keeper {
  /** The table that holds the entries. */
  readonly table: string;
  /** The prefix of its entries' type property. */
  readonly tag: string;
  /** The key of an entry's base; undefined for a row that is not an entry of this index. */
  baseOf(entry: StoredEntity): EntityKey | undefined;
  /** The properties that each entry of this entity has in the end. */
  contentOf(base: Snapshot): Properties;
}

/** What it takes to check an index whose entries are lists. */
export interface ListKeeper extends Keeper {
  /** Reads one list and returns a test for whether an entity is in it. */
  membersOf(list: EntityKey): Promise<(base: EntityKey) => boolean>;
  /** All lists, from the continuation of an earlier call. A list may come in several pieces. */
  lists(from?: Continuation): AsyncIterable<Listed>;
  /** Deletes all lists. Calls `keep` before each. */
  drop(keep: () => Promise<void>): Promise<void>;
}

export interface Listed {
  readonly list: EntityKey;
  readonly members: readonly EntityKey[];
  /** Where a later call resumes after this list, if it can. */
  readonly continuation?: Continuation;
}

export function keepsRows(keeper: EntryKeeper | ListKeeper | undefined): keeper is EntryKeeper {
  return keeper !== undefined && "table" in keeper;
}

/** Undefined for an index without entries of its own. */
export function keeperIn(
  session: Session,
  entity: AnyEntity,
  name: string,
): EntryKeeper | ListKeeper | undefined {
  return entity.indexes[name]?.follow({ session, entity, name }).keeper;
}

/**
 * `later`: repeat the repair, because a surplus entry has not settled yet or other clients were faster.
 * `duplicate`: another entity holds the value.
 */
export type Reconciled = "done" | "later" | "duplicate";

export type Indexes = Readonly<Record<string, Index>>;

/** Resolves to unknown for indexes over fields that the entity has, or whose fields the compiler does not know. */
export type CheckedIndexes<I extends Indexes, T> =
  FieldsIn<I> extends keyof T
    ? unknown
    : string extends FieldsIn<I>
      ? unknown
      : {
          readonly ERROR: "A field of an index is not declared";
          readonly undeclared: Exclude<FieldsIn<I>, keyof T>;
        };

type FieldsIn<I extends Indexes> = I[keyof I]["kind"]["fields"];

export type IndexApi<I, T, P> =
  I extends Index<infer Kind>
    ? (Kind & { readonly entity: T; readonly partition: P })["api"]
    : never;
