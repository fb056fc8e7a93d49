import { isTableError, tableError, validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import { KeyShape, type KeyValues } from "./keys/key-shape.ts";
import { leftBehind, REPAIR_QUEUE, repairTripwire } from "./messages/repair-order.ts";
import type { Tripwire } from "./messages/tripwire.ts";
import type { AnyEntity } from "./model/entity.ts";
import {
  type EntryKeeper,
  Index,
  type IndexKind,
  type OpenIndex,
  type Reconciled,
} from "./model/entity-index.ts";
import {
  assertEntityFits,
  assertKeyFits,
  partitionKeyOf,
  project,
  type Row,
} from "./model/entity-rows.ts";
import {
  ageOf,
  type EntryOptions,
  EntryRows,
  entryProblems,
  hasKey,
  isSameKey,
  type Place,
} from "./model/entry.ts";
import type { Change, Contribution, FollowerContext, Snapshot } from "./model/follower.ts";
import type { KeyEquality, RowQuery } from "./model/key-query.ts";
import { type Properties, text } from "./ports/edm.ts";
import { keyOf } from "./ports/mutation.ts";
import { isRefusalInside } from "./ports/port-error.ts";
import type { EntityKey, Mutation, StoredEntity } from "./ports/tables.ts";
import type { Query, Saved } from "./query/query.ts";
import { QueryRun } from "./query/query-run.ts";
import { mapBounded } from "./store/limit.ts";
import { lastToken } from "./store/write-token.ts";
import { readAt, Stale, timeLeft } from "./write.ts";

/**
 * How entries follow their base: `guarded` (the writer does it, and a worker if the writer dies), `inline`
 * (the writer; what a dead one left is found by the scrub) or `queued` (a worker does it, soon).
 */
export type WriteMode = "guarded" | "inline" | "queued";

export interface RemoteOptions<
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  Unique extends boolean,
> extends EntryOptions {
  /** The entity's own table otherwise; its keys must then begin with another literal. */
  readonly table?: string;
  readonly partition: P;
  /** Unless unique, the two keys name the base's two keys as well. */
  readonly row: R;
  /** At most one entity has the value, in whatever partition it is. */
  readonly unique?: Unique;
  /** `guarded` where the database has queues, else `inline`. */
  readonly mode?: WriteMode;
  /** Where the messages of the guarded and queued modes go; "index-repairs" otherwise. */
  readonly queue?: string;
  /** Verified reads that meet an entry without an entity have it repaired; not otherwise. */
  readonly repairOnRead?: boolean;
  /** What a write does while no message can be sent; "fail" otherwise. */
  readonly withoutQueue?: "fail" | "inline";
  readonly timing?: Partial<Timing>;
}

export interface Timing {
  /** A writer claims and commits within this time, or starts over. */
  readonly deadlineMs: number;
  /** An entry may be deleted or taken over when nobody touched it for this long; more than `deadlineMs`. */
  readonly settleMs: number;
  /** When a worker looks after a writer that did not report back; more than `settleMs`. */
  readonly tripwireMs: number;
}

export interface RemoteRead {
  /**
   * `verify`, otherwise: each entry is checked against its base, 2 requests. `eventual`: what the entry
   * repeats, 1 request; it may be a little old, but was committed once.
   */
  readonly consistency?: "verify" | "eventual";
}

interface RemoteKind<P extends KeyDeclaration, R extends KeyDeclaration, Unique> extends IndexKind {
  readonly api: RemoteRange<this["entity"], P, R> &
    (Unique extends true ? RemoteGet<this["entity"], P, R> : unknown);
}

interface RemoteRange<T, P extends KeyDeclaration, R extends KeyDeclaration> {
  range(query: KeyEquality<P> & RowQuery<R>, read?: RemoteRead): Query<T, "range">;
}

interface RemoteGet<T, P extends KeyDeclaration, R extends KeyDeclaration> {
  get(key: KeyEquality<P> & KeyEquality<R>, read?: RemoteRead): Promise<Saved<T> | undefined>;
}

/** Declares an index whose entries stand in other partitions or another table than the entities. */
export function remoteIndex<
  const P extends KeyDeclaration,
  const R extends KeyDeclaration,
  const Unique extends boolean = false,
>(options: RemoteOptions<P, R, Unique>): RemoteIndex<P, R, Unique> {
  return new RemoteIndex(options);
}

/** The keys of the base, on every entry. */
export const BASE_PARTITION_KEY = "basePK";
const BASE_ROW_KEY = "baseRK";
/** The state of an entry: pending, or absent for a live one. */
export const STATE = "rh_s";
const PENDING = text("p");

const TIMING: Timing = { deadlineMs: 20_000, settleMs: 60_000, tripwireMs: 90_000 };
const LOOKUPS_AT_ONCE = 16;
const ROUNDS_MAX = 5;

/**
 * Entries that cannot be committed with their base. The order of a write makes them safe: claim the new
 * entry (pending), commit the base, make the entry live, delete the old one. So an entry is never
 * missing; there may be some too many, which readers see through and repairs remove.
 *
 * The settle rule: deleting an entry, or taking a unique one over, is the only dangerous act. It is
 * done only when the entry was untouched for `settleMs` as the service's clock tells, and only if it is
 * still the one that was read. A younger entry may carry the claim of a writer that has yet to commit.
 */
export class RemoteIndex<
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  Unique extends boolean,
> extends Index<RemoteKind<P, R, Unique>> {
  readonly options: RemoteOptions<KeyDeclaration, KeyDeclaration, boolean>;
  readonly partition: KeyShape;
  readonly row: KeyShape;
  readonly timing: Timing;
  override readonly tables: readonly string[];

  constructor(options: RemoteOptions<P, R, Unique>) {
    super();
    this.options = options;
    this.partition = new KeyShape(options.partition);
    this.row = new KeyShape(options.row);
    this.timing = { ...TIMING, ...options.timing };
    this.tables = options.table === undefined ? [] : [options.table];
  }

  override place({ table }: AnyEntity): Place {
    return { table: this.options.table ?? table, partition: this.partition, row: this.row };
  }

  problems(entity: AnyEntity, name: string): string[] {
    const { unique, mode, copy = "full", each } = this.options;
    const { partition, row } = entity.rows;
    const naming = unique ? [] : [...partition.segments, ...row.segments];
    const problems = entryProblems(entity, name, this.place(entity), copy, naming, each);
    const { deadlineMs, settleMs, tripwireMs } = this.timing;
    if (!(deadlineMs < settleMs && settleMs < tripwireMs)) {
      problems.push("needs deadlineMs < settleMs < tripwireMs");
    }
    if (unique && mode === "queued") {
      problems.push("is unique and queued: a value is claimed before the commit, or not at all");
    }
    return problems;
  }

  follow(context: FollowerContext): OpenIndex {
    const open = new OpenRemote(this, context);
    const range = open.range.bind(open);
    return {
      api: this.options.unique ? { range, get: open.get.bind(open) } : { range },
      reachesOut: true,
      prepare: (change) => open.prepare(change),
      keeper: open,
    };
  }
}

class OpenRemote implements EntryKeeper {
  readonly table: string;
  readonly tag: string;
  readonly #index: RemoteIndex<KeyDeclaration, KeyDeclaration, boolean>;
  readonly #context: FollowerContext;
  readonly #entries: EntryRows;
  readonly #mode: WriteMode;

  constructor(
    index: RemoteIndex<KeyDeclaration, KeyDeclaration, boolean>,
    context: FollowerContext,
  ) {
    this.#index = index;
    this.#context = context;
    this.#entries = new EntryRows(context, index.place(context.entity), index.options);
    this.#mode = index.options.mode ?? (context.database.queues ? "guarded" : "inline");
    this.table = index.place(context.entity).table;
    this.tag = this.#entries.tag;
  }

  keysOf(row: Row): EntityKey[] {
    const keys = this.#entries.keysOf(row);
    for (const key of keys) assertKeyFits(key, this.#context.database.profile);
    return keys;
  }

  baseOf(entry: StoredEntity): EntityKey | undefined {
    const partitionKey = entry.properties[BASE_PARTITION_KEY]?.value;
    const rowKey = entry.properties[BASE_ROW_KEY]?.value;
    if (partitionKey === undefined || rowKey === undefined || !this.#entries.isEntry(entry)) {
      return undefined;
    }
    return { partitionKey: String(partitionKey), rowKey: String(rowKey) };
  }

  contentOf({ row, stored }: Snapshot): Properties {
    return this.#live(row, stored, lastToken(stored.properties) ?? "");
  }

  async prepare(change: Change): Promise<Contribution> {
    const { key: base, before, after, token } = change;
    const oldKeys = before ? this.keysOf(before.row) : [];
    const newKeys = after ? this.keysOf(after) : [];
    const added = newKeys.filter((key) => !hasKey(oldKeys, key));
    // Entries that stay are written only if what they repeat changes; the others are to be deleted.
    const areCopiesAlike = !before || !after || this.#copiesAlike(before.row, after);
    const touched = oldKeys.filter((key) => !areCopiesAlike || !hasKey(newKeys, key));
    if (added.length + touched.length === 0) return {};
    const live = after && this.#live(after, base, token);
    for (const key of newKeys) assertEntityFits(key, live ?? {});
    const { clock } = this.#context.database;
    const commitByMs = clock.now() + this.#index.timing.deadlineMs;
    const tripwire = await this.#tripwire(change);
    if (this.#mode === "queued") {
      return { commitByMs, committed: () => this.#quietly(base, () => tripwire?.fire()) };
    }

    const found: StoredEntity[] = [];
    const claimed: (EntityKey & { readonly etag: string | undefined })[] = [];
    await settled([
      ...touched.map(async (key) => {
        const entry = await this.#get(key);
        if (entry && isSameKey(this.baseOf(entry), base)) found.push(entry);
      }),
      ...added.map(async (key) => {
        claimed.push({ ...key, ...(await this.#claim(key, base, token, commitByMs)) });
      }),
    ]);
    const finish = async (): Promise<boolean> => {
      const isInTime = clock.now() <= commitByMs;
      const hasContent = this.#index.options.copy !== "keys";
      const toFinish =
        hasContent && live ? newKeys.filter((key) => !areCopiesAlike || hasKey(added, key)) : [];
      const unfinished: EntityKey[] = [];
      const finished = mapBounded(toFinish, LOOKUPS_AT_ONCE, async (key) => {
        const ifMatch = [...claimed, ...found].find((one) => isSameKey(one, key))?.etag;
        const mutation = { kind: "replace", ...key, properties: live ?? {} } as const;
        if (isInTime && ifMatch && (await this.#try({ ...mutation, ifMatch }))) return;
        unfinished.push(key);
      });
      const obsolete = found.filter((entry) => !hasKey(newKeys, entry));
      const deleted = mapBounded(obsolete, LOOKUPS_AT_ONCE, (entry) => this.#deleteSettled(entry));
      await settled([finished, deleted]);
      const areLive =
        unfinished.length === 0 || (await this.reconcile(base, unfinished)) === "done";
      return areLive && !(await deleted).includes(false);
    };
    return {
      // A message that is seen before the commit finds nothing to do, and is gone.
      ...((tripwire || added.length > 0) && { commitByMs }),
      committed: () =>
        this.#quietly(base, async () => {
          // Not behind the `?.`: without a tripwire there is just as much to finish.
          const isClean = await finish();
          await tripwire?.done(isClean);
        }),
    };
  }

  async #tripwire(change: Change): Promise<Tripwire | undefined> {
    if (this.#mode === "inline") return undefined;
    const { queue = REPAIR_QUEUE, withoutQueue } = this.#index.options;
    const delayMs = this.#index.timing.tripwireMs;
    try {
      return await repairTripwire(this.#context, change, { queue, delayMs });
    } catch (error) {
      if (withoutQueue !== "inline") throw error;
      leftBehind(this.#context, change.key, error);
      return undefined;
    }
  }

  /** Writes the pending entry. @throws unique-violation, or Stale when somebody else is about to. */
  async #claim(
    key: EntityKey,
    base: EntityKey,
    token: string,
    byMs: number,
  ): Promise<{ readonly etag: string | undefined }> {
    const properties = this.#pending(base, token);
    const kind = this.#index.options.unique ? "insert" : "insertOrReplace";
    const claimed = await this.#try({ kind, ...key, properties }, byMs);
    if (claimed) return claimed;
    const entry = await this.#get(key);
    const owner = entry && this.baseOf(entry);
    if (!entry || !(await this.#mayTake(key, base, entry))) {
      throw new Stale(key.rowKey, undefined);
    }
    const { etag: ifMatch } = entry;
    const taken = await this.#try({ kind: "replace", ...key, ifMatch, properties }, byMs);
    if (!taken) throw new Stale(owner?.rowKey ?? key.rowKey, undefined);
    return taken;
  }

  /** @throws unique-violation when another entity holds the value. */
  async #mayTake(key: EntityKey, base: EntityKey, entry: StoredEntity): Promise<boolean> {
    const owner = this.baseOf(entry);
    if (isSameKey(owner, base)) return true;
    const { entity, name } = this.#context;
    if (owner && (await this.#holds(owner, key))) {
      throw tableError(
        "unique-violation",
        `${entity.name}.${name} "${key.rowKey}" belongs to ${owner.partitionKey} | ${owner.rowKey}.`,
        {
          index: name,
          key: key.rowKey,
          owner: {
            ...entity.rows.partition.decode(owner.partitionKey),
            ...entity.rows.row.decode(owner.rowKey),
          },
        },
      );
    }
    return owner !== undefined && this.#isSettled(entry);
  }

  async #holds(base: EntityKey, key: EntityKey): Promise<boolean> {
    const { row } = await this.#base(base);
    return row !== undefined && hasKey(this.keysOf(row), key);
  }

  /** False when it must stay for now. */
  async #deleteSettled(entry: StoredEntity): Promise<boolean> {
    if (!this.#isSettled(entry)) return false;
    const deleted = await this.#try({ kind: "delete", ...keyOf(entry), ifMatch: entry.etag });
    return deleted !== undefined || (await this.#get(entry)) === undefined;
  }

  async reconcile(base: EntityKey, hints: readonly EntityKey[]): Promise<Reconciled> {
    const keys = [...hints];
    for (let round = 0; round < ROUNDS_MAX; round++) {
      // The entries first: what is claimed later is younger than what we have seen of them.
      const entries = await mapBounded(keys, LOOKUPS_AT_ONCE, (key) => this.#get(key));
      const { row, stored } = await this.#base(base);
      const desired = row ? this.keysOf(row) : [];
      const unread = desired.filter((key) => !hasKey(keys, key));
      keys.push(...unread);
      if (unread.length > 0) continue;
      const outcomes = await mapBounded(keys, LOOKUPS_AT_ONCE, async (key, i) => {
        const entry = entries[i];
        if (row && stored && hasKey(desired, key)) return this.#mend(key, row, stored, entry);
        const isOurs = entry && isSameKey(this.baseOf(entry), base);
        return !isOurs || (await this.#deleteSettled(entry)) ? "done" : "unsettled";
      });
      if (outcomes.includes("again")) continue;
      return outcomes.includes("unsettled")
        ? "unsettled"
        : outcomes.includes("duplicate")
          ? "duplicate"
          : "done";
    }
    return "unsettled";
  }

  /** Makes the entry of `stored` exist and tell what it says; `again` when somebody else was faster. */
  async #mend(
    key: EntityKey,
    row: Row,
    stored: StoredEntity,
    entry: StoredEntity | undefined,
  ): Promise<Reconciled | "again"> {
    const token = lastToken(stored.properties) ?? "";
    const properties = this.#live(row, stored, token);
    if (!entry) {
      await this.#try({ kind: "insert", ...key, properties });
      // The base may have moved on meanwhile, and its writer did not see our entry.
      return "again";
    }
    try {
      if (!(await this.#mayTake(key, stored, entry))) return "unsettled";
    } catch (error) {
      if (isTableError(error, "unique-violation")) return "duplicate";
      throw error;
    }
    const isOurs = isSameKey(this.baseOf(entry), stored);
    const isCurrent = lastToken(entry.properties) === token && !(STATE in entry.properties);
    if (isOurs && isCurrent) return "done";
    const { etag: ifMatch } = entry;
    return (await this.#try({ kind: "replace", ...key, ifMatch, properties })) ? "done" : "again";
  }

  range(query: KeyValues, read: RemoteRead = {}): QueryRun {
    const isVerified = read.consistency !== "eventual";
    const { database, entity, name, readable } = this.#context;
    const { copy } = this.#index.options;
    if (!isVerified && copy === "keys") {
      throw validationFailed(name, "consistency", "the entries repeat nothing to be read");
    }
    return new QueryRun({
      database,
      table: this.table,
      partitionKey: partitionKeyOf(this.#index.partition, query),
      range: this.#index.row.rangeOf(query),
      fields: entity.rows.fields,
      ...(readable && { readable }),
      notComparable: (field) =>
        isVerified
          ? "may be out of date on the entries; read with consistency eventual, or filter the result"
          : this.#entries.notComparable(field),
      projection: (fields) => {
        const own = [BASE_PARTITION_KEY, BASE_ROW_KEY, STATE];
        return this.#entries.projection(isVerified ? [] : fields, own);
      },
      decode: (stored, fields) =>
        mapBounded(stored, LOOKUPS_AT_ONCE, (entry) => this.#decode(entry, fields, isVerified)),
      surcharge: (fields) =>
        isVerified || !this.#entries.isCovered(fields)
          ? { perRow: 1, notes: ["each entry is checked against its base"] }
          : { perRow: 0, notes: ["served from copies, which may be a little old"] },
    });
  }

  async get(query: KeyValues, read?: RemoteRead): Promise<Row | undefined> {
    return this.range(query, read).first();
  }

  async #decode(
    entry: StoredEntity,
    fields: readonly string[] | undefined,
    isVerified: boolean,
  ): Promise<Row | undefined> {
    const base = this.baseOf(entry);
    if (!base) return undefined;
    const mayCopy = !isVerified && !(STATE in entry.properties) && this.#entries.isCovered(fields);
    if (mayCopy) {
      return this.#entries.decode(entry, base, fields);
    }
    const { row } = await this.#base(base);
    if (row && hasKey(this.keysOf(row), entry)) return project(row, fields);
    if (this.#index.options.repairOnRead) {
      const { queue = REPAIR_QUEUE } = this.#index.options;
      const change = { key: base, token: "", shared: new Map() };
      // The message is a favour: the reader has what it wanted.
      const wire = { queue, delayMs: 0 };
      await repairTripwire(this.#context, change, wire, [keyOf(entry)]).catch(() => {});
    }
    return undefined;
  }

  #live(row: Row, base: EntityKey, token: string): Properties {
    return { ...this.#entries.copyOf(row), ...this.#ties(base, token) };
  }

  /** Nothing that is not committed yet. An entry that repeats nothing is complete at once. */
  #pending(base: EntityKey, token: string): Properties {
    const ties = this.#ties(base, token);
    return this.#index.options.copy === "keys" ? ties : { ...ties, [STATE]: PENDING };
  }

  #ties({ partitionKey, rowKey }: EntityKey, token: string): Properties {
    return {
      [BASE_PARTITION_KEY]: text(partitionKey),
      [BASE_ROW_KEY]: text(rowKey),
      ...this.#entries.marks(token),
    };
  }

  #copiesAlike(a: Row, b: Row): boolean {
    return JSON.stringify(this.#entries.copyOf(a)) === JSON.stringify(this.#entries.copyOf(b));
  }

  #isSettled(entry: StoredEntity): boolean {
    return ageOf(entry) >= this.#index.timing.settleMs;
  }

  #get(key: EntityKey): Promise<StoredEntity | undefined> {
    return this.#context.database.tables.get(this.table, keyOf(key));
  }

  async #base(key: EntityKey): Promise<Partial<Snapshot>> {
    return (await readAt(this.#context, key)) ?? {};
  }

  /** Undefined when the row is not what it was. @throws Stale when it is too late. */
  async #try(
    mutation: Mutation,
    byMs = Number.POSITIVE_INFINITY,
  ): Promise<{ readonly etag: string | undefined } | undefined> {
    const { database } = this.#context;
    const timeout = timeLeft(database, byMs, mutation.rowKey);
    try {
      const [etag] = await database.tables.commit(this.table, [mutation], timeout);
      return { etag };
    } catch (error) {
      if (isRefusalInside(error, 404, 409, 412) || isTableError(error, "ambiguous-outcome"))
        return undefined;
      throw error;
    }
  }

  /** The base is committed: what fails from here on is left to the worker or the scrub. */
  async #quietly(base: EntityKey, work: () => Promise<unknown> | undefined): Promise<void> {
    try {
      await work();
    } catch (error) {
      leftBehind(this.#context, base, error);
    }
  }
}

/** Waits for all, so that nothing is still on its way when one of them fails. @throws the first failure. */
async function settled(work: readonly Promise<unknown>[]): Promise<void> {
  await Promise.allSettled(work);
  await Promise.all(work);
}
