import type { Database } from "./database.ts";
import { tableError } from "./errors.ts";
import {
  controlKey,
  EVERYBODY_MS,
  type IndexState,
  LEASE_MS,
  readControl,
} from "./indexes/control.ts";
import type { AnyEntity } from "./model/entity.ts";
import type { IndexStates } from "./model/entity-index.ts";

export type { BuildProgress, IndexState } from "./indexes/control.ts";

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
