import { checkUnregistered } from "./entities/checked-indexes.ts";
import { isTableError, validationFailed } from "./errors.ts";
import { IndexControl, type IndexState, LEASE_MS, register, WRITE_MS } from "./indexes/control.ts";
import { isFresh } from "./store/clock.ts";
import type { DeclaredIndex, IndexStates, Session, UsableState } from "./store/session.ts";

export type { BuildProgress, IndexState } from "./indexes/control.ts";

export interface ControlOptions {
  /**
   * The state of an index that is not registered. `checked` (default): it is registered as readable if it has no
   * entities yet, otherwise refused. `readable`: it existed from the start. `refused`: it cannot be used, so code
   * is deployed after the registration, never before. `disabled`: it is registered as disabled, for a build to
   * follow.
   */
  readonly unregistered?: "checked" | "readable" | "refused" | "disabled";
}

/** For `connect({ indexStates: controlledIndexes() })`, in every process that writes or reads. */
export function controlledIndexes(options: ControlOptions = {}): (session: Session) => IndexStates {
  return (session) => new ControlledIndexes(session, options);
}

interface KnownState {
  readonly state: IndexState;
  readonly readAtMs: number;
}

class ControlledIndexes implements IndexStates {
  readonly #session: Session;
  readonly #unregistered: ControlOptions["unregistered"];
  readonly #known = new Map<string, KnownState>();

  constructor(session: Session, { unregistered }: ControlOptions) {
    this.#session = session;
    this.#unregistered = unregistered;
  }

  async stateOf(index: DeclaredIndex): Promise<UsableState> {
    const { clock } = this.#session;
    for (let last = this.#known.get(index.key); ; ) {
      if (last && isFresh(clock, last.readAtMs, LEASE_MS)) {
        return { state: last.state, commitByMs: last.readAtMs + WRITE_MS };
      }
      const readAtMs = clock.now();
      last = { state: await this.#read(index), readAtMs };
      this.#known.set(index.key, last);
    }
  }

  async #read(declared: DeclaredIndex): Promise<IndexState> {
    const index = new IndexControl(this.#session, declared);
    const how = this.#unregistered ?? "checked";
    const found = await index.find();
    if (found.row || how === "readable") {
      return (await index.read(found)).control.state;
    }
    if (how === "checked") {
      if (found.others.length === 0) await checkUnregistered(this.#session, declared);
      return (await index.read()).control.state;
    }
    if (how === "refused") {
      throw validationFailed(`${index}`, "definition", "is not registered: disable and build it");
    }
    try {
      await register(this.#session, index);
    } catch (error) {
      if (!isTableError(error, "conflict")) throw error;
    }
    return (await index.read()).control.state;
  }
}
