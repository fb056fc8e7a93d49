import type { KeyDeclaration } from "../keys/key.ts";
import { KeyShape } from "../keys/key-shape.ts";
import type { Properties } from "../ports/edm.ts";
import type { Continuation, EntityKey, StoredEntity } from "../ports/tables.ts";
import type { AnyEntity } from "./entity.ts";
import type { Row } from "./entity-rows.ts";
import type { EntryOptions, Place } from "./entry.ts";
import type { Follower, FollowerContext, OpenFollower, Snapshot } from "./follower.ts";

/**
 * What the compiler knows of an index. A kind is an interface whose `api` is written in terms of
 * `this["entity"]` and `this["partition"]`, which the entity fills in; so an index kind can be added
 * without touching the core.
 */
export interface IndexKind {
  /** The fields of the entity. */
  readonly entity: unknown;
  /** The declaration of the entity's partition key. */
  readonly partition: unknown;
  /** What stands under `repository.by.<name>`. */
  readonly api: unknown;
}

/** Where entries stand. Default: in the table and the partitions of the entities. */
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
  /** As it was declared. */
  readonly options: EntryOptions;
  /** As far as it is not the entities' own. */
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

  /** Where its entries stand, so that keys of two indexes never meet. */
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

/** What it takes to build and mend an index from outside. */
export interface Keeper {
  /** Nobody but the scrub removes what writers could not. */
  readonly isLeftToScrub?: boolean;
  /** Where the entries of an entity stand, each once. */
  keysOf(entity: Row): readonly EntityKey[];
  /**
   * Makes the entries of one base right, those at `hints` included. Safe beside any writer. Entries that carry the
   * token of the base's last write are taken for right, unless it `rewrites` all.
   */
  reconcile(base: EntityKey, hints: readonly EntityKey[], rewrites?: boolean): Promise<Reconciled>;
}

/** And to check one whose entries are rows. */
export interface EntryKeeper extends Keeper {
  /** Where the entries are. */
  readonly table: string;
  /** What the type property of its entries begins with. */
  readonly tag: string;
  /** Undefined for a row that is no entry of this index. */
  baseOf(entry: StoredEntity): EntityKey | undefined;
  /** What each entry of this entity says when all is done. */
  contentOf(base: Snapshot): Properties;
}

/** And to check one whose entries are lists. */
export interface ListKeeper extends Keeper {
  /** Reads one list, and tells of any number of entities whether they are in it. */
  membersOf(list: EntityKey): Promise<(base: EntityKey) => boolean>;
  /** Everything that is listed, from where an earlier call got to; a list may come in pieces. */
  lists(from?: Continuation): AsyncIterable<Listed>;
  /** Deletes all lists; calls `keep` before each. */
  drop(keep: () => Promise<void>): Promise<void>;
}

export interface Listed {
  readonly list: EntityKey;
  readonly members: readonly EntityKey[];
  /** With what a later call goes on after this, where one can. */
  readonly continuation?: Continuation;
}

export function keepsRows(keeper: EntryKeeper | ListKeeper | undefined): keeper is EntryKeeper {
  return keeper !== undefined && "table" in keeper;
}

/** Undefined for an index that has no entries of its own. */
export function keeperIn(
  database: FollowerContext["database"],
  entity: AnyEntity,
  name: string,
): EntryKeeper | ListKeeper | undefined {
  return entity.indexes[name]?.follow({ database, entity, name }).keeper;
}

/**
 * `unsettled`: an entry too many is too young to be deleted; come back later. `duplicate`: another
 * entity holds the value.
 */
export type Reconciled = "done" | "unsettled" | "duplicate";

export type Indexes = Readonly<Record<string, Index>>;

export type IndexApi<I, T, P> =
  I extends Index<infer Kind>
    ? (Kind & { readonly entity: T; readonly partition: P })["api"]
    : never;

/** Decides who may use which index now; see the life cycle of indexes. */
export interface IndexStates {
  /** @throws index-not-readable. */
  assertReadable(entity: AnyEntity, name: string): Promise<void>;
  /** Until when its entries may be written by what is known of it, in milliseconds since 1970; 0 while it is disabled. */
  keptUntilMs(entity: AnyEntity, name: string): Promise<number>;
  /** The follower, or one that does nothing while the index is disabled. */
  guard(entity: AnyEntity, name: string, follower: OpenFollower): OpenFollower;
}
