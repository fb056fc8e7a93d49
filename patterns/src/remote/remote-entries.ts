import { readAt, Stale, timeLeft } from "../entities/write.ts";
import { REPAIR_QUEUE, repairTripwire, reportLeftBehind } from "../messages/repair-order.ts";
import type { Tripwire } from "../messages/tripwire.ts";
import { assertEntityFits, type Row, type Unknown } from "../model/entity-rows.ts";
import {
  ageOf,
  BASE_PARTITION_KEY,
  BASE_ROW_KEY,
  EntryRows,
  hasKey,
  isSameKey,
  valueTaken,
} from "../model/entry.ts";
import type {
  Change,
  Contribution,
  EntryKeeper,
  FollowerContext,
  Reconciled,
  Snapshot,
} from "../model/follower.ts";
import { type Properties, text } from "../ports/edm.ts";
import { deleteOf, keyOf } from "../ports/mutation.ts";
import type { EntityKey, Mutation, StoredEntity } from "../ports/tables.ts";
import { isLostRace } from "../store/commit-if-current.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "../store/limit.ts";
import { lastToken } from "../store/write-token.ts";
import type { RemoteDeclaration, WriteMode } from "./remote-options.ts";

/** The property of pending entries; live ones do not have it. */
export const STATE_PROPERTY = "rh_s";
const PENDING = text("p");

const ROUNDS_MAX = 5;

/**
 * Entries that cannot be committed with their base, because they are in another partition or table.
 *
 *            claim                          finish, reconcile
 *   ABSENT ──────────▶ PENDING ─────────────────────────────────────────▶ LIVE
 *      ▲                │   ▲                                              │
 *      │    its commit  │   │ claim: by its own base at any time,          │ a commit gives the base
 *      │    is not made ▼   │ by another base once settled                 │ other keys, or deletes it
 *      └────────────── ORPHANED ◀──────────────────────────────────────────┘
 *    release, reconcile:
 *    once settled
 *
 *   ABSENT ── reconcile, in a build or a repair ──▶ LIVE
 *
 * - PENDING: a row with `rh_s`, without copies. A writer has claimed the key; its commit is still to come, or was
 *   made and the entry is not finished yet. With `copy: "keys"` a claimed entry is complete: it has no `rh_s`.
 * - LIVE: a row without `rh_s` whose base has the key. It is stale between a commit that changes copied fields and
 *   the new copies. A claim by a writer that read an older base makes it pending again.
 * - ORPHANED: a row, with or without `rh_s`, whose base is gone or has other keys. Verified reads skip it.
 *
 * The steps of a guarded write, and what a crash after each of them leaves:
 *
 *   step                code                      left after a crash             what the worker does then
 *   1 read the base     write.ts, readEntity      nothing
 *   2 send the message  #sendTripwire             the message                    nothing
 *   3 claim new, read   #claim, #takeOver,        orphaned pending entries       deletes them once settled
 *     old entries       #getOwn
 *   4 commit the base   write.ts, commitSteps     pending and stale entries,     makes them live, deletes the
 *                                                 orphaned old ones              old ones once settled
 *   5 finish new,       #finish, #release         the message, old entries too   deletes them once settled
 *     release old ones                            young to be released
 *   6 take the message  Tripwire.done             nothing
 *     back
 *
 * The worker (index-repairs.ts) receives the message `tripwireMs` after step 2 and calls `reconcile`. If step 5 left
 * something, the writer leaves the message to the worker. A writer that loses the race in step 4 starts over and does
 * not remove its claims, because another writer of the same base may rely on them by then.
 *
 * In `inline` mode there are no steps 2 and 6, and what is left is found by the scrub (index-scrub.ts), which calls
 * `reconcile` too. In `queued` mode there are no steps 3 and 5, and step 6 makes the message visible instead.
 *
 * So, except in `queued` mode, an entry is never missing. Surplus entries may exist, which readers see through and
 * repairs remove.
 *
 * The settle rule: the only dangerous act is to delete an entry or to take a unique one over. It is done only
 * when the entry was untouched for `settleMs` by the service's clock, and on condition of the ETag that was
 * read. A younger entry may carry the claim of a writer that has yet to commit. A settled one cannot, because step
 * 4 is refused from `deadlineMs` after step 2 on.
 */
export class RemoteEntries implements EntryKeeper {
  readonly table: string;
  readonly tag: string;
  readonly #index: RemoteDeclaration;
  readonly #context: FollowerContext;
  /** How they are stored. */
  readonly rows: EntryRows;
  readonly isLeftToScrub: boolean;
  readonly #mode: WriteMode;

  constructor(index: RemoteDeclaration, context: FollowerContext) {
    this.#index = index;
    this.#context = context;
    this.rows = new EntryRows(context, index);
    this.#mode = index.options.mode ?? (context.session.queues ? "guarded" : "inline");
    this.isLeftToScrub = this.#mode === "inline";
    this.table = this.rows.table;
    this.tag = this.rows.tag;
  }

  /** Steps 2 and 3. `committed` of the contribution makes steps 5 and 6. */
  async prepare(change: Change): Promise<Contribution> {
    const plan = this.#plan(change);
    if (!plan) return {};
    const { base, toClaim, toRead, pending } = plan;
    const nowMs = this.#context.session.clock.now();
    const tripwire = await this.#sendTripwire(change);
    // Another index may have sent it long before, and a commit after it fires would have no worker to complete
    // it.
    const commitByMs = (tripwire?.sinceMs ?? nowMs) + this.#index.timing.deadlineMs;
    if (tripwire && this.#mode === "queued") {
      return { commitByMs, committed: () => this.#orLeaveBehind(base, tripwire.fire()) };
    }
    const [read, claimed] = await allEnded([
      allEnded(toRead.map((key) => this.#getOwn(key, base))),
      allEnded(toClaim.map((key) => this.#claim(key, base, pending, commitByMs))),
    ]);
    const old = read.filter((entry) => entry !== undefined);
    const write: ClaimedWrite = { ...plan, old, claimed, tripwire, commitByMs };
    return {
      // A message that is handled before the commit finds nothing to do and is deleted.
      ...((tripwire || toClaim.length > 0) && { commitByMs }),
      committed: () => this.#orLeaveBehind(base, this.#complete(write)),
    };
  }

  /** Undefined when no entry changes. */
  #plan({ key: base, before, after, unknown, token }: Change): WritePlan | undefined {
    const oldKeys = before ? this.keysOf(before.row) : [];
    const newKeys = after ? this.keysOf(after) : [];
    const toClaim = newKeys.filter((key) => !hasKey(oldKeys, key));
    const areCopiesAlike =
      !before ||
      !after ||
      this.#copiesIn(before) === JSON.stringify(this.rows.copyOf(after, unknown));
    // Entries that stay are written only if their copies change.
    const toRead = oldKeys.filter((key) => !areCopiesAlike || !hasKey(newKeys, key));
    if (toClaim.length + toRead.length === 0) return undefined;
    const live = after ? this.#live(after, base, token, unknown) : {};
    for (const key of newKeys) assertEntityFits(key, live);
    const pending = this.#pending(base, token, unknown);
    const toFinish = areCopiesAlike ? toClaim : newKeys;
    return { base, newKeys, toClaim, toRead, toFinish, pending, live };
  }

  /** Undefined in `inline` mode. */
  async #sendTripwire(change: Change): Promise<Tripwire | undefined> {
    if (this.#mode === "inline") return undefined;
    const { queue = REPAIR_QUEUE, withoutQueue } = this.#index.options;
    const delayMs = this.#index.timing.tripwireMs;
    try {
      return await repairTripwire(this.#context, change, { queue, delayMs });
    } catch (error) {
      if (withoutQueue !== "inline") throw error;
      reportLeftBehind(this.#context, change.key, error);
      return undefined;
    }
  }

  /** Undefined when the entry is missing or belongs to another base. */
  async #getOwn(key: EntityKey, base: EntityKey): Promise<StoredEntity | undefined> {
    const entry = await this.#get(key);
    return entry && isSameKey(this.baseOf(entry), base) ? entry : undefined;
  }

  /** Writes the pending entry. @throws unique-violation, or Stale when another writer is about to. */
  async #claim(
    key: EntityKey,
    base: EntityKey,
    properties: Properties,
    byMs: number,
  ): Promise<Seen> {
    const kind = this.#index.options.unique ? "insert" : "insertOrReplace";
    try {
      return await this.#write({ kind, ...key, properties }, byMs);
    } catch (refusal) {
      if (!isLostRace(refusal)) throw refusal;
      return this.#takeOver(key, base, properties, byMs, refusal);
    }
  }

  /** Claims an entry that exists. */
  async #takeOver(
    key: EntityKey,
    base: EntityKey,
    properties: Properties,
    byMs: number,
    refusal: unknown,
  ): Promise<Seen> {
    const entry = await this.#get(key);
    if (!entry) throw new Stale(key.rowKey);
    const owner = this.baseOf(entry) ?? entry;
    const obstacle = await this.#obstacle(key, base, entry);
    if (obstacle === "duplicate") throw valueTaken(this.#context, key.rowKey, owner, refusal);
    if (obstacle) throw new Stale(key.rowKey, refusal, this.#heldUntil(key, entry));
    const taken = await this.#overwrite(key, entry.etag, properties, byMs);
    if (!taken) throw new Stale(owner.rowKey);
    return taken;
  }

  /** Steps 5 and 6, after the base is committed. */
  async #complete(write: ClaimedWrite): Promise<void> {
    const { base, newKeys, toRead, old, claimed, tripwire, commitByMs } = write;
    // A writer that was suspended beyond its deadline relies on nothing it has seen: `reconcile` reads again.
    const isInTime = this.#context.session.clock.now() <= commitByMs;
    const obsolete = old.filter((entry) => !hasKey(newKeys, entry));
    const [unfinished, areReleased] = await allEnded([
      this.#finish(write, isInTime ? [...claimed, ...old] : []),
      this.#release(obsolete),
    ]);
    const areLive = unfinished.length === 0 || (await this.reconcile(base, unfinished)) === "done";
    // Where an old entry was missing, a build or a repair may be about to insert it.
    await tripwire?.done(areLive && areReleased && old.length === toRead.length);
  }

  /** Makes the entries live that are still as `seen`. @returns the keys of the others. */
  async #finish(
    { toFinish, live: properties }: WritePlan,
    seen: readonly Seen[],
  ): Promise<EntityKey[]> {
    const unfinished: EntityKey[] = [];
    // A keys-only entry is complete as soon as it is claimed.
    if (this.#index.options.copy === "keys") return unfinished;
    await mapBounded(toFinish, LOOKUPS_AT_ONCE, async (key) => {
      const etag = seen.find((entry) => isSameKey(entry, key))?.etag;
      const isLive = etag && (await this.#overwrite(key, etag, properties));
      if (!isLive) unfinished.push(key);
    });
    return unfinished;
  }

  /** Deletes obsolete entries. @returns whether all are gone. */
  async #release(entries: readonly StoredEntity[]): Promise<boolean> {
    const areGone = await mapBounded(entries, LOOKUPS_AT_ONCE, (one) => this.#deleteSettled(one));
    return areGone.every(Boolean);
  }

  /** The base is committed: later failures are left to the worker or the scrub. */
  async #orLeaveBehind(base: EntityKey, work: Promise<unknown>): Promise<void> {
    try {
      await work;
    } catch (error) {
      reportLeftBehind(this.#context, base, error);
    }
  }

  async reconcile(
    base: EntityKey,
    hints: readonly EntityKey[],
    rewrites?: boolean,
  ): Promise<Reconciled> {
    const keys = [...hints];
    for (let round = 0; round < ROUNDS_MAX; round++) {
      // The entries first: any later claim is younger than what was read of them.
      const entries = await mapBounded(keys, LOOKUPS_AT_ONCE, (key) => this.#get(key));
      const { row, stored } = await this.baseAt(base);
      const desired = row ? this.keysOf(row) : [];
      const unread = desired.filter((key) => !hasKey(keys, key));
      keys.push(...unread);
      if (unread.length > 0) continue;
      const outcomes = await mapBounded(keys, LOOKUPS_AT_ONCE, async (key, i) => {
        const entry = entries[i];
        if (row && stored && hasKey(desired, key))
          return this.#makeLive(key, { row, stored }, entry, rewrites);
        const isOurs = entry && isSameKey(this.baseOf(entry), base);
        return !isOurs || (await this.#deleteSettled(entry)) ? "done" : "later";
      });
      if (outcomes.includes("again")) continue;
      if (outcomes.includes("later")) return "later";
      return outcomes.includes("duplicate") ? "duplicate" : "done";
    }
    return "later";
  }

  /** Makes the entry exist with the content of its base; `again` when another client was faster. */
  async #makeLive(
    key: EntityKey,
    base: Snapshot,
    entry: StoredEntity | undefined,
    rewrites: boolean | undefined,
  ): Promise<Reconciled | "again"> {
    const { stored } = base;
    if (!entry) {
      const properties = this.contentOf(base);
      if (!(await this.#writeIfCurrent({ kind: "insert", ...key, properties }))) return "again";
      // The base may have changed since, by a writer that did not see our entry. A later writer sees it and
      // maintains it.
      const { session, entity } = this.#context;
      const now = await session.tables.get(entity.table, keyOf(stored));
      return now?.etag === stored.etag ? "done" : "again";
    }
    const obstacle = await this.#obstacle(key, stored, entry);
    if (obstacle) return obstacle;
    const isOurs = isSameKey(this.baseOf(entry), stored);
    const isCurrent =
      lastToken(entry.properties) === (lastToken(stored.properties) ?? "") &&
      !(STATE_PROPERTY in entry.properties);
    if (isOurs && isCurrent && !rewrites) return "done";
    return (await this.#overwrite(key, entry.etag, this.contentOf(base))) ? "done" : "again";
  }

  /**
   * Why `base` may not overwrite the entry: "duplicate" if another entity holds the value, "later" until the entry
   * of an entity that does not hold it has settled.
   */
  async #obstacle(
    key: EntityKey,
    base: EntityKey,
    entry: StoredEntity,
  ): Promise<"duplicate" | "later" | undefined> {
    const owner = this.baseOf(entry);
    if (isSameKey(owner, base)) return undefined;
    // A row that is not an entry of this index stays: it is not ours to judge, and waiting would not change it.
    if (!owner || (await this.#isKeyOf(owner, key))) return "duplicate";
    return this.#isSettled(entry) ? undefined : "later";
  }

  async #isKeyOf(base: EntityKey, key: EntityKey): Promise<boolean> {
    const { row } = await this.baseAt(base);
    return row !== undefined && hasKey(this.keysOf(row), key);
  }

  /** False when the entry must stay for now. */
  async #deleteSettled(entry: StoredEntity): Promise<boolean> {
    if (!this.#isSettled(entry)) return false;
    const deleted = await this.#writeIfCurrent(deleteOf(entry, entry.etag));
    return deleted !== undefined || (await this.#get(entry)) === undefined;
  }

  /** Why a value that nobody has cannot be had yet; the time is by the service's clock. */
  #heldUntil({ rowKey }: EntityKey, { timestamp }: StoredEntity): string {
    const { settleMs } = this.#index.timing;
    const from = timestamp
      ? `from ${new Date(Date.parse(timestamp) + settleMs).toISOString()} on`
      : "later";
    return `${rowKey} was given up, or claimed in vain, less than ${settleMs / 1000} s after it was written. It can be taken ${from}: until then a writer that claimed it might still commit.`;
  }

  #isSettled(entry: StoredEntity): boolean {
    return ageOf(entry) >= this.#index.timing.settleMs;
  }

  keysOf(row: Row): EntityKey[] {
    return this.rows.keysOf(row);
  }

  baseOf(entry: StoredEntity): EntityKey | undefined {
    const partitionKey = entry.properties[BASE_PARTITION_KEY]?.value;
    const rowKey = entry.properties[BASE_ROW_KEY]?.value;
    if (partitionKey === undefined || rowKey === undefined) return undefined;
    // Entries that a server kept before have no type; the next write of their entity gives them one.
    const isUntyped = !(this.rows.base.typeProperty in entry.properties);
    if (!isUntyped && !this.rows.isEntry(entry)) return undefined;
    return { partitionKey: String(partitionKey), rowKey: String(rowKey) };
  }

  contentOf({ row, stored }: Snapshot): Properties {
    const { properties } = stored;
    return this.#live(
      row,
      stored,
      lastToken(properties) ?? "",
      this.rows.base.unknownIn(properties),
    );
  }

  /** What the entries of an entity copy, for comparison. */
  #copiesIn({ row, stored }: Snapshot): string {
    return JSON.stringify(this.rows.copyOf(row, this.rows.base.unknownIn(stored.properties)));
  }

  #live(row: Row, base: EntityKey, token: string, unknown: Unknown | undefined): Properties {
    return Object.assign(this.rows.copyOf(row, unknown), this.#marks(base, token, unknown));
  }

  /** Holds nothing that is not committed yet. A keys-only entry is complete at once. */
  #pending(base: EntityKey, token: string, unknown: Unknown | undefined): Properties {
    const marks = this.#marks(base, token, unknown);
    return this.#index.options.copy === "keys" ? marks : { [STATE_PROPERTY]: PENDING, ...marks };
  }

  /** The properties of every entry: the keys of its base, its type and its tokens. */
  #marks(
    { partitionKey, rowKey }: EntityKey,
    token: string,
    unknown: Unknown | undefined,
  ): Properties {
    return {
      [BASE_PARTITION_KEY]: text(partitionKey),
      [BASE_ROW_KEY]: text(rowKey),
      ...this.rows.marks(token, unknown),
    };
  }

  async baseAt(key: EntityKey): Promise<Partial<Snapshot>> {
    return (await readAt(this.#context, key)) ?? {};
  }

  #get(key: EntityKey): Promise<StoredEntity | undefined> {
    return this.#context.session.tables.get(this.table, keyOf(key));
  }

  /** @throws Stale when it is too late; otherwise as `commit` of the port. */
  async #write(mutation: Mutation, byMs = Number.POSITIVE_INFINITY): Promise<Seen> {
    const { session } = this.#context;
    const { partitionKey, rowKey } = mutation;
    const deadline = timeLeft(session, byMs, rowKey);
    const [etag] = await session.tables.commit(this.table, [mutation], deadline);
    return { partitionKey, rowKey, etag };
  }

  #overwrite(
    key: EntityKey,
    ifMatch: string,
    properties: Properties,
    byMs?: number,
  ): Promise<Seen | undefined> {
    return this.#writeIfCurrent({ kind: "replace", ...key, ifMatch, properties }, byMs);
  }

  /** Undefined when the row has changed. @throws Stale when it is too late. */
  async #writeIfCurrent(mutation: Mutation, byMs?: number): Promise<Seen | undefined> {
    try {
      return await this.#write(mutation, byMs);
    } catch (error) {
      if (!isLostRace(error)) throw error;
      return undefined;
    }
  }
}

/** What a write does to the entries. */
interface WritePlan {
  readonly base: EntityKey;
  readonly newKeys: readonly EntityKey[];
  readonly toClaim: readonly EntityKey[];
  /** Entries of the old value that are to be released, or that stay and receive new copies. */
  readonly toRead: readonly EntityKey[];
  /** To be made live: the claimed ones, and those that receive new copies. */
  readonly toFinish: readonly EntityKey[];
  /** The properties of an entry before the commit, and after it. */
  readonly pending: Properties;
  readonly live: Properties;
}

/** A write whose entries are claimed, so that its base may be committed. */
interface ClaimedWrite extends WritePlan {
  /** Those of `toRead` that exist. */
  readonly old: readonly StoredEntity[];
  readonly claimed: readonly Seen[];
  readonly tripwire: Tripwire | undefined;
  readonly commitByMs: number;
}

/** An entry as it was read or written. */
interface Seen extends EntityKey {
  readonly etag: string | undefined;
}

/** Waits for all, so that none is still in flight when one fails. @throws the first failure. */
async function allEnded<Work extends readonly unknown[] | []>(work: Work) {
  await Promise.allSettled(work);
  return Promise.all(work);
}
