import type { Database } from "../database.ts";
import { tableError, validationFailed } from "../errors.ts";
import { definitionHash } from "../model/definition-hash.ts";
import type { AnyEntity } from "../model/entity.ts";
import { type EntryKeeper, keepsRows, type ListKeeper } from "../model/entity-index.ts";
import { text } from "../ports/edm.ts";
import type { Continuation, EntityKey } from "../ports/tables.ts";
import { type JsonRow, jsonRow, type Known } from "../store/json-row.ts";
import { LOOKUPS_AT_ONCE } from "../store/limit.ts";

/**
 * `disabled` (nobody maintains it) → `writeonly` (writers do, readers may not) → built → `readable`, or
 * `readable-dups` when values that should be unique are not → `retiring` (readers may not) → `disabled`.
 */
export type IndexState = "disabled" | "writeonly" | "readable" | "readable-dups" | "retiring";

export const CONTROL_TABLE = "rhcontrol";
const PARTITION = "index";
/** Writers use a state for this long before they read it again. */
export const LEASE_MS = 30_000;
/** And commit within this time of preparing. */
const COMMIT_MS = 20_000;
/** What all writers have seen after a move. */
export const EVERYBODY_MS = LEASE_MS + COMMIT_MS;

export interface Control {
  readonly state: IndexState;
  /** The hash of the definition that was registered. */
  readonly definition?: string;
  readonly owner?: string;
  readonly ownedUntilMs?: number;
  readonly build?: BuildProgress;
  /** A build in shards; without `count` while they are cut. */
  readonly shards?: { readonly plan: string; readonly count?: number };
}

/** How far a build got: of an index, or of one shard. */
export interface BuildProgress {
  readonly cursor?: Continuation;
  readonly done: number;
  /** Bases whose value belongs to another; the first thousand, or fewer that fit. */
  readonly duplicates: readonly string[];
}

export function controlKey(entity: AnyEntity, name: string): EntityKey {
  return { partitionKey: PARTITION, rowKey: `${entity.table}.${entity.name}.${name}` };
}

export function controlRow(database: Database, entity: AnyEntity, name: string): JsonRow<Control> {
  return jsonRow(database, CONTROL_TABLE, controlKey(entity, name), "control");
}

export interface KnownControl {
  readonly control: Control;
  /** Undefined for an index nobody registered, which is one that was there from the start: readable. */
  readonly row: Known<Control> | undefined;
}

export async function readControl(
  database: Database,
  entity: AnyEntity,
  name: string,
): Promise<KnownControl> {
  const row = await controlRow(database, entity, name).read();
  const hash = definitionHash(entity, name);
  if (row && (row.value.definition ?? hash) !== hash) {
    const message = "is not the one that was registered; declare it under a new name";
    throw validationFailed(`${entity.name}.${name}`, "definition", message);
  }
  return { control: row?.value ?? { state: "readable" }, row };
}

/** Entities side by side would get into each other's way in a list. */
export function widthOf(keeper: EntryKeeper | ListKeeper): number {
  return keepsRows(keeper) ? LOOKUPS_AT_ONCE : 1;
}

/** Undefined for an index that has no entries of its own. */
export function keeperIn(
  database: Database,
  entity: AnyEntity,
  name: string,
): EntryKeeper | ListKeeper | undefined {
  return entity.indexes[name]?.follow({ database, entity, name }).keeper;
}

/** What maintains the index. @throws validation-failed when it has no entries of its own. */
export function keeperOf(
  database: Database,
  entity: AnyEntity,
  name: string,
): EntryKeeper | ListKeeper {
  const keeper = keeperIn(database, entity, name);
  if (!keeper) throw validationFailed(entity.name, name, "is no index that can be built");
  return keeper;
}

/** How long the work is its owner's after the last word from it. */
export const OWNER_MS = 60_000;

/** The control row, for those who move it. */
export class IndexControl {
  readonly #database: Database;
  readonly #entity: AnyEntity;
  readonly #name: string;

  constructor(database: Database, entity: AnyEntity, name: string) {
    this.#database = database;
    this.#entity = entity;
    this.#name = name;
  }

  read(): Promise<KnownControl> {
    return readControl(this.#database, this.#entity, this.#name);
  }

  /** As disabled. @throws conflict when somebody did it before. */
  async register(): Promise<void> {
    await this.#database.tables.createTable(CONTROL_TABLE);
    await this.write({ state: "disabled" }, undefined);
  }

  /** @throws conflict when somebody else moved the index. */
  async write(control: Control, before: KnownControl["row"]): Promise<KnownControl["row"]> {
    const definition = definitionHash(this.#entity, this.#name);
    const row = controlRow(this.#database, this.#entity, this.#name);
    const beside = { state: text(control.state) };
    const written = await row.write({ ...control, definition }, before, beside);
    if (written) return written;
    const key = controlKey(this.#entity, this.#name).rowKey;
    throw tableError("conflict", `${this}: somebody else moved the index.`, { key });
  }

  refusal(state: IndexState, verb: string): Error {
    return validationFailed(`${this}`, "state", `is ${state}: it cannot ${verb} now`);
  }

  toString(): string {
    return `${this.#entity.name}.${this.#name}`;
  }
}
