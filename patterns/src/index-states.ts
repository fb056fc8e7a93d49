import type { Database } from "./database.ts";
import { tableError, validationFailed } from "./errors.ts";
import { definitionHash } from "./model/definition-hash.ts";
import type { AnyEntity } from "./model/entity.ts";
import type { IndexStates } from "./model/entity-index.ts";
import type { Continuation, EntityKey } from "./ports/tables.ts";
import { type JsonRow, jsonRow, type Known } from "./store/json-row.ts";

/**
 * `disabled` (nobody maintains it) → `writeonly` (writers do, readers may not) → built → `readable`, or
 * `readable-dups` when values that should be unique are not → `retiring` (readers may not) → `disabled`.
 */
export type IndexState = "disabled" | "writeonly" | "readable" | "readable-dups" | "retiring";

export const CONTROL_TABLE = "rhcontrol";
const PARTITION = "index";
/** Writers use a state for this long before they read it again. */
const LEASE_MS = 30_000;
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
}

export interface BuildProgress {
  readonly cursor?: Continuation;
  readonly done: number;
  /** Bases whose value belongs to another. */
  readonly duplicates: readonly string[];
}

/** For `connect({ indexStates: controlledIndexes() })`, in every process that writes or reads. */
export function controlledIndexes(): (database: Database) => IndexStates {
  return (database) => new ControlledIndexes(database);
}

class ControlledIndexes implements IndexStates {
  readonly #database: Database;
  readonly #known = new Map<string, { readonly state: IndexState; readonly readAtMs: number }>();

  constructor(database: Database) {
    this.#database = database;
  }

  async assertReadable(entity: AnyEntity, name: string): Promise<void> {
    const { state } = await this.#stateOf(entity, name);
    if (state.startsWith("readable")) return;
    const index = `${entity.name}.${name}`;
    throw tableError("index-not-readable", `${index} is ${state}.`, { index, state });
  }

  guard(...[entity, name, follower]: Parameters<IndexStates["guard"]>) {
    return {
      ...follower,
      prepare: async (change: Parameters<typeof follower.prepare>[0]) => {
        const { state, readAtMs } = await this.#stateOf(entity, name);
        if (state === "disabled") return { commitByMs: readAtMs + EVERYBODY_MS };
        const contribution = await follower.prepare(change);
        const { commitByMs = Number.POSITIVE_INFINITY } = contribution;
        return { ...contribution, commitByMs: Math.min(commitByMs, readAtMs + EVERYBODY_MS) };
      },
    };
  }

  async #stateOf(entity: AnyEntity, name: string) {
    const id = controlKey(entity, name).rowKey;
    const known = this.#known.get(id);
    const now = this.#database.clock.now();
    if (known && now - known.readAtMs < LEASE_MS) return known;
    const { state } = (await readControl(this.#database, entity, name)).control;
    const fresh = { state, readAtMs: now };
    this.#known.set(id, fresh);
    return fresh;
  }
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
