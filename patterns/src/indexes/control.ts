import {
  CONTROL_PARTITION,
  CONTROL_PROPERTY,
  CONTROL_TABLE,
  changedDefinition,
  registeredRows,
  WRITE_MS,
} from "../entities/checked-indexes.ts";
import { validationFailed } from "../errors.ts";
import { declaredIndex } from "../model/declared-index.ts";
import type { AnyEntity } from "../model/follower.ts";
import { type EntryKeeper, keeperIn, keepsRows, type ListKeeper } from "../model/follower.ts";
import { type Properties, text } from "../ports/edm.ts";
import type { Continuation } from "../ports/tables.ts";
import { type Clock, isFresh } from "../store/clock.ts";
import { type JsonRow, jsonRow, type Known, mustWriteJson, writeJson } from "../store/json-row.ts";
import type { ByMs } from "../store/layer.ts";
import { LOOKUPS_AT_ONCE } from "../store/limit.ts";
import type { DeclaredIndex, IndexState, Session } from "../store/session.ts";

export { CONTROL_TABLE, WRITE_MS } from "../entities/checked-indexes.ts";
/**
 * The state of an index, in its control row:
 *
 *   state          writers maintain it  readers may use it
 *   disabled       no                   no
 *   writeonly      yes                  no
 *   readable       yes                  yes
 *   readable-dups  yes                  yes, but some values that should be unique are not
 *   retiring       yes                  no
 *
 *   (no row) ── disable ──▶ DISABLED ── build begins ──▶ WRITEONLY ─┬─ build ends ─────────▶ READABLE
 *                              ▲                                    │                           ▲
 *                              │                                    │ build ends,               │ repair finds no
 *                              │                                    │ with duplicates           │ more duplicates
 *                              │                                    └─────────────────▶ READABLE-DUPS
 *                              │
 *                              └── RETIRING ◀── retire ── READABLE, READABLE-DUPS
 *
 * Without a row the index is checked (entities/checked-indexes.ts), or counts as readable where it is trusted. Clients
 * use a state for up to `LEASE_MS` after they read it, and commit within `WRITE_MS` of that. So after each move a build or a retirement waits for `PROPAGATION_MS`: no entity is read before
 * all writers maintain the index, no writer stops before the last reader, and no entry is deleted before the last
 * writer has stopped.
 *
 * A build or a retirement owns the index for `OWNER_MS` from its last write of the row, and fails when the row has
 * changed. A crashed one leaves the row: a build is continued from `build` or its shards, a retirement is repeated. A retirement
 * owns the `disabled` index until its last entry is deleted.
 */
export type { IndexState } from "../store/session.ts";

/** Writers use a state for this long before they read it again. */
export const LEASE_MS = 30_000;
/** After this time all writers have seen a change. Services count timeouts in whole seconds, from the arrival of a request. */
export const PROPAGATION_MS = WRITE_MS + 5000;

export interface Control {
  readonly state: IndexState;
  readonly owner?: string;
  readonly ownedUntilMs?: number;
  readonly build?: BuildProgress;
  /** A build in shards. `count` is absent while they are being cut. */
  readonly shards?: { readonly plan: string; readonly count?: number };
}

/** The progress of a build, of an index or of one shard. */
export interface BuildProgress {
  readonly cursor?: Continuation;
  /** Entities. */
  readonly done: number;
  /** Entries that are now correct; none of an entity that does not match. */
  readonly written: number;
  /** Entities without an entry, because their value belongs to another. */
  readonly errors: number;
  /** Entities whose value belongs to another: the first thousand, or as many as fit. */
  readonly duplicates: readonly string[];
}

export interface KnownControl {
  readonly control: Control;
  /** Undefined for an index that is not registered, which counts as readable here. */
  readonly row: Known<Control> | undefined;
}

/** The rows for a name: one for each definition that was ever registered under it. */
interface Registered {
  readonly row: Known<Control> | undefined;
  readonly others: readonly Other[];
}

/** The row of another definition. */
type Other = readonly [rowKey: string, row: Known<Control>];

/** The progress of a build that begins. */
export const NOTHING_BUILT: BuildProgress = { done: 0, written: 0, errors: 0, duplicates: [] };

/** Entities processed in parallel would conflict with each other in a list. */
export function widthOf(keeper: EntryKeeper | ListKeeper): number {
  return keepsRows(keeper) ? LOOKUPS_AT_ONCE : 1;
}

/** An index that is built, checked, repaired or removed, with its entries and its control row. */
export interface ManagedIndex {
  readonly session: Session;
  readonly entity: AnyEntity;
  readonly name: string;
  readonly keeper: EntryKeeper | ListKeeper;
  readonly control: IndexControl;
}

/** @throws validation-failed when it has no entries of its own. */
export function managedIndex(session: Session, entity: AnyEntity, name: string): ManagedIndex {
  const keeper = keeperIn(session, entity, name);
  if (!keeper) throw validationFailed(entity.name, name, "is not an index that can be built");
  return {
    session,
    entity,
    name,
    keeper,
    control: new IndexControl(session, declaredIndex(entity, name)),
  };
}

/**
 * The same index, whose entries are written no later than `byMs` returns: a retirement in the meantime would
 * never find entries written after it.
 */
export function withDeadline(index: ManagedIndex, byMs: ByMs): ManagedIndex {
  const { session, entity, name } = index;
  return { ...index, keeper: managedIndex(session.inTime(byMs), entity, name).keeper };
}

/**
 * Returns a function for the time until which the control row permits writing entries. It reads the row again
 * when it is old, so a retirement waits for builds and repairs as it waits for writers. Calls `confirm` after
 * each such read, one at a time.
 * @throws validation-failed once the index is being retired: it cannot be `done` then.
 */
export function permittedUntil(
  { control, session: { clock } }: ManagedIndex,
  done: string,
  confirm?: () => Promise<unknown>,
): () => Promise<number> {
  let readAtMs = 0;
  let reading: Promise<void> | undefined;
  const read = async () => {
    const now = clock.now();
    const { state } = (await control.read()).control;
    if (/disabled|retiring/.test(state)) throw stateRefused(control, state, done);
    await confirm?.();
    readAtMs = now;
  };
  return async () => {
    while (!isFresh(clock, readAtMs, LEASE_MS)) {
      reading ??= read().finally(() => {
        reading = undefined;
      });
      await reading;
    }
    return readAtMs + WRITE_MS;
  };
}

/**
 * Done before the index is `writeonly`, when all writers use its tables: a retirement may have dropped one, or
 * it was never created.
 */
export async function createIndexTables({ session, entity, name }: ManagedIndex): Promise<void> {
  const { [name]: index } = entity.indexes;
  await Promise.all(index?.tables.map((table) => session.tables.createTable(table)) ?? []);
}

/** How long work belongs to its owner after the owner last confirmed it. */
export const OWNER_MS = 60_000;

/** @throws validation-failed while a process is at work whose progress this one cannot join. */
export function assertFree(
  { session, control }: ManagedIndex,
  { ownedUntilMs = 0 }: Control,
): void {
  const leftS = Math.ceil((ownedUntilMs - session.clock.now()) / 1000);
  if (leftS <= 0) return;
  const message = `another process is retiring it; if it died, retry in ${leftS} s`;
  throw validationFailed(`${control}`, "state", message);
}

/** Whether the owner should confirm its work again, if this is checked every 30 s. */
export function isOwnershipEnding(clock: Clock, ownedUntilMs = 0): boolean {
  return ownedUntilMs - clock.now() < OWNER_MS * 0.75;
}

/**
 * The control row of one definition of an index: `<table>.<Entity>.<index>@<hash>`. Under a changed definition
 * the name is another index with a row of its own, but its entries may have the same keys as those of the old
 * one. So only one of them is in use at a time, and none is built before the entries of the others are gone.
 */
export class IndexControl {
  readonly #session: Session;
  readonly #index: DeclaredIndex;

  constructor(session: Session, index: DeclaredIndex) {
    this.#session = session;
    this.#index = index;
  }

  get key(): string {
    return this.#index.key;
  }

  async find(): Promise<Registered> {
    const all = await registeredRows<Control>(this.#session, this.#index.name);
    return { row: all.get(this.key), others: [...all].filter(([key]) => key !== this.key) };
  }

  /** @throws validation-failed when another definition has the name. */
  async read(found?: Registered): Promise<KnownControl> {
    const { row, others } = found ?? (await this.find());
    if (row ? others.some(isInUse) : others.length > 0) {
      throw changedDefinition(this.#index.label);
    }
    return { control: row?.value ?? { state: "readable" }, row };
  }

  /** @throws conflict when another process changed the state of the index. */
  write(control: Control, before: KnownControl["row"]): Promise<Known<Control>> {
    const message = `${this}: another process changed its state.`;
    return mustWriteJson(this.row(this.key), control, before, message, labelsOf(control));
  }

  /** The row of this definition, or of another. */
  row(rowKey: string): JsonRow<Control> {
    return jsonRow(
      this.#session,
      CONTROL_TABLE,
      { partitionKey: CONTROL_PARTITION, rowKey },
      CONTROL_PROPERTY,
    );
  }

  toString(): string {
    return this.#index.label;
  }
}

/** For people who look into the table. */
function labelsOf({ state }: Control): Properties {
  return { state: text(state) };
}

/**
 * The known state of an index that is to be built.
 * @throws validation-failed when another definition has the name, or left entries.
 */
export async function readToBuild(index: IndexControl): Promise<KnownControl> {
  const found = await index.find();
  const known = await index.read(found);
  if (!found.others.some(hasEntries)) return known;
  const message = "another definition left entries: retire it with the code that declares it";
  throw validationFailed(`${index}`, "definition", message);
}

/** The error for an index that, in this state, cannot be "built", "retired" or "repaired". */
export function stateRefused(index: IndexControl, state: IndexState, done: string): Error {
  return validationFailed(`${index}`, "state", `is ${state}: it cannot be ${done} now`);
}

/**
 * Registers the index as disabled. Other definitions of the name are taken from readers first, because writers
 * that know this one do not maintain the entries of the others.
 * @throws conflict when another process was faster.
 */
export async function register({ tables, clock }: Session, index: IndexControl): Promise<void> {
  await tables.createTable(CONTROL_TABLE);
  let found = await index.find();
  if (!found.row && found.others.some(hasEntries)) {
    for (let left = found.others; left.length > 0; left = found.others.filter(isInUse)) {
      for (const [key, row] of left.filter(isInUse)) {
        const retiring: Control = { state: "retiring" };
        await writeJson(index.row(key), retiring, row, labelsOf(retiring));
      }
      found = await index.find();
    }
    await clock.sleep(PROPAGATION_MS);
  }
  await index.write({ state: "disabled" }, undefined);
}

/** A disabled index has an owner until its last entry is deleted. */
function hasEntries([, { value }]: Other): boolean {
  return value.state !== "disabled" || value.owner !== undefined;
}

function isInUse([, { value }]: Other): boolean {
  return value.state !== "disabled" && value.state !== "retiring";
}
