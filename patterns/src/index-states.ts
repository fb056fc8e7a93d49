import type { Database } from "./database.ts";
import { isTableError, tableError, validationFailed } from "./errors.ts";
import {
  controlKey,
  EVERYBODY_MS,
  IndexControl,
  type IndexState,
  keeperIn,
  LEASE_MS,
  readControl,
} from "./indexes/control.ts";
import type { AnyEntity } from "./model/entity.ts";
import type { IndexStates } from "./model/entity-index.ts";

export type { BuildProgress, IndexState } from "./indexes/control.ts";

export interface ControlOptions {
  /**
   * What an index is that nobody registered: `readable`, otherwise, for it was there from the start; `refused`,
   * so that code comes after the registration, never before; or `disabled`, registered so for a build to follow.
   */
  readonly unregistered?: "readable" | "refused" | "disabled";
}

/** For `connect({ indexStates: controlledIndexes() })`, in every process that writes or reads. */
export function controlledIndexes(
  options: ControlOptions = {},
): (database: Database) => IndexStates {
  return (database) => new ControlledIndexes(database, options);
}

class ControlledIndexes implements IndexStates {
  readonly #database: Database;
  readonly #unregistered: ControlOptions["unregistered"];
  readonly #known = new Map<string, { readonly state: IndexState; readonly readAtMs: number }>();

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
    const fresh = { state: await this.#read(entity, name), readAtMs: now };
    this.#known.set(id, fresh);
    return fresh;
  }

  async #read(entity: AnyEntity, name: string): Promise<IndexState> {
    const { control, row } = await readControl(this.#database, entity, name);
    const how = this.#unregistered ?? "readable";
    if (row || how === "readable" || !keeperIn(this.#database, entity, name)) return control.state;
    const index = new IndexControl(this.#database, entity, name);
    if (how === "refused") {
      throw validationFailed(
        `${index}`,
        "definition",
        "is registered nowhere: disable and build it",
      );
    }
    try {
      await index.register();
    } catch (error) {
      if (!isTableError(error, "conflict")) throw error;
    }
    return (await index.read()).control.state;
  }
}
