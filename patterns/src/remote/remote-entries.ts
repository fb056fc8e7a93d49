import { isTableError } from "../errors.ts";
import { REPAIR_QUEUE, repairTripwire, reportLeftBehind } from "../messages/repair-order.ts";
import type { Tripwire } from "../messages/tripwire.ts";
import type { EntryKeeper, Reconciled } from "../model/entity-index.ts";
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
import type { Change, Contribution, FollowerContext, Snapshot } from "../model/follower.ts";
import { type Properties, text } from "../ports/edm.ts";
import { deleteOf, keyOf } from "../ports/mutation.ts";
import type { EntityKey, Mutation, StoredEntity } from "../ports/tables.ts";
import { commitIfCurrent } from "../store/commit-if-current.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "../store/limit.ts";
import { lastToken } from "../store/write-token.ts";
import { readAt, Stale, timeLeft } from "../write.ts";
import type { RemoteDeclaration, WriteMode } from "./remote-options.ts";

/** The state of an entry: pending, or absent for a live one. */
export const STATE = "rh_s";
const PENDING = text("p");

const ROUNDS_MAX = 5;

/**
 * Entries that cannot be committed with their base. The order of a write makes them safe: claim the new entry
 * (pending), commit the base, make the entry live, delete the old one. So an entry is never missing; surplus
 * entries may exist, which readers see through and repairs remove.
 *
 * The settle rule: the only dangerous act is to delete an entry or to take a unique one over. It is done only
 * when the entry was untouched for `settleMs` by the service's clock, and on condition of the ETag that was
 * read. A younger entry may carry the claim of a writer that has yet to commit.
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
    this.#mode = index.options.mode ?? (context.database.queues ? "guarded" : "inline");
    this.isLeftToScrub = this.#mode === "inline";
    this.table = this.rows.table;
    this.tag = this.rows.tag;
  }

  keysOf(row: Row): EntityKey[] {
    return this.rows.keysOf(row);
  }

  baseOf(entry: StoredEntity): EntityKey | undefined {
    const partitionKey = entry.properties[BASE_PARTITION_KEY]?.value;
    const rowKey = entry.properties[BASE_ROW_KEY]?.value;
    if (partitionKey === undefined || rowKey === undefined || !this.rows.isEntry(entry)) {
      return undefined;
    }
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

  async prepare(change: Change): Promise<Contribution> {
    const { key: base, before, after, unknown, token } = change;
    const oldKeys = before ? this.keysOf(before.row) : [];
    const newKeys = after ? this.keysOf(after) : [];
    const added = newKeys.filter((key) => !hasKey(oldKeys, key));
    // Entries that stay are written only if their copies change; the others are to be deleted.
    const areCopiesAlike =
      !before || !after || this.#print(before) === JSON.stringify(this.rows.copyOf(after, unknown));
    const touched = oldKeys.filter((key) => !areCopiesAlike || !hasKey(newKeys, key));
    if (added.length + touched.length === 0) return {};
    const live = after && this.#live(after, base, token, unknown);
    const pending = this.#pending(base, token, unknown);
    for (const key of newKeys) assertEntityFits(key, live ?? {});
    const { clock } = this.#context.database;
    const nowMs = clock.now();
    const tripwire = await this.#tripwire(change);
    // Another index may have sent it long before, and a commit after it fires would have no worker to complete
    // it.
    const commitByMs = (tripwire?.sinceMs ?? nowMs) + this.#index.timing.deadlineMs;
    if (tripwire && this.#mode === "queued") {
      return { commitByMs, committed: () => this.#quietly(base, () => tripwire.fire()) };
    }

    const found: StoredEntity[] = [];
    const claimed: Seen[] = [];
    await settled([
      ...touched.map(async (key) => {
        const entry = await this.#get(key);
        if (entry && isSameKey(this.baseOf(entry), base)) found.push(entry);
      }),
      ...added.map(async (key) => {
        const { etag } = await this.#claim(key, base, pending, commitByMs);
        claimed.push({ etag, ...key });
      }),
    ]);
    const finish = async (): Promise<boolean> => {
      const seen = clock.now() <= commitByMs ? [...claimed, ...found] : [];
      const toFinish = newKeys.filter((key) => !areCopiesAlike || hasKey(added, key));
      const finished = this.#finish(toFinish, live ?? {}, seen);
      const obsolete = found.filter((entry) => !hasKey(newKeys, entry));
      const deleted = mapBounded(obsolete, LOOKUPS_AT_ONCE, (entry) => this.#deleteSettled(entry));
      await settled([finished, deleted]);
      const left = await finished;
      const areLive = left.length === 0 || (await this.reconcile(base, left)) === "done";
      // Where an old entry was missing, a build or a repair may be about to insert it.
      return areLive && found.length === touched.length && !(await deleted).includes(false);
    };
    return {
      // A message that is handled before the commit finds nothing to do and is deleted.
      ...((tripwire || added.length > 0) && { commitByMs }),
      committed: () =>
        this.#quietly(base, async () => {
          // Not inside the `?.` call: without a tripwire there is just as much to finish.
          const isClean = await finish();
          await tripwire?.done(isClean);
        }),
    };
  }

  /** Makes these entries live if they are still as `seen`. @returns those that are not live. */
  async #finish(
    keys: readonly EntityKey[],
    properties: Properties,
    seen: readonly Seen[],
  ): Promise<EntityKey[]> {
    const left: EntityKey[] = [];
    // A keys-only entry is complete as soon as it is claimed.
    if (this.#index.options.copy === "keys") return left;
    await mapBounded(keys, LOOKUPS_AT_ONCE, async (key) => {
      const ifMatch = seen.find((entry) => isSameKey(entry, key))?.etag;
      if (ifMatch && (await this.#try({ kind: "replace", ...key, ifMatch, properties }))) return;
      left.push(key);
    });
    return left;
  }

  async #tripwire(change: Change): Promise<Tripwire | undefined> {
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

  /** Writes the pending entry. @throws unique-violation, or Stale when another writer is about to. */
  async #claim(
    key: EntityKey,
    base: EntityKey,
    properties: Properties,
    byMs: number,
  ): Promise<{ readonly etag: string | undefined }> {
    const kind = this.#index.options.unique ? "insert" : "insertOrReplace";
    let refusal: unknown;
    const claimed = await this.#try({ kind, ...key, properties }, byMs, (lost) => {
      refusal = lost;
    });
    if (claimed) return claimed;
    const entry = await this.#get(key);
    const owner = entry && this.baseOf(entry);
    if (!entry || !(await this.#mayTake(key, base, entry, refusal))) {
      throw new Stale(key.rowKey);
    }
    const { etag: ifMatch } = entry;
    const taken = await this.#try({ kind: "replace", ...key, ifMatch, properties }, byMs);
    if (!taken) throw new Stale(owner?.rowKey ?? key.rowKey);
    return taken;
  }

  /** Whether `base` may take the entry over. @throws unique-violation when another entity holds the value. */
  async #mayTake(
    key: EntityKey,
    base: EntityKey,
    entry: StoredEntity,
    refusal?: unknown,
  ): Promise<boolean> {
    const owner = this.baseOf(entry);
    if (isSameKey(owner, base)) return true;
    // A row that is not an entry of this index stays: it is not ours to judge, and waiting would not change it.
    if (!owner || (await this.#holds(owner, key))) {
      throw valueTaken(this.#context, key.rowKey, owner ?? entry, refusal);
    }
    return this.#isSettled(entry);
  }

  async #holds(base: EntityKey, key: EntityKey): Promise<boolean> {
    const { row } = await this.baseAt(base);
    return row !== undefined && hasKey(this.keysOf(row), key);
  }

  /** False when the entry must stay for now. */
  async #deleteSettled(entry: StoredEntity): Promise<boolean> {
    if (!this.#isSettled(entry)) return false;
    const deleted = await this.#try(deleteOf(entry, entry.etag));
    return deleted !== undefined || (await this.#get(entry)) === undefined;
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
          return this.#repair(key, row, stored, entry, rewrites);
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

  /** Makes the entry of `stored` exist with the right content; `again` when another client was faster. */
  async #repair(
    key: EntityKey,
    row: Row,
    stored: StoredEntity,
    entry: StoredEntity | undefined,
    rewrites: boolean | undefined,
  ): Promise<Reconciled | "again"> {
    if (!entry) {
      const properties = this.contentOf({ row, stored });
      if (!(await this.#try({ kind: "insert", ...key, properties }))) return "again";
      // The base may have changed since, by a writer that did not see our entry. A later writer sees it and
      // maintains it.
      const now = await this.baseAt(stored);
      return now.stored?.etag === stored.etag ? "done" : "again";
    }
    try {
      if (!(await this.#mayTake(key, stored, entry))) return "unsettled";
    } catch (error) {
      if (isTableError(error, "unique-violation")) return "duplicate";
      throw error;
    }
    const isOurs = isSameKey(this.baseOf(entry), stored);
    const isCurrent =
      lastToken(entry.properties) === (lastToken(stored.properties) ?? "") &&
      !(STATE in entry.properties);
    if (isOurs && isCurrent && !rewrites) return "done";
    const { etag: ifMatch } = entry;
    const properties = this.contentOf({ row, stored });
    return (await this.#try({ kind: "replace", ...key, ifMatch, properties })) ? "done" : "again";
  }

  #live(row: Row, base: EntityKey, token: string, unknown: Unknown | undefined): Properties {
    return Object.assign(this.rows.copyOf(row, unknown), this.#ties(base, token, unknown));
  }

  /** Holds nothing that is not committed yet. A keys-only entry is complete at once. */
  #pending(base: EntityKey, token: string, unknown: Unknown | undefined): Properties {
    const ties = this.#ties(base, token, unknown);
    return this.#index.options.copy === "keys" ? ties : { [STATE]: PENDING, ...ties };
  }

  #ties(
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

  /** What the entries of an entity copy, for comparison. */
  #print({ row, stored }: Snapshot): string {
    return JSON.stringify(this.rows.copyOf(row, this.rows.base.unknownIn(stored.properties)));
  }

  #isSettled(entry: StoredEntity): boolean {
    return ageOf(entry) >= this.#index.timing.settleMs;
  }

  #get(key: EntityKey): Promise<StoredEntity | undefined> {
    return this.#context.database.tables.get(this.table, keyOf(key));
  }

  async baseAt(key: EntityKey): Promise<Partial<Snapshot>> {
    return (await readAt(this.#context, key)) ?? {};
  }

  /** Undefined when the row has changed. @throws Stale when it is too late. */
  async #try(
    mutation: Mutation,
    byMs = Number.POSITIVE_INFINITY,
    onLost?: (refusal: unknown) => void,
  ): Promise<{ readonly etag: string | undefined } | undefined> {
    const { database } = this.#context;
    const timeout = timeLeft(database, byMs, mutation.rowKey);
    const written = await commitIfCurrent(database, this.table, [mutation], timeout, onLost);
    return written && { etag: written[0] };
  }

  /** The base is committed: later failures are left to the worker or the scrub. */
  async #quietly(base: EntityKey, work: () => Promise<unknown> | undefined): Promise<void> {
    try {
      await work();
    } catch (error) {
      reportLeftBehind(this.#context, base, error);
    }
  }
}

/** An entry as it was read or written. */
interface Seen extends EntityKey {
  readonly etag: string | undefined;
}

/** Waits for all, so that none is still in flight when one fails. @throws the first failure. */
async function settled(work: readonly Promise<unknown>[]): Promise<void> {
  await Promise.allSettled(work);
  await Promise.all(work);
}
