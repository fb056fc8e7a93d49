import { deleteRows } from "./bulk-delete.ts";
import {
  assertFree,
  type BuildProgress,
  type IndexState,
  type ManagedIndex,
  managedIndex,
  OWNER_MS,
  PROPAGATION_MS,
  register,
  stateRefused,
} from "./indexes/control.ts";
import { type BuildOptions, IndexBuild } from "./indexes/index-build.ts";
import { entriesOf } from "./model/entry.ts";
import type { AnyEntity } from "./model/follower.ts";
import { type EntryKeeper, keepsRows } from "./model/follower.ts";
import { unlessRefused } from "./ports/port-error.ts";
import { pagesOf, pagesWhere } from "./query/pages.ts";
import type { ByMs } from "./store/layer.ts";
import type { Session } from "./store/session.ts";

export { type BuildProgress, CONTROL_TABLE, PROPAGATION_MS } from "./indexes/control.ts";

export type { BuildOptions, Progress } from "./indexes/index-build.ts";

/** Opens an index for its operator. @throws validation-failed when it has no entries of its own. */
export function indexLifeCycle(session: Session, entity: AnyEntity, name: string): IndexLifeCycle {
  return new IndexLifeCycle(managedIndex(session, entity, name));
}

export class IndexLifeCycle {
  readonly #index: ManagedIndex;

  constructor(index: ManagedIndex) {
    this.#index = index;
  }

  /**
   * The state that all clients will have seen within 50 s. 1 R.
   * @throws validation-failed when another definition has the name.
   */
  async state(): Promise<IndexState> {
    return (await this.#index.control.read()).control.state;
  }

  /** Whether the index is registered. One that is not is checked when it is used. */
  async isRegistered(): Promise<boolean> {
    return (await this.#index.control.find()).row !== undefined;
  }

  /**
   * Registers an index that is not built yet. Do this before you deploy any code that declares it. If another
   * definition had its name, readers can no longer use that one.
   */
  async disable(): Promise<void> {
    await register(this.#index.session, this.#index.control);
  }

  /**
   * Writes the entries of all existing entities, while writers continue to work. May be stopped at any time and
   * started again: it continues after the last recorded page. Processes that call it at the same time share the
   * work, if it is cut into shards, and all return when it is complete.
   */
  async build(options: BuildOptions = {}): Promise<BuildProgress> {
    return new IndexBuild(this.#index, options).run();
  }

  /** Takes the index from readers, then from writers, then deletes its entries. It cannot be built meanwhile. */
  async retire({ signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    if (signal) return this.#until(signal).retire();
    const { session, control } = this.#index;
    const { clock } = session;
    let { control: found, row } = await control.read();
    if (found.state === "writeonly") throw stateRefused(control, found.state, "retired");
    assertFree(this.#index, found);
    // Like a build, it has an owner until it is done.
    const owner = session.writeToken();
    let ownedUntilMs = 0;
    const move = async (state: IndexState) => {
      ownedUntilMs = clock.now() + OWNER_MS;
      row = await control.write({ state, owner, ownedUntilMs }, row);
    };
    if (found.state !== "disabled") {
      await move("retiring");
      await clock.sleep(PROPAGATION_MS);
    }
    await move("disabled");
    await clock.sleep(PROPAGATION_MS);
    const keep = async () => {
      if (ownedUntilMs - clock.now() <= OWNER_MS / 2) await move("disabled");
    };
    await this.#drop(keep, async () => {
      await keep();
      return ownedUntilMs;
    });
    await control.write({ state: "disabled" }, row);
  }

  /** Deletes the entries. Calls `keep` repeatedly, so that the index remains ours. */
  async #drop(keep: () => Promise<void>, oursUntilMs: ByMs): Promise<void> {
    const { session, entity, keeper } = this.#index;
    if (!keepsRows(keeper)) return keeper.drop(keep);
    const { table, tag } = keeper;
    // A missing table was dropped by an earlier attempt.
    const isOwn = !this.#othersIn(table) && (await unlessRefused(this.#isAlone(keeper, keep), 404));
    if (isOwn !== false) {
      // Not retried once another process may have rebuilt the index.
      await session.inTime(oursUntilMs).tables.deleteTable(table);
      return;
    }
    const filter = entriesOf(entity.rows.typeProperty, tag);
    for await (const { entities } of pagesWhere(session, table, { filter })) {
      await deleteRows(session, table, entities, keep);
    }
  }

  #until(signal: AbortSignal): IndexLifeCycle {
    const { session, entity, name } = this.#index;
    return indexLifeCycle(session.until(signal), entity, name);
  }

  /** Whether the table is declared for the entities, or for another of their indexes. */
  #othersIn(table: string): boolean {
    const { entity, name } = this.#index;
    const { [name]: _ours, ...others } = entity.indexes;
    return [entity, ...Object.values(others).map((one) => one.place(entity))].some(
      (place) => place.table === table,
    );
  }

  /**
   * Whether the table holds entries of this index only. Other entities and their indexes may use it as well,
   * and nothing here declares them.
   */
  async #isAlone({ table, tag }: EntryKeeper, keep: () => Promise<void>): Promise<boolean> {
    const { session, entity } = this.#index;
    const { typeProperty } = entity.rows;
    for await (const { entities } of pagesOf(session, table, {}, [typeProperty])) {
      await keep();
      const isAlone = entities.every(({ properties }) =>
        String(properties[typeProperty]?.value).startsWith(tag),
      );
      if (!isAlone) return false;
    }
    return true;
  }
}
