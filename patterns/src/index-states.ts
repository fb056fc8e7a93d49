import type { Database } from "./database.ts";
import { isTableError, tableError, validationFailed } from "./errors.ts";
import { IndexControl, type IndexState, LEASE_MS, register, WRITE_MS } from "./indexes/control.ts";
import type { AnyEntity } from "./model/entity.ts";
import { type IndexStates, keeperIn } from "./model/entity-index.ts";
import type { EntityRows } from "./model/entity-rows.ts";
import { isFresh } from "./store/clock.ts";

export type { BuildProgress, IndexState } from "./indexes/control.ts";

export interface ControlOptions {
  /**
   * The state of an index that is not registered. `readable` (default): it existed from the start. `refused`:
   * it cannot be used, so code is deployed after the registration, never before. `disabled`: it is registered
   * as disabled, for a build to follow.
   */
  readonly unregistered?: "readable" | "refused" | "disabled";
}

/** For `connect({ indexStates: controlledIndexes() })`, in every process that writes or reads. */
export function controlledIndexes(
  options: ControlOptions = {},
): (database: Database) => IndexStates {
  return (database) => new ControlledIndexes(database, options);
}

interface KnownState {
  readonly state: IndexState;
  readonly readAtMs: number;
}

class ControlledIndexes implements IndexStates {
  readonly #database: Database;
  readonly #unregistered: ControlOptions["unregistered"];
  /** For each declaration, by table and index. */
  readonly #known = new WeakMap<EntityRows, Map<string, KnownState>>();

  constructor(database: Database, { unregistered }: ControlOptions) {
    this.#database = database;
    this.#unregistered = unregistered;
  }

  async assertReadable(entity: AnyEntity, name: string): Promise<void> {
    const { state } = await this.#stateOf(entity, name);
    if (state.startsWith("readable")) return;
    const index = `${entity.name}.${name}`;
    const remedy = "build the index first.";
    throw tableError("index-not-readable", `${index} is ${state}.`, { index, state }, { remedy });
  }

  async keptUntilMs(entity: AnyEntity, name: string): Promise<number> {
    const { state, readAtMs } = await this.#stateOf(entity, name);
    return state === "disabled" ? 0 : readAtMs + WRITE_MS;
  }

  guard(...[entity, name, follower]: Parameters<IndexStates["guard"]>) {
    return {
      ...follower,
      prepare: async (change: Parameters<typeof follower.prepare>[0]) => {
        const { state, readAtMs } = await this.#stateOf(entity, name);
        if (state === "disabled") return { commitByMs: readAtMs + WRITE_MS };
        const contribution = await follower.prepare({
          ...change,
          isPartial: state !== "readable",
        });
        const { commitByMs = Number.POSITIVE_INFINITY } = contribution;
        return { ...contribution, commitByMs: Math.min(commitByMs, readAtMs + WRITE_MS) };
      },
    };
  }

  async #stateOf(entity: AnyEntity, name: string): Promise<KnownState> {
    const known = this.#known.get(entity.rows) ?? new Map<string, KnownState>();
    this.#known.set(entity.rows, known);
    const id = `${entity.table}.${name}`;
    const { clock } = this.#database;
    for (let last = known.get(id); ; ) {
      if (last && isFresh(clock, last.readAtMs, LEASE_MS)) return last;
      const readAtMs = clock.now();
      last = { state: await this.#read(entity, name), readAtMs };
      known.set(id, last);
    }
  }

  async #read(entity: AnyEntity, name: string): Promise<IndexState> {
    const index = new IndexControl(this.#database, entity, name);
    const how = this.#unregistered ?? "readable";
    const found = await index.find();
    if (found.row || how === "readable" || !keeperIn(this.#database, entity, name)) {
      return (await index.read(found)).control.state;
    }
    if (how === "refused") {
      throw validationFailed(`${index}`, "definition", "is not registered: disable and build it");
    }
    try {
      await register(this.#database, index);
    } catch (error) {
      if (!isTableError(error, "conflict")) throw error;
    }
    return (await index.read()).control.state;
  }
}
