import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import { ServiceError } from "@rowhouse/protocol/errors";
import { type Awaitable, whenReady } from "../awaitable.ts";
import type { Catalog, Named } from "../catalog/catalog.ts";
import type { Clock } from "../clock.ts";
import { Contention, LOST } from "../engine/contention.ts";
import type { AtomicWrite, Check, Engine, Entry, Key, Put } from "../engine/engine.ts";
import { encodeText } from "../engine/key-codec.ts";
import { encodeRecord, recordOf, recordTimestamp } from "./entity-record.ts";
import { mergeRecord } from "./merge-record.ts";
import type { CommitOutcome, Mutation, StoredEntity } from "./mutation.ts";
import { entityKey, tablePrefix } from "./table-keys.ts";

/** What the catalog keeps of a table. */
export interface TableValue {
  readonly policies: readonly AccessPolicy[];
}

/** A table as reads and writes use it: its catalog entry and the bytes its keys begin with. */
export interface OpenTable {
  readonly named: Named<TableValue>;
  readonly prefix: Uint8Array;
  /** The engine's newest commit when the table was last found to be as `named` says. */
  foundAt: number | undefined;
}

/**
 * Maps entities to engine keys. Every read and write carries the table's catalog entry along, so
 * that a table removed elsewhere is noticed in the same snapshot and no operation needs two trips.
 */
export class EntityStore {
  readonly #engine: Engine;
  readonly #catalog: Catalog<TableValue>;
  readonly #contention: Contention;

  constructor(engine: Engine, catalog: Catalog<TableValue>, clock: Clock) {
    this.#contention = new Contention(clock);
    this.#engine = engine;
    this.#catalog = catalog;
  }

  /** @throws ServiceError TableNotFound */
  openTable(account: string, name: string): Awaitable<OpenTable> {
    return whenReady(this.#find(account, name), (table) => {
      if (!table) throw new ServiceError("TableNotFound");
      return table;
    });
  }

  /**
   * What the table was called when it was created, by which those who watch know it; undefined when there
   * is no such table. What was removed a moment ago may still be named: whoever reads or writes then finds out.
   */
  createdName(account: string, name: string): Awaitable<string | undefined> {
    const remembered = this.#catalog.remembered(account, name);
    if (remembered) return remembered.name;
    return whenReady(this.#find(account, name), (table) => table?.named.name);
  }

  /**
   * Checks that an opened table is still there. If so, nothing of it was freed while it was read.
   * @throws ServiceError TableNotFound
   */
  checkStillThere(account: string, name: string, opened: OpenTable): Awaitable<void> {
    return whenReady(this.#find(account, name), (table) => {
      if (table?.named.id !== opened.named.id) throw new ServiceError("TableNotFound");
    });
  }

  /** The table as it is now. Not read where nothing was written since it was found: once a group commit. */
  #find(account: string, name: string): Awaitable<OpenTable | undefined> {
    const newestCommit = this.#engine.newestCommit();
    const remembered = this.#catalog.remembered(account, name);
    const table = remembered && this.#open(account, remembered);
    if (table && newestCommit !== undefined && newestCommit === table.foundAt) return table;
    return whenReady(this.#catalog.find(account, name), (named) => {
      const found = named && this.#open(account, named);
      if (found) found.foundAt = newestCommit;
      return found;
    });
  }

  /**
   * The record of an entity; undefined when there is none. The bytes are the caller's.
   * @throws ServiceError TableNotFound
   */
  get(
    account: string,
    name: string,
    partitionKey: string,
    rowKey: string,
  ): Awaitable<Uint8Array | undefined> {
    const named = this.#catalog.remembered(account, name);
    if (!named) return this.#getAfresh(account, name, partitionKey, rowKey);
    const table = this.#open(account, named);
    const key = entityKey(table.prefix, partitionKey, rowKey);
    const newestCommit = this.#engine.newestCommit();
    const checked = () =>
      whenReady(this.#engine.get([named.key, key]), (entries) => {
        if (!this.#catalog.isCurrent(named, entries[0])) {
          return this.#getAfresh(account, name, partitionKey, rowKey);
        }
        table.foundAt = newestCommit;
        return entries[1] && recordOf(entries[1]);
      });
    if (newestCommit === undefined || newestCommit !== table.foundAt) return checked();
    // Nothing was written since the table was found, so it need not be read again: 6 to 9 % of
    // the handler. Where it was removed a moment ago, what is found there is what it held to the last.
    return whenReady(this.#engine.get([key]), ([entry]) => (entry ? recordOf(entry) : checked()));
  }

  #getAfresh(account: string, name: string, partitionKey: string, rowKey: string) {
    return whenReady(this.openTable(account, name), ({ prefix }) =>
      whenReady(
        this.#engine.get([entityKey(prefix, partitionKey, rowKey)]),
        ([entry]) => entry && recordOf(entry),
      ),
    );
  }

  /** Applies all mutations, or none: at least one, all of one partition, each of another entity. */
  commit(account: string, name: string, mutations: readonly Mutation[]): Promise<CommitOutcome> {
    const first = mutations[0]!;
    const partition = `${account}/${name.toLowerCase()}/${first.partitionKey}`;
    const attempt = (again: boolean) => this.#try(account, name, mutations, again);
    if (mutations.length > 1 || first.kind !== "merge" || isExact(first)) {
      return this.#contention.settle(partition, attempt);
    }
    if (this.#engine.update) return this.#merge(account, name, first);
    return this.#contention.inTurn(`${partition}/${first.rowKey}`, attempt);
  }

  /** Inside the engine's commit, so it never meets a rival and shares a flush with those it came with. */
  async #merge(account: string, name: string, mutation: Mutation): Promise<CommitOutcome> {
    const { partitionKey, rowKey } = mutation;
    try {
      const opening = this.openTable(account, name);
      const { prefix } = opening instanceof Promise ? await opening : opening;
      const key = entityKey(prefix, partitionKey, rowKey);
      const { value } = await this.#engine.update!(key, (current, version) => {
        if (!current && mutation.ifMatch) throw new ServiceError("ResourceNotFound");
        return merged(mutation, current, version);
      });
      return { committed: true, stored: [{ partitionKey, rowKey, record: value }] };
    } catch (error) {
      if (error instanceof ServiceError) return refused(0, error);
      throw error;
    }
  }

  /**
   * The first try reads only what the mutations must know. Whatever fails is then judged on a
   * snapshot of everything, in order, so that the mutation named is the first that cannot be.
   */
  async #try(
    account: string,
    name: string,
    mutations: readonly Mutation[],
    complete: boolean,
  ): Promise<CommitOutcome | typeof LOST> {
    const remembered = this.#catalog.remembered(account, name);
    const isReading = complete || mutations.some(needsCurrent);
    // What reads entities reads the table's entry along: no operation takes two trips.
    const finding =
      isReading && remembered ? this.#open(account, remembered) : this.#find(account, name);
    // An engine in this process has answered already: no turn of the microtask queue for nothing.
    const table = finding instanceof Promise ? await finding : finding;
    if (!table) return refused(0, new ServiceError("TableNotFound"));
    const { named, prefix } = table;
    const keys = entityKeys(prefix, mutations);
    let found: readonly (Entry | undefined)[] = [];
    if (isReading) {
      const wanted = [named.key];
      for (let i = 0; i < keys.length; i++) {
        if (complete || needsCurrent(mutations[i]!)) wanted.push(keys[i]!);
      }
      const read = this.#engine.get(wanted);
      found = read instanceof Promise ? await read : read;
      if (!this.#catalog.isCurrent(named, found[0])) {
        await this.#catalog.find(account, name);
        return LOST;
      }
    }
    const write = new TransactionWrite(this.#engine.nextVersion());
    const refusal = write.addAll(mutations, keys, found, complete);
    if (refusal) {
      if (complete || mutations.length === 1) return refusal;
      return LOST;
    }
    const result = await this.#engine.commit(write);
    if (!result.committed) return LOST;
    return { committed: true, stored: write.stored(mutations, result.versions) };
  }

  #open(account: string, named: Named<TableValue>): OpenTable {
    let open = opened.get(named);
    if (!open) {
      open = {
        named,
        prefix: tablePrefix(this.#catalog.accountId(account), named.id),
        foundAt: undefined,
      };
      opened.set(named, open);
    }
    return open;
  }
}

/** Their partition is one, and so are its bytes. */
function entityKeys(prefix: Uint8Array, mutations: readonly Mutation[]): Key[] {
  const partition = encodeText(mutations[0]!.partitionKey, prefix);
  return mutations.map(({ rowKey }) => ({ partition, sort: encodeText(rowKey) }));
}

/** By catalog entry, made once for each entry the catalog remembers. */
const opened = new WeakMap<Named<TableValue>, OpenTable>();

/** One engine write in the making. */
class TransactionWrite implements AtomicWrite {
  readonly version: number;
  readonly checks: Check[] = [];
  readonly puts: Put[] = [];
  readonly deletes: Key[] = [];

  constructor(version: number) {
    this.version = version;
  }

  /**
   * Adds mutations up to the first that cannot be. `found` holds, behind the table's own, the entries
   * of all of them if `complete`, else of those whose `needsCurrent`.
   */
  addAll(
    mutations: readonly Mutation[],
    keys: readonly Key[],
    found: readonly (Entry | undefined)[],
    complete: boolean,
  ): CommitOutcome | undefined {
    let next = 1;
    for (let i = 0; i < mutations.length; i++) {
      const mutation = mutations[i]!;
      const error =
        complete || needsCurrent(mutation)
          ? this.#addKnown(mutation, keys[i]!, found[next++])
          : this.#addUnseen(mutation, keys[i]!);
      if (error) return refused(i, error);
    }
    return undefined;
  }

  /** What the mutations left behind, once all is committed: puts with these versions. */
  stored(mutations: readonly Mutation[], versions: readonly number[]): StoredEntity[] {
    let next = 0;
    return mutations.map(({ kind, partitionKey, rowKey }) => {
      if (kind === "delete") return { partitionKey, rowKey, record: undefined };
      const { value } = this.puts[next]!;
      const version = versions[next++]!;
      return { partitionKey, rowKey, record: recordOf({ value, version }) };
    });
  }

  /** Adds a mutation judged on what is there, or answers why it cannot be. */
  #addKnown(mutation: Mutation, key: Key, entry: Entry | undefined): ServiceError | undefined {
    const refusal = judge(mutation, entry);
    if (refusal) return refusal;
    if (entry) this.checks.push({ key, expected: entry.version });
    else if (mutation.kind !== "delete") this.checks.push({ key, expected: "absent" });
    try {
      this.#addWrite(mutation, key, entry?.value);
    } catch (error) {
      // A merge with what is there may be too large.
      if (error instanceof ServiceError) return error;
      throw error;
    }
    return undefined;
  }

  /** Adds a mutation with the check of its own condition: the engine judges. */
  #addUnseen(mutation: Mutation, key: Key): undefined {
    if (mutation.kind === "insert") this.checks.push({ key, expected: "absent" });
    else if (mutation.ifMatch === "*") this.checks.push({ key, expected: "present" });
    this.#addWrite(mutation, key, undefined);
  }

  #addWrite(mutation: Mutation, key: Key, current: Uint8Array | undefined): void {
    if (mutation.kind === "delete") {
      this.deletes.push(key);
      return;
    }
    const value =
      mutation.kind === "merge"
        ? merged(mutation, current, this.version)
        : encodeRecord(mutation.entity!, this.version);
    this.puts.push({ key, value });
  }
}

/** @throws ServiceError TooManyProperties or EntityTooLarge */
function merged(
  { entity }: Mutation,
  current: Uint8Array | undefined,
  timestampMicros: number,
): Uint8Array {
  return current
    ? mergeRecord(current, entity!, timestampMicros)
    : encodeRecord(entity!, timestampMicros);
}

/** Order of checks: the entity is there (404, 409), then its ETag (412). */
function judge(mutation: Mutation, entry: Entry | undefined): ServiceError | undefined {
  if (mutation.kind === "insert") return entry && new ServiceError("EntityAlreadyExists");
  if (mutation.ifMatch === undefined) return undefined;
  if (!entry) return new ServiceError("ResourceNotFound");
  if (mutation.ifMatch === "*") return undefined;
  return mutation.ifMatch.matches(recordTimestamp(recordOf(entry)))
    ? undefined
    : new ServiceError("UpdateConditionNotSatisfied");
}

/** Whether what becomes of the entity depends on more than its being there. */
function needsCurrent(mutation: Mutation): boolean {
  return mutation.kind === "merge" || isExact(mutation);
}

function isExact(mutation: Mutation): boolean {
  return mutation.ifMatch !== undefined && mutation.ifMatch !== "*";
}

function refused(index: number, error: ServiceError): CommitOutcome {
  return { committed: false, index, error };
}
