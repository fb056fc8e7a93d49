import { deleteRows } from "./bulk-delete.ts";
import type { Database } from "./database.ts";
import { validationFailed } from "./errors.ts";
import { buildRange, Pace, RATE } from "./indexes/build-range.ts";
import {
  type BuildProgress,
  type Control,
  EVERYBODY_MS,
  IndexControl,
  type IndexState,
  keeperOf,
  NOTHING,
  OWNER_MS,
  register,
} from "./indexes/control.ts";
import type { AnyEntity } from "./model/entity.ts";
import { type EntryKeeper, keepsRows, type ListKeeper } from "./model/entity-index.ts";
import { entriesOf } from "./model/entry.ts";
import { pagesWhere } from "./query/pages.ts";

export interface BuildOptions {
  /** Entities a second at most, and fewer while the service pushes back. Default: 200. */
  readonly rate?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: BuildProgress) => void;
}

/** Opens the operator's view of an index. @throws validation-failed when it has no entries of its own. */
export function indexLifeCycle(
  database: Database,
  entity: AnyEntity,
  name: string,
): IndexLifeCycle {
  return new IndexLifeCycle(database, entity, name, keeperOf(database, entity, name));
}

export class IndexLifeCycle {
  readonly #database: Database;
  readonly #entity: AnyEntity;
  readonly #name: string;
  readonly #keeper: EntryKeeper | ListKeeper;
  readonly #control: IndexControl;

  constructor(
    database: Database,
    entity: AnyEntity,
    name: string,
    keeper: EntryKeeper | ListKeeper,
  ) {
    this.#database = database;
    this.#entity = entity;
    this.#name = name;
    this.#keeper = keeper;
    this.#control = new IndexControl(database, entity, name);
  }

  async state(): Promise<IndexState> {
    return (await this.#control.read()).control.state;
  }

  /** False for an index that is taken for built because nobody registered it. */
  async isRegistered(): Promise<boolean> {
    return (await this.#control.find()).row !== undefined;
  }

  /**
   * Registers an index that is not built yet. Do this before any code that declares it is deployed. Another
   * definition that had its name is taken from readers.
   */
  async disable(): Promise<void> {
    await register(this.#database, this.#control);
  }

  /**
   * Makes entries for all entities that are there, beside writers at work. May be stopped at any moment
   * and begun again: it goes on after the last page that was recorded. One at a time.
   */
  async build({ signal, ...options }: BuildOptions = {}): Promise<BuildProgress> {
    if (signal) return this.#until(signal).build(options);
    const { rate = RATE, onProgress } = options;
    const { clock } = this.#database;
    const owner = this.#database.writeToken();
    let { control, row } = await this.#claim(owner);
    const save = async (change: Partial<Control>) => {
      control = { ...control, ...change, owner, ownedUntilMs: clock.now() + OWNER_MS };
      row = await this.#control.write(control, row);
    };
    if (control.state === "disabled") await save({ state: "writeonly" });
    if (control.state !== "writeonly") throw this.#control.refusal(control.state, "build");
    if (!control.build) {
      // A writer that does not know yet would write rows that nobody indexes.
      await clock.sleep(EVERYBODY_MS);
      await save({});
    }
    const build = await buildRange(
      {
        database: this.#database,
        entity: this.#entity,
        keeper: this.#keeper,
        pace: new Pace(clock, rate),
        async save(progress) {
          await save({ build: progress });
          onProgress?.(progress);
        },
      },
      control.build ?? NOTHING,
    );
    const state = build.duplicates.length > 0 ? "readable-dups" : "readable";
    await this.#control.write({ state, build }, row);
    return build;
  }

  /** Takes the index from readers, then from writers, then deletes its entries. */
  async retire({ signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    if (signal) return this.#until(signal).retire();
    const { clock, tables } = this.#database;
    for (;;) {
      const { control, row } = await this.#control.read();
      if (control.state === "disabled") break;
      if (control.state === "writeonly") throw this.#control.refusal(control.state, "retire");
      const state = control.state === "retiring" ? "disabled" : "retiring";
      if (state === "disabled") await clock.sleep(EVERYBODY_MS);
      await this.#control.write({ state }, row);
    }
    await clock.sleep(EVERYBODY_MS);
    const keeper = this.#keeper;
    if (!keepsRows(keeper)) return keeper.drop();
    const { table, tag } = keeper;
    if (this.#ownsTable(table)) {
      await tables.deleteTable(table);
      return;
    }
    const entries = entriesOf(this.#entity.rows.typeProperty, tag);
    for await (const rows of pagesWhere(this.#database, table, entries)) {
      await deleteRows(this.#database, table, rows);
    }
  }

  #until(signal: AbortSignal): IndexLifeCycle {
    return indexLifeCycle(this.#database.until(signal), this.#entity, this.#name);
  }

  #ownsTable(ours: string): boolean {
    const { table, name, indexes } = { ...this.#entity, name: this.#name };
    const others = Object.entries(indexes).filter(([other]) => other !== name);
    const isShared = others.some(([, index]) => index.place(this.#entity)?.table === ours);
    return ours !== table && !isShared;
  }

  async #claim(owner: string) {
    const found = await this.#control.readToBuild();
    const { ownedUntilMs = 0, owner: other, shards } = found.control;
    const now = this.#database.clock.now();
    if (shards || (other !== undefined && ownedUntilMs > now)) {
      const how = shards ? "it is being built in shards" : "somebody else is building it";
      throw validationFailed(`${this.#control}`, "build", how);
    }
    const control = { ...found.control, owner, ownedUntilMs: now + OWNER_MS };
    return { control, row: await this.#control.write(control, found.row) };
  }
}
