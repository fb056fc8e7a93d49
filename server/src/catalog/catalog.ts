import assert from "node:assert/strict";
import { LIMITS } from "@rowhouse/protocol/limits";
import { type Awaitable, whenReady } from "../awaitable.ts";
import type { Clock } from "../clock.ts";
import { eachBounded } from "../each-bounded.ts";
import { Contention, LOST } from "../engine/contention.ts";
import type { Check, Engine, Entry, Key, Put } from "../engine/engine.ts";
import {
  copyKey,
  encodeId,
  encodeText,
  partitionPrefixRange,
  sortPrefixRange,
} from "../engine/key-codec.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import { accountIdOf, accountPartition, storedAccounts } from "./account-ids.ts";
import type { KeySpace } from "./key-spaces.ts";

/** A table, queue or container: its name in its account, and the id under which its contents are stored. */
export interface Named<Value> {
  /** As created; look-ups ignore case. */
  readonly name: string;
  /** Never reused, so the contents of a removed name never appear under another. */
  readonly id: number;
  readonly value: Value;
  /** The key and the version that was read: a commit can check them. */
  readonly key: Key;
  readonly version: number;
}

/** The name that was created, or that existed before. */
export interface Created<Value> {
  readonly created: boolean;
  readonly named: Named<Value>;
}

export interface CatalogPage {
  readonly prefix: string;
  readonly from: string;
  readonly max: number;
  /** Stored bytes after which the page ends, though not before its first name. Default: those of a query. */
  readonly bytesMax?: number;
  /** Names for which it returns false are treated as absent. Default: none. */
  readonly shows?: (name: string) => boolean;
  /** The time at which the page ends wherever it is, by the catalog's clock. Default: never. */
  readonly deadline?: number;
}

/** What becomes of a name in `Catalog.revise`. A value creates the name if it is absent. */
export type Revision<Value> = "keep" | "remove" | { readonly value: Value };

const COUNTER_SORT = Uint8Array.of(0x01);
const NAME_PREFIX = Uint8Array.of(0x02);
const REMOVED_PREFIX = Uint8Array.of(0x03);
const NAMES_CACHED_MAX = 10_000;
/** A page reads at least this many names however late it begins, so continuations reach the end. */
const NAMES_PER_CLOCK_LOOK = 128;

/**
 * The names of one service's tables, queues or containers, account by account. The names of an account live
 * in one partition, so races to create or remove one are decided by a single commit. The loser of a race
 * retries; see `Contention`.
 *
 * A name is absent or taken. `create` takes it under a new id; `renew` gives it another id, and so empties
 * it; `remove` makes it absent. The last two take effect immediately and leave a note with the old id, from
 * which `reaper.ts` then frees the contents.
 *
 * `Value` is JSON. Cached names are checked against the engine at every use (`isCurrent`), in the same
 * snapshot as the contents read along with them, so changes by other front ends are seen immediately.
 */
export class Catalog<Value> {
  readonly #engine: Engine;
  readonly #space: KeySpace;
  readonly #accountIds: ReadonlyMap<string, number>;
  readonly #clock: Clock;
  readonly #contention: Contention;
  /** By account, then by the name as requested: building a key from both would cost more than the look-up. */
  readonly #cache = new Map<string, Map<string, Named<Value>>>();

  constructor(
    engine: Engine,
    space: KeySpace,
    accountIds: ReadonlyMap<string, number>,
    clock: Clock,
  ) {
    this.#engine = engine;
    this.#space = space;
    this.#accountIds = accountIds;
    this.#clock = clock;
    this.#contention = new Contention(clock);
  }

  accountId(account: string): number {
    return accountIdOf(this.#accountIds, account);
  }

  get accountNames(): Iterable<string> {
    return this.#accountIds.keys();
  }

  /** The last known state of a name, which may be stale: read `key` too, and check with `isCurrent`. */
  remembered(account: string, name: string): Named<Value> | undefined {
    return this.#cache.get(account)?.get(name);
  }

  /** Whether `entry`, read at `named.key`, is still the one that `named` was read from. */
  isCurrent(named: Named<Value>, entry: Entry | undefined): boolean {
    return entry !== undefined && entry.version === named.version;
  }

  find(account: string, name: string): Awaitable<Named<Value> | undefined> {
    // Building the key takes as long as finding the entry.
    const key = this.remembered(account, name)?.key ?? this.#key(account, name);
    return whenReady(this.#engine.get([key]), ([entry]) => {
      let cache = this.#cache.get(account);
      if (!entry) {
        cache?.delete(name);
        return undefined;
      }
      const cached = cache?.get(name);
      if (cached?.version === entry.version) return cached;
      const named = read<Value>(entry);
      if (!cache || cache.size >= NAMES_CACHED_MAX) {
        cache = new Map();
        this.#cache.set(account, cache);
      }
      cache.set(name, named);
      return named;
    });
  }

  /** Creates a name, unless it is taken: then returns the existing one. */
  create(account: string, name: string, value: Value): Promise<Created<Value>> {
    const key = this.#key(account, name);
    const counterKey = this.#counterKey(account);
    return this.#contention.inTurn(nextId(account), async () => {
      const [taken, counter] = await this.#engine.get([key, counterKey]);
      if (taken) return { created: false, named: read<Value>(taken) };
      const id = counter ? readJson<number>(counter) : 0;
      const result = await this.#engine.commit({
        version: this.#engine.nextVersion(),
        checks: [
          { key, expected: "absent" },
          { key: counterKey, expected: counter?.version ?? "absent" },
        ],
        puts: [
          { key, value: json({ name, id, value }) },
          { key: counterKey, value: json(id + 1) },
        ],
        deletes: [],
      });
      if (!result.committed) return LOST;
      return { created: true, named: { name, id, value, key, version: result.versions[0]! } };
    });
  }

  /** Replaces the value of a name; returns undefined if there is no such name. */
  update(
    account: string,
    name: string,
    change: (value: Value) => Value,
  ): Promise<Named<Value> | undefined> {
    return this.#contention.settle(oneName(account, name), async () => {
      const named = await this.find(account, name);
      if (!named) return undefined;
      const value = change(named.value);
      const result = await this.#engine.commit({
        version: this.#engine.nextVersion(),
        checks: [{ key: named.key, expected: named.version }],
        puts: [{ key: named.key, value: json({ name: named.name, id: named.id, value }) }],
        deletes: [],
      });
      return result.committed ? { ...named, value, version: result.versions[0]! } : LOST;
    });
  }

  /**
   * Gives a name a new id under which nothing is stored: all its contents are gone in one step, whatever
   * their number. A note of the old id stays, as for a removed name.
   * @returns the name as it is now; undefined if there is no such name
   */
  renew(account: string, name: string): Promise<Named<Value> | undefined> {
    const counterKey = this.#counterKey(account);
    return this.#contention.inTurn(nextId(account), async () => {
      const named = await this.find(account, name);
      if (!named) return undefined;
      const [counter] = await this.#engine.get([counterKey]);
      assert(counter, "A catalog with names has a counter.");
      const id = readJson<number>(counter);
      const { key, value } = named;
      const result = await this.#engine.commit({
        version: this.#engine.nextVersion(),
        checks: [
          { key, expected: named.version },
          { key: counterKey, expected: counter.version },
        ],
        puts: [
          { key, value: json({ name: named.name, id, value }) },
          { key: counterKey, value: json(id + 1) },
          { key: this.#removedKey(account, named.id), value: json(named.id) },
        ],
        deletes: [],
        frees: true,
      });
      return result.committed ? { ...named, id, version: result.versions[0]! } : LOST;
    });
  }

  /**
   * Changes several names in one commit: all or nothing.
   * @param decide what becomes of each name as it is now, undefined where it is absent; in the order of `names`. Called
   *   again if any of them has changed in the meantime; may throw
   * @returns the names as they are then; undefined where `decide` returned nothing
   */
  revise(
    account: string,
    names: readonly string[],
    decide: (
      found: readonly (Named<Value> | undefined)[],
      nextId: number,
    ) => readonly Revision<Value>[] | undefined,
  ): Promise<readonly (Named<Value> | undefined)[] | undefined> {
    const counterKey = this.#counterKey(account);
    const keys = names.map((name) => this.#key(account, name));
    return this.#contention.inTurn(nextId(account), async () => {
      const entries = await this.#engine.get([counterKey, ...keys]);
      const counter = entries.shift();
      const found = entries.map((entry) => entry && read<Value>(entry));
      const firstId = counter ? readJson<number>(counter) : 0;
      const revisions = decide(found, firstId);
      if (!revisions) return undefined;
      const puts: Put[] = [];
      const deletes: Key[] = [];
      let id = firstId;
      const become = revisions.map((revision, index) => {
        const named = found[index];
        const key = keys[index]!;
        if (revision === "keep") return named;
        if (revision === "remove") {
          assert(named, "Only a name that exists can be removed.");
          puts.push({ key: this.#removedKey(account, named.id), value: json(named.id) });
          deletes.push(key);
          return undefined;
        }
        const own = named ?? { name: names[index]!, id: id++, key };
        const revised = { name: own.name, id: own.id, value: revision.value };
        puts.push({ key, value: json(revised) });
        return { ...revised, key, at: puts.length - 1 };
      });
      if (id !== firstId) puts.push({ key: counterKey, value: json(id) });
      const result = await this.#engine.commit({
        version: this.#engine.nextVersion(),
        checks: [
          { key: counterKey, expected: counter?.version ?? "absent" },
          ...keys.map((key, index): Check => {
            return { key, expected: found[index]?.version ?? "absent" };
          }),
        ],
        puts,
        deletes,
        ...(deletes.length > 0 && { frees: true }),
      });
      if (!result.committed) return LOST;
      return become.map((named) =>
        named && "at" in named ? { ...named, version: result.versions[named.at]! } : named,
      );
    });
  }

  /**
   * Removes a name, leaving the note of its id from which the reaper works.
   * @param permits last check of what is removed, repeated if that has changed in the meantime; may throw
   * @returns the removed name; undefined if there was no such name
   */
  remove(
    account: string,
    name: string,
    permits: (named: Named<Value>) => void = () => {},
  ): Promise<Named<Value> | undefined> {
    return this.#contention.settle(oneName(account, name), async () => {
      const named = await this.find(account, name);
      if (!named) return undefined;
      permits(named);
      const result = await this.#engine.commit({
        version: this.#engine.nextVersion(),
        checks: [{ key: named.key, expected: named.version }],
        puts: [{ key: this.#removedKey(account, named.id), value: json(named.id) }],
        deletes: [named.key],
      });
      return result.committed ? named : LOST;
    });
  }

  /** Removes every name of an account, as `remove` does. Names created meanwhile may stay. */
  async removeAll(account: string): Promise<void> {
    const names = await this.list(account, { prefix: "", from: "" }, () => "take");
    await eachBounded(names, async ({ name }) => {
      await this.remove(account, name);
    });
  }

  /**
   * Names that begin with `prefix`, in ascending order, from `from` on (included). `accept` is called with
   * each and its stored length, and returns whether to take it, pass over it, or end before it.
   */
  async list(
    account: string,
    options: { readonly prefix: string; readonly from: string },
    accept: (named: Named<Value>, bytes: number) => "take" | "pass" | "end",
  ): Promise<Named<Value>[]> {
    const partition = this.#partition(account);
    const prefix = encodeText(options.prefix, NAME_PREFIX);
    const from = encodeText(options.from, NAME_PREFIX);
    const start = { partition, sort: Buffer.compare(from, prefix) > 0 ? from : prefix };
    const { end } = sortPrefixRange(partition, prefix);
    const taken: Named<Value>[] = [];
    await scanToEnd(this.#engine, { start, end }, (entry) => {
      const named = read<Value>(entry);
      const answer = accept(named, entry.key.sort.length + entry.value.length);
      if (answer === "take") taken.push(named);
      return answer !== "end";
    });
    return taken;
  }

  /**
   * At most `max` names of such a list, and the name that follows them. If the deadline ended the page,
   * `shows` may not accept that name.
   */
  async page(
    account: string,
    {
      prefix,
      from,
      max,
      bytesMax = LIMITS.pageBytesMax,
      shows = () => true,
      deadline = Number.POSITIVE_INFINITY,
    }: CatalogPage,
  ): Promise<{ names: readonly Named<Value>[]; next: string | undefined }> {
    let read = 0;
    let taken = 0;
    let bytesTaken = 0;
    let next: string | undefined;
    const names = await this.list(account, { prefix, from }, ({ name }, bytes) => {
      const isOverdue = ++read % NAMES_PER_CLOCK_LOOK === 0 && this.#clock.now() > deadline;
      if (!isOverdue) {
        if (!shows(name)) return "pass";
        bytesTaken += bytes;
        const fits = taken === 0 || bytesTaken <= bytesMax;
        if (fits && taken++ < max) return "take";
      }
      next = name;
      return "end";
    });
    return { names, next };
  }

  /** The ids of removed names whose contents may still be stored, and the time of removal (µs). */
  async removed(account: string): Promise<{ id: number; version: number }[]> {
    const range = sortPrefixRange(this.#partition(account), REMOVED_PREFIX);
    const found: { id: number; version: number }[] = [];
    await scanToEnd(this.#engine, range, (entry) => {
      found.push({ id: readJson<number>(entry), version: entry.version });
      return true;
    });
    return found;
  }

  /** Deletes the note of a removed id, whose contents are gone. */
  async forgetRemoved(account: string, id: number): Promise<void> {
    await this.#engine.commit({
      version: this.#engine.nextVersion(),
      checks: [],
      puts: [],
      deletes: [this.#removedKey(account, id)],
    });
  }

  #partition(account: string): Uint8Array {
    return accountPartition(this.#space, this.accountId(account));
  }

  #key(account: string, name: string): Key {
    return {
      partition: this.#partition(account),
      sort: encodeText(name.toLowerCase(), NAME_PREFIX),
    };
  }

  #counterKey(account: string): Key {
    return { partition: this.#partition(account), sort: COUNTER_SORT };
  }

  #removedKey(account: string, id: number): Key {
    const sort = Buffer.concat([REMOVED_PREFIX, encodeId(id)]);
    return { partition: this.#partition(account), sort };
  }
}

export interface StoredName {
  readonly account: string;
  readonly accountId: number;
  readonly name: string;
  readonly id: number;
}

/** The stored names of one service: of every account, configured or not. */
export async function storedNames(engine: Engine, space: KeySpace): Promise<StoredName[]> {
  const names: StoredName[] = [];
  for (const [accountId, account] of await storedAccounts(engine)) {
    const partition = accountPartition(space, accountId);
    await scanToEnd(engine, partitionPrefixRange(partition), (entry) => {
      const { key } = entry;
      if (key.partition.length === partition.length && key.sort[0] === NAME_PREFIX[0]) {
        const { name, id } = read(entry);
        names.push({ account, accountId, name, id });
      }
      return true;
    });
  }
  return names;
}

/** Callers that need an id contend for the account's counter. */
function nextId(account: string): string {
  return account;
}

function oneName(account: string, name: string): string {
  return `${account}/${name.toLowerCase()}`;
}

function read<Value>(entry: Entry): Named<Value> {
  const stored = readJson<{ name: string; id: number; value: Value }>(entry);
  return { ...stored, key: copyKey(entry.key), version: entry.version };
}

/** Reads only what this file wrote; the shapes are its own. */
function readJson<T>(entry: Entry): T {
  return JSON.parse(Buffer.from(entry.value).toString("utf8")) as T;
}

function json(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value), "utf8");
}
