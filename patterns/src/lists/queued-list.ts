import { readAt } from "../entities/write.ts";
import type { KeyValues } from "../keys/key-shape.ts";
import {
  REPAIR_QUEUE,
  repairTripwire,
  reportLeftBehind,
  requestRepair,
} from "../messages/repair-order.ts";
import { assertKeyFits, partitionKeyOf, type Row } from "../model/entity-rows.ts";
import { EntryKeys, hasKey } from "../model/entry.ts";
import type { Each } from "../model/entry-options.ts";
import type {
  Change,
  Contribution,
  FollowerContext,
  Index,
  Listed,
  ListKeeper,
  OpenIndex,
  Reconciled,
} from "../model/follower.ts";
import type { Continuation, EntityKey } from "../ports/tables.ts";
import type { Saved } from "../query/query.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "../store/limit.ts";
import { tokensOf } from "../store/write-token.ts";

/** The options of lists that are outside their members' partition. */
export interface QueuedListOptions<E extends string = string> {
  /** Pure. Entities for which it returns false are in no list. */
  readonly when?: (entity: Row) => boolean;
  /** An entity is in the list of each value; see the index tables. */
  readonly each?: Each<E>;
  /** The queue in which the worker receives changes. Default: "index-repairs". */
  readonly queue?: string;
}

export interface QueuedListApi<T, Value> {
  /** The keys of the members as listed, sorted; some of them may have left the list. */
  keys(value: Value): Promise<EntityKey[]>;
  /** The members. Entities that have left are omitted, and a repair is requested for them. */
  get(value: Value): Promise<Saved<T>[]>;
}

/** Where lists are stored. A member is text. */
export interface ListStore {
  /** How much text it may append to a list's row key. */
  readonly suffixLength: number;
  /** Sorted, each once. */
  members(list: EntityKey): Promise<string[]>;
  /** Reads the part of the list that a change of `member` writes. */
  open(list: EntityKey, member: string): Promise<ListSlot>;
  /** All members of all lists. A list may come in several pieces. */
  all(
    from?: Continuation,
  ): AsyncIterable<Omit<Listed, "members"> & { readonly members: readonly string[] }>;
  /** Deletes all lists. Calls `keep` before each request. */
  drop(keep: () => Promise<void>): Promise<void>;
}

export interface ListSlot {
  readonly isMember: boolean;
  /**
   * Adds or removes the member. An existing member is written again, so that a worker that read the list
   * earlier and is about to remove it loses the race. False when another client has written since the slot was
   * opened.
   */
  set(isMember: boolean): Promise<boolean>;
}

/** A writer commits within this time of sending its message, or it starts over. */
const DEADLINE_MS = 20_000;
/** When a worker takes over for a writer that did not finish. */
const TRIPWIRE_MS = 90_000;
const BACKOFF_MS = 200;
const ROUNDS_MAX = 8;

/**
 * Lists that a worker maintains. The writer sends a message that names its entity and the lists that may be
 * wrong, commits, and then makes the message visible; if it crashes in between, the message becomes visible
 * later. The worker reads the list, then the entity, and writes the list on condition that it has not changed.
 */
export class QueuedList implements ListKeeper {
  readonly #context: FollowerContext;
  readonly #queue: string;
  readonly #entries: EntryKeys;
  readonly #store: ListStore;

  constructor(
    context: FollowerContext,
    index: Index & { readonly options: QueuedListOptions },
    storeFor: (entries: EntryKeys) => ListStore,
  ) {
    this.#context = context;
    this.#queue = index.options.queue ?? REPAIR_QUEUE;
    this.#entries = new EntryKeys(context, index);
    this.#store = storeFor(this.#entries);
  }

  follower(): OpenIndex {
    return {
      api: this,
      reachesOut: true,
      prepare: (change) => this.prepare(change),
      keeper: this,
    };
  }

  keysOf(row: Row): EntityKey[] {
    const keys = this.#entries.keysOf(row);
    for (const { partitionKey, rowKey } of keys) {
      const longest = rowKey.padEnd(rowKey.length + this.#store.suffixLength);
      assertKeyFits({ partitionKey, rowKey: longest }, this.#context.session.profile);
    }
    return keys;
  }

  async prepare(change: Change): Promise<Contribution> {
    const { before, after } = change;
    const [old = [], next = []] = [before?.row, after].map((row) => row && this.keysOf(row));
    // Other software writes rows without tokens, and lists them nowhere.
    const isListed = !before || tokensOf(before.stored.properties) !== undefined;
    const isSame = [...old, ...next].every((key) => hasKey(old, key) && hasKey(next, key));
    if (isSame && (isListed || next.length === 0)) return {};
    const { session } = this.#context;
    // A message that is handled before the commit finds nothing to do and is deleted.
    const commitByMs = session.clock.now() + DEADLINE_MS;
    const wire = { queue: this.#queue, delayMs: TRIPWIRE_MS };
    const tripwire = await repairTripwire(this.#context, change, wire);
    return {
      commitByMs,
      committed: async () => {
        await tripwire.fire().catch((error) => reportLeftBehind(this.#context, change.key, error));
      },
    };
  }

  async keys(value: KeyValues): Promise<EntityKey[]> {
    await this.#context.readable?.();
    return (await this.#store.members(listOf(this.#entries, value))).map(baseOf);
  }

  async get(value: KeyValues): Promise<Row[]> {
    const list = listOf(this.#entries, value);
    const found = await mapBounded(await this.keys(value), LOOKUPS_AT_ONCE, async (key) => {
      const base = await readAt(this.#context, key);
      if (base && hasKey(this.keysOf(base.row), list)) return base.row;
      await requestRepair(this.#context, this.#queue, key, list);
      return undefined;
    });
    return found.filter((row) => row !== undefined);
  }

  /**
   * Judges only the hinted lists. A writer that made the entity a member of other lists sent a message that
   * names them. If we added it there and crashed, our own message would not bring a worker back to them.
   */
  async reconcile(base: EntityKey, lists: readonly EntityKey[]): Promise<Reconciled> {
    const member = memberOf(base);
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const slots = await mapBounded(lists, LOOKUPS_AT_ONCE, (list) =>
        this.#store.open(list, member),
      );
      const found = await readAt(this.#context, base);
      const desired = found ? this.keysOf(found.row) : [];
      const results = await mapBounded(slots, LOOKUPS_AT_ONCE, async (slot, i) => {
        const isMember = hasKey(desired, lists[i]!);
        return !isMember && !slot.isMember ? true : slot.set(isMember);
      });
      // A worker for a later change of the entity may have read a list before we wrote it.
      const now = await readAt(this.#context, base);
      if (results.every(Boolean) && now?.stored.etag === found?.stored.etag) return "done";
      const { clock, random } = this.#context.session;
      await clock.sleep(BACKOFF_MS * random());
    }
    return "later";
  }

  async membersOf(list: EntityKey): Promise<(base: EntityKey) => boolean> {
    const members = new Set(await this.#store.members(list));
    return (base) => members.has(memberOf(base));
  }

  async *lists(from?: Continuation): AsyncGenerator<Listed> {
    for await (const piece of this.#store.all(from)) {
      yield { ...piece, members: piece.members.map(baseOf) };
    }
  }

  drop(keep: () => Promise<void>): Promise<void> {
    return this.#store.drop(keep);
  }
}

/** The key of the list for a value. @throws validation-failed when `value` leaves a segment unbound. */
export function listOf({ partition, row }: EntryKeys, value: KeyValues): EntityKey {
  return { partitionKey: partitionKeyOf(partition, value), rowKey: partitionKeyOf(row, value) };
}

/** The text for an entity in a list. Keys contain no spaces. */
function memberOf({ partitionKey, rowKey }: EntityKey): string {
  return `${partitionKey} ${rowKey}`;
}

function baseOf(member: string): EntityKey {
  const [partitionKey = "", rowKey = ""] = member.split(" ");
  return { partitionKey, rowKey };
}

export function membersIn(text: string): string[] {
  return text.split("\n").filter(Boolean);
}

/** With or without `member`, sorted. */
export function withMember(
  members: readonly string[],
  member: string,
  isMember: boolean,
): string[] {
  const others = members.filter((other) => other !== member);
  return isMember ? [...others, member].sort() : others;
}
