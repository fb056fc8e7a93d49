import { deleteRows } from "./bulk-delete.ts";
import type { Database } from "./database.ts";
import { tableError, validationFailed } from "./errors.ts";
import {
  type BuildProgress,
  CONTROL_TABLE,
  type Control,
  controlKey,
  controlRow,
  EVERYBODY_MS,
  type IndexState,
  type KnownControl,
  readControl,
} from "./index-states.ts";
import { definitionHash } from "./model/definition-hash.ts";
import type { AnyEntity } from "./model/entity.ts";
import {
  type EntryKeeper,
  keepsRows,
  type ListKeeper,
  type Reconciled,
} from "./model/entity-index.ts";

import { ageOf, entriesOf, hasKey } from "./model/entry.ts";
import type { Snapshot } from "./model/follower.ts";
import { text } from "./ports/edm.ts";
import { keyOf, printKey } from "./ports/mutation.ts";
import type { EntityKey, StoredEntity } from "./ports/tables.ts";
import type { Filter } from "./query/filter.ts";
import { pagesWhere } from "./query/pages.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "./store/limit.ts";
import { WRITE_TOKENS } from "./store/write-token.ts";

const OWNER_MS = 60_000;
const SETTLE_MS = 60_000;
/** When to come back to a value whose owner is not certain yet. */
const UNSETTLED_MS = 30_000;
const PAGE = 200;
const RATE = 200;
const EXAMPLES_MAX = 100;
const DUPLICATES_MAX = 1000;

export interface BuildOptions {
  /** Entities a second; 200 otherwise. */
  readonly rate?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: BuildProgress) => void;
}

export interface VerifyOptions {
  /** The share of rows to look at, from 0 to 1; all otherwise. */
  readonly sample?: number;
}

export interface VerifyReport {
  readonly entities: number;
  readonly entries: number;
  /** Entities whose entry is not there, entries that say something else, entries without an entity. */
  readonly missing: number;
  readonly wrong: number;
  readonly dangling: number;
  /** Entities whose value belongs to another. */
  readonly duplicate: number;
  /** Not judged, because a write may be under way: verify again in a minute. */
  readonly young: number;
  readonly examples: readonly Finding[];
}

export interface Finding {
  readonly kind: "missing" | "wrong" | "dangling" | "duplicate";
  readonly base: EntityKey;
  readonly entry: EntityKey;
}

/** What an entry says: that it stands for this entity. */
interface Claim {
  readonly entry: EntityKey;
  readonly base: EntityKey;
  readonly age: number;
}

/** Opens the operator's view of an index. @throws validation-failed when it has no entries of its own. */
export function indexLifeCycle(
  database: Database,
  entity: AnyEntity,
  name: string,
): IndexLifeCycle {
  const keeper = entity.indexes[name]?.follow({ database, entity, name }).keeper;
  if (!keeper) throw validationFailed(entity.name, name, "is no index that can be built");
  return new IndexLifeCycle(database, entity, name, keeper);
}

export class IndexLifeCycle {
  readonly #database: Database;
  readonly #entity: AnyEntity;
  readonly #name: string;
  readonly #keeper: EntryKeeper | ListKeeper;

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
  }

  async state(): Promise<IndexState> {
    return (await this.#read()).control.state;
  }

  /** Registers an index that is not built yet. Do this before any code that declares it is deployed. */
  async disable(): Promise<void> {
    await this.#database.tables.createTable(CONTROL_TABLE);
    await this.#write({ state: "disabled" }, undefined);
  }

  /**
   * Makes entries for all entities that are there, beside writers at work. May be stopped at any moment
   * and begun again: it goes on after the last page that was recorded. One at a time.
   */
  async build({ rate = RATE, signal, onProgress }: BuildOptions = {}): Promise<BuildProgress> {
    const { clock, tables } = this.#database;
    const owner = this.#database.writeToken();
    let { control, row } = await this.#claim(owner);
    const save = async (change: Partial<Control>) => {
      control = { ...control, ...change, owner, ownedUntilMs: clock.now() + OWNER_MS };
      row = await this.#write(control, row);
    };
    if (control.state === "disabled") await save({ state: "writeonly" });
    if (control.state !== "writeonly") throw this.#refuse(control.state, "build");
    // A writer that does not know yet would write rows that nobody indexes.
    if (!control.build) await this.#wait(EVERYBODY_MS, save, signal);
    let progress: BuildProgress = control.build ?? { done: 0, duplicates: [] };
    const began = clock.now();
    for (let isLast = false, count = 0; !isLast; ) {
      signal?.throwIfAborted();
      const from = progress.cursor && { continuation: progress.cursor };
      const page = await tables.query(this.#entity.table, { top: PAGE, ...from });
      const bases = page.entities.filter((stored) => this.#entity.rows.decode(stored));
      const duplicates = await this.#reconcile(bases, save, signal);
      progress = {
        done: progress.done + bases.length,
        duplicates: [...progress.duplicates, ...duplicates].slice(0, DUPLICATES_MAX),
        ...(page.continuation && { cursor: page.continuation }),
      };
      isLast = !page.continuation;
      await save({ build: progress });
      onProgress?.(progress);
      count += bases.length;
      const aheadMs = (count / rate) * 1000 - (clock.now() - began);
      if (aheadMs > 0) await clock.sleep(aheadMs, signal);
    }
    const state = progress.duplicates.length > 0 ? "readable-dups" : "readable";
    await this.#write({ state, build: progress }, row);
    return progress;
  }

  /** Makes the entries of these entities. @returns those whose value belongs to another. */
  async #reconcile(
    bases: readonly StoredEntity[],
    save: (change: Partial<Control>) => Promise<void>,
    signal: AbortSignal | undefined,
  ): Promise<string[]> {
    const duplicates: string[] = [];
    for (let left = bases; left.length > 0; ) {
      const outcomes = await mapBounded(left, this.#width, (base) =>
        // Where its entries should be is known by now: it need not be read to be told.
        this.#keeper.reconcile(base, this.#keeper.keysOf(this.#entity.rows.decode(base)!)),
      );
      duplicates.push(...left.filter((_base, i) => outcomes[i] === "duplicate").map(printKey));
      left = left.filter((_base, i) => outcomes[i] === "unsettled");
      // The value was claimed by a writer that gave up, or is about to commit. Time will tell.
      if (left.length > 0) await this.#wait(UNSETTLED_MS, save, signal);
    }
    return duplicates;
  }

  /** Compares every entity with its entries, and every entry with its entity. Changes nothing. */
  verify(options: VerifyOptions = {}): Promise<VerifyReport> {
    return this.#scrub(options, undefined);
  }

  /** Verifies and mends what it finds; `readable-dups` becomes `readable` when no duplicate is left. */
  async repair(options: VerifyOptions = {}): Promise<VerifyReport> {
    const report = await this.#scrub(options, ({ base, entry }) =>
      this.#keeper.reconcile(base, [entry]),
    );
    const { control, row } = await this.#read();
    const isWhole = options.sample === undefined && report.duplicate + report.young === 0;
    if (control.state === "readable-dups" && isWhole) await this.#write({ state: "readable" }, row);
    return report;
  }

  /** Takes the index from readers, then from writers, then deletes its entries. */
  async retire({ signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    const { clock, tables } = this.#database;
    for (;;) {
      const { control, row } = await this.#read();
      if (control.state === "disabled") break;
      if (control.state === "writeonly") throw this.#refuse(control.state, "retire");
      const state = control.state === "retiring" ? "disabled" : "retiring";
      if (state === "disabled") await clock.sleep(EVERYBODY_MS, signal);
      await this.#write({ state }, row);
    }
    await clock.sleep(EVERYBODY_MS, signal);
    const keeper = this.#keeper;
    if (!keepsRows(keeper)) return keeper.drop();
    const { table } = keeper;
    if (this.#ownsTable(keeper.table)) {
      await tables.deleteTable(table);
      return;
    }
    for await (const rows of this.#pages(table, this.#entries(keeper))) {
      signal?.throwIfAborted();
      await deleteRows(this.#database, table, rows);
    }
  }

  async #scrub(
    { sample = 1 }: VerifyOptions,
    mend: ((finding: Finding) => Promise<Reconciled>) | undefined,
  ): Promise<VerifyReport> {
    const counts = {
      entities: 0,
      entries: 0,
      missing: 0,
      wrong: 0,
      dangling: 0,
      duplicate: 0,
      young: 0,
    };
    const examples: Finding[] = [];
    const judge = async <Item>(
      kind: "entities" | "entries",
      rows: readonly Item[],
      look: (row: Item) => Promise<readonly (Finding & { readonly age: number })[]>,
    ) => {
      const chosen = rows.filter(() => sample >= 1 || this.#database.random() < sample);
      counts[kind] += chosen.length;
      await mapBounded(chosen, mend ? this.#width : LOOKUPS_AT_ONCE, async (row) => {
        for (const { age, ...finding } of await look(row)) {
          const outcome = age < SETTLE_MS ? "unsettled" : await mend?.(finding);
          counts[outcome === "unsettled" ? "young" : finding.kind]++;
          if (age >= SETTLE_MS && examples.length < EXAMPLES_MAX) examples.push(finding);
        }
      });
    };
    for await (const rows of this.#pages(this.#entity.table)) {
      const bases = rows.filter((row) => this.#entity.rows.decode(row));
      await judge("entities", bases, (base) => this.#lookForEntries(base));
    }
    for await (const claims of this.#claims()) {
      await judge("entries", claims, (claim) => this.#lookForBase(claim));
    }
    return { ...counts, examples };
  }

  /** Entities side by side would get into each other's way in a list. */
  get #width(): number {
    return keepsRows(this.#keeper) ? LOOKUPS_AT_ONCE : 1;
  }

  async #lookForEntries(base: StoredEntity) {
    const row = this.#entity.rows.decode(base)!;
    const findings = await mapBounded(this.#keeper.keysOf(row), LOOKUPS_AT_ONCE, (key) =>
      this.#lookForEntry({ row, stored: base }, key),
    );
    return findings.filter((finding) => finding !== undefined);
  }

  async #lookForEntry({ row, stored: base }: Snapshot, key: EntityKey) {
    const keeper = this.#keeper;
    const finding = { base: keyOf(base), entry: key };
    const missing = { kind: "missing" as const, ...finding, age: ageOf(base) };
    if (!keepsRows(keeper)) return (await keeper.has(key, base)) ? undefined : missing;
    const entry = await this.#database.tables.get(keeper.table, key);
    if (!entry) return missing;
    const age = Math.min(ageOf(base), ageOf(entry));
    const owner = keeper.baseOf(entry);
    if (owner?.partitionKey !== base.partitionKey || owner.rowKey !== base.rowKey) {
      return { kind: "duplicate" as const, ...finding, age };
    }
    const { [WRITE_TOKENS]: _expected, ...expected } = keeper.contentOf({
      row,
      stored: base,
    });
    const { [WRITE_TOKENS]: _tokens, ...found } = entry.properties;
    const isSame =
      Object.keys(found).length === Object.keys(expected).length &&
      Object.entries(expected).every(([name, { value }]) => found[name]?.value === value);
    return isSame ? undefined : { kind: "wrong" as const, ...finding, age };
  }

  async #lookForBase({ entry, base, age }: Claim) {
    const stored = await this.#database.tables.get(this.#entity.table, base);
    const row = stored && this.#entity.rows.decode(stored);
    const isJustified = row && hasKey(this.#keeper.keysOf(row), entry);
    if (isJustified) return [];
    // What changed just now may still be followed up.
    const sinceMs = Math.min(age, stored ? ageOf(stored) : age);
    return [{ kind: "dangling" as const, base, entry, age: sinceMs }];
  }

  async *#claims(): AsyncGenerator<readonly Claim[]> {
    const keeper = this.#keeper;
    if (!keepsRows(keeper)) {
      // Others may write to a list at any time, so its age tells nothing of a member.
      const age = Number.POSITIVE_INFINITY;
      for await (const { list: entry, members } of keeper.lists()) {
        yield members.map((base) => ({ entry, base, age }));
      }
      return;
    }
    for await (const rows of this.#pages(keeper.table, this.#entries(keeper))) {
      yield rows.flatMap((row) => {
        const base = keeper.baseOf(row);
        return base ? [{ entry: keyOf(row), base, age: ageOf(row) }] : [];
      });
    }
  }

  /** Waits in steps, so that the ownership does not run out. */
  async #wait(ms: number, save: (change: Partial<Control>) => Promise<void>, signal?: AbortSignal) {
    await this.#database.clock.sleep(ms, signal);
    await save({});
  }

  #pages(table: string, filter?: Filter): AsyncGenerator<readonly StoredEntity[]> {
    return pagesWhere(this.#database, table, filter, { top: PAGE });
  }

  #entries({ tag }: EntryKeeper): Filter {
    return entriesOf(this.#entity.rows.typeProperty, tag);
  }

  #ownsTable(ours: string): boolean {
    const { table, name, indexes } = { ...this.#entity, name: this.#name };
    const others = Object.entries(indexes).filter(([other]) => other !== name);
    const isShared = others.some(([, index]) => index.place(this.#entity)?.table === ours);
    return ours !== table && !isShared;
  }

  async #claim(owner: string) {
    const found = await this.#read();
    const { ownedUntilMs = 0, owner: other } = found.control;
    if (other !== undefined && ownedUntilMs > this.#database.clock.now()) {
      throw validationFailed(this.#index(), "build", "somebody else is building it");
    }
    const control = {
      ...found.control,
      owner,
      ownedUntilMs: this.#database.clock.now() + OWNER_MS,
    };
    return { control, row: await this.#write(control, found.row) };
  }

  #read() {
    return readControl(this.#database, this.#entity, this.#name);
  }

  /** @throws conflict when somebody else moved the index. */
  async #write(control: Control, before: KnownControl["row"]): Promise<KnownControl["row"]> {
    const definition = definitionHash(this.#entity, this.#name);
    const row = controlRow(this.#database, this.#entity, this.#name);
    const beside = { state: text(control.state) };
    const written = await row.write({ ...control, definition }, before, beside);
    if (written) return written;
    const key = controlKey(this.#entity, this.#name).rowKey;
    throw tableError("conflict", `${this.#index()} was moved by somebody else.`, { key });
  }

  #refuse(state: IndexState, verb: string): Error {
    return validationFailed(this.#index(), "state", `is ${state}: it cannot ${verb} now`);
  }

  #index(): string {
    return `${this.#entity.name}.${this.#name}`;
  }
}
