import { ServiceError } from "@rowhouse/protocol/errors";
import { type Awaitable, whenReady } from "../awaitable.ts";
import type { Catalog, Named } from "../catalog/catalog.ts";
import type { Clock } from "../clock.ts";
import { Contention, LOST } from "../engine/contention.ts";
import type { AtomicWrite, Check, Engine, Entry, Key, Premise, Put } from "../engine/engine.ts";
import { encodeText } from "../engine/key-codec.ts";
import { encodeRecord, recordOf, recordTimestamp } from "./entity-record.ts";
import { addEntryChanges, type OpenIndex, openIndex } from "./indexes/open-index.ts";
import { mergeRecord } from "./merge-record.ts";
import type { CommitOutcome, Mutation, StoredEntity } from "./mutation.ts";
import { entityKey, tablePrefix } from "./table-keys.ts";
import type { TableIndex, TableValue } from "./table-value.ts";

/** A table opened for reads and writes: its catalog entry and the prefix of its keys. */
export interface OpenTable {
  readonly named: Named<TableValue>;
  readonly prefix: Uint8Array;
  readonly indexes: readonly OpenIndex[];
  /** That its catalog entry is unchanged. */
  readonly premise: Premise;
  /** The same, if it is enough that nobody had removed the table when the write began. */
  readonly loosePremise: Premise;
  /** The engine's newest commit when `named` was last confirmed. */
  foundAt: number | undefined;
}

/**
 * Maps entities to engine keys. Every read and write includes the table's catalog entry, so that
 * the removal of a table by another process is noticed in the same snapshot and no operation needs
 * two round trips.
 *
 * The entries of a table's indexes change in the commit of their entity, on the premise that the catalog entry, which
 * lists the indexes, is the one that was read. Such a commit reads the entity first, whatever the mutation is.
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
   * The table for a read of many entities, which counts only if `isUnchanged` confirms it afterwards, unless it is
   * confirmed already. An engine in another process is not asked twice: what was remembered will do.
   * @throws ServiceError TableNotFound; ServerBusy if it is an index that lacks entries
   */
  openToRead(
    account: string,
    name: string,
  ): Awaitable<{ readonly opened: OpenTable; readonly isConfirmed: boolean }> {
    const remembered = this.#catalog.remembered(account, name);
    if (remembered && !isIndex(remembered) && this.#engine.newestCommit() === undefined) {
      return { opened: this.#open(account, remembered), isConfirmed: false };
    }
    return whenReady(this.#openWhole(account, name), (opened) => ({ opened, isConfirmed: true }));
  }

  /** @throws ServiceError TableNotFound; ServerBusy if it is an index that lacks entries */
  #openWhole(account: string, name: string): Awaitable<OpenTable> {
    return whenReady(this.openTable(account, name), (opened) => {
      const { indexOf } = opened.named.value;
      if (indexOf === undefined) return opened;
      return whenReady(this.#find(account, indexOf), (table) => {
        const index = table?.indexes.find(({ index: { id } }) => id === opened.named.id)?.index;
        if (index && index.state !== "ready") throw lacksEntries(index);
        return opened;
      });
    });
  }

  /**
   * The name with which the table was created, by which insight knows it; undefined if there is no
   * such table. May return a table that was removed a moment ago; the read or write that follows
   * notices.
   */
  createdName(account: string, name: string): Awaitable<string | undefined> {
    const remembered = this.#catalog.remembered(account, name);
    if (remembered) return remembered.name;
    return whenReady(this.#find(account, name), (table) => table?.named.name);
  }

  /**
   * Checks that an opened table still exists. If so, nothing in it was freed while it was read.
   * @throws ServiceError TableNotFound
   */
  checkStillThere(account: string, name: string, opened: OpenTable): Awaitable<void> {
    return whenReady(this.#find(account, name), (table) => {
      if (table?.named.id !== opened.named.id) throw new ServiceError("TableNotFound");
    });
  }

  /** Whether an opened table has neither been removed nor changed: its indexes are as they were. */
  isUnchanged(account: string, name: string, opened: OpenTable): Awaitable<boolean> {
    return whenReady(
      this.#find(account, name),
      (table) => table?.named.version === opened.named.version,
    );
  }

  /** The table as it is now. Not read again until something was committed: at most once per group commit. */
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
   * The record of an entity; undefined if there is none. The caller owns the bytes.
   * @throws ServiceError TableNotFound; ServerBusy if the table is an index that lacks entries
   */
  get(
    account: string,
    name: string,
    partitionKey: string,
    rowKey: string,
  ): Awaitable<Uint8Array | undefined> {
    const named = this.#catalog.remembered(account, name);
    if (!named || isIndex(named)) return this.#getAfresh(account, name, partitionKey, rowKey);
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
    // Nothing was committed since the table was found, so it is not read again, which saves 6 to 9
    // % of the handler. If the table was removed a moment ago, an entity found is its last state. If there
    // is none, the table may be missing, but only if something was committed before the read.
    return whenReady(this.#engine.get([key]), ([entry]) => {
      if (entry) return recordOf(entry);
      return this.#engine.newestCommit() === newestCommit ? undefined : checked();
    });
  }

  #getAfresh(account: string, name: string, partitionKey: string, rowKey: string) {
    return whenReady(this.#openWhole(account, name), ({ prefix }) =>
      whenReady(
        this.#engine.get([entityKey(prefix, partitionKey, rowKey)]),
        ([entry]) => entry && recordOf(entry),
      ),
    );
  }

  /** Applies all mutations or none: at least one, all of one partition, each of a different entity. */
  commit(account: string, name: string, mutations: readonly Mutation[]): Promise<CommitOutcome> {
    const first = mutations[0]!;
    const partition = `${account}/${name.toLowerCase()}/${first.partitionKey}`;
    const attempt = (again: boolean) => this.#try(account, name, mutations, again);
    if (mutations.length > 1 || first.kind !== "merge" || isExact(first)) {
      return this.#contention.settle(partition, attempt);
    }
    const turn = `${partition}/${first.rowKey}`;
    if (!this.#engine.supports.update) return this.#contention.inTurn(turn, attempt);
    return this.#merge(account, name, first, () => this.#contention.inTurn(turn, attempt));
  }

  /**
   * Runs inside the engine's commit, so it never conflicts, and shares a flush with concurrent writes. Not for tables
   * with indexes: what changes in them depends on the entity as it is, which must be known before the commit.
   */
  async #merge(
    account: string,
    name: string,
    mutation: Mutation,
    mergeIndexed: () => Promise<CommitOutcome>,
  ): Promise<CommitOutcome> {
    const { partitionKey, rowKey } = mutation;
    const change = (current: Uint8Array | undefined, version: number) => {
      if (!current && mutation.ifMatch) throw new ServiceError("ResourceNotFound");
      return merged(mutation, current, version);
    };
    try {
      for (;;) {
        const opening = this.openTable(account, name);
        const table = opening instanceof Promise ? await opening : opening;
        if (isIndex(table.named)) return refused(0, keptByServer());
        if (table.indexes.length > 0) return await mergeIndexed();
        const key = entityKey(table.prefix, partitionKey, rowKey);
        const updated = await this.#engine.update!(key, change, this.#premiseOf(table));
        if (!updated) continue;
        return { committed: true, stored: [{ partitionKey, rowKey, record: updated.value }] };
      }
    } catch (error) {
      if (error instanceof ServiceError) return refused(0, error);
      throw error;
    }
  }

  /**
   * The first attempt reads only the entities that its mutations depend on. After a failure, a
   * complete attempt reads all entities in one snapshot and checks the mutations in order, so that
   * the error names the first mutation that cannot be applied.
   */
  async #try(
    account: string,
    name: string,
    mutations: readonly Mutation[],
    complete: boolean,
  ): Promise<CommitOutcome | typeof LOST> {
    const remembered = this.#catalog.remembered(account, name);
    const isIndexed = (remembered?.value.indexes?.length ?? 0) > 0;
    const needs = isIndexed ? dependsOnCurrent : needsCurrent;
    const isReading = complete || mutations.some(needs);
    // The table's catalog entry is read in the same round trip: with the entities, or by the commit.
    const isLoose = !isReading && remembered !== undefined && this.#looksItself(remembered);
    const finding =
      remembered && (isReading || isLoose)
        ? this.#open(account, remembered)
        : this.#find(account, name);
    // An in-process engine has answered already; `await` would cost a turn of the microtask queue.
    const table = finding instanceof Promise ? await finding : finding;
    if (!table) return refused(0, new ServiceError("TableNotFound"));
    const { named, prefix, indexes } = table;
    if (isIndex(table.named)) return refused(0, keptByServer());
    // It got its first index since: now the mutations depend on entities that were not to be read.
    if (indexes.length > 0 !== isIndexed && !complete) return LOST;
    const keys = entityKeys(prefix, mutations);
    let found: readonly (Entry | undefined)[] = [];
    if (isReading) {
      const wanted = [named.key];
      for (let i = 0; i < keys.length; i++) {
        if (complete || needs(mutations[i]!)) wanted.push(keys[i]!);
      }
      const read = this.#engine.get(wanted);
      found = read instanceof Promise ? await read : read;
      if (!this.#catalog.isCurrent(named, found[0])) {
        await this.#catalog.find(account, name);
        return LOST;
      }
    }
    const premise = this.#premiseOf(table) ?? (isLoose ? table.loosePremise : undefined);
    const write = new TransactionWrite(this.#engine.nextVersion(), premise);
    const isKnown = complete ? () => true : needs;
    const refusal = write.addAll(mutations, keys, found, isKnown);
    if (refusal) {
      // Without its table, a write is refused for that reason.
      if (complete || (mutations.length === 1 && !isLoose)) return refusal;
      return LOST;
    }
    if (indexes.length > 0) write.addEntries(indexes, mutations, found, isKnown);
    const result = await this.#engine.commit(write);
    if (!result.committed) return LOST;
    return { committed: true, stored: write.stored(mutations, result.versions) };
  }

  /** Undefined where a premise costs something and guards nothing. */
  #premiseOf({ indexes, premise }: OpenTable): Premise | undefined {
    return indexes.length > 0 || this.#engine.supports.freePremises ? premise : undefined;
  }

  /** Whether the commit can tell whether the table is as remembered. (One kept by the server may not be written.) */
  #looksItself(named: Named<TableValue>): boolean {
    return !this.#engine.supports.freePremises && !isIndex(named);
  }

  #open(account: string, named: Named<TableValue>): OpenTable {
    let open = opened.get(named);
    if (!open) {
      const accountId = this.#catalog.accountId(account);
      open = {
        named,
        prefix: tablePrefix(accountId, named.id),
        indexes: (named.value.indexes ?? []).map((index) => openIndex(accountId, index)),
        premise: { key: named.key, version: named.version },
        loosePremise: { key: named.key, version: named.version, isLoose: true },
        foundAt: undefined,
      };
      opened.set(named, open);
    }
    return open;
  }
}

/** All mutations share one partition, so its bytes are encoded once. */
function entityKeys(prefix: Uint8Array, mutations: readonly Mutation[]): Key[] {
  const partition = encodeText(mutations[0]!.partitionKey, prefix);
  return mutations.map(({ rowKey }) => ({ partition, sort: encodeText(rowKey) }));
}

/** One per catalog entry, as long as the catalog remembers the entry. */
const opened = new WeakMap<Named<TableValue>, OpenTable>();

/** An engine write under construction. */
class TransactionWrite implements AtomicWrite {
  readonly version: number;
  readonly premise: Premise | undefined;
  readonly checks: Check[] = [];
  readonly puts: Put[] = [];
  readonly deletes: Key[] = [];

  constructor(version: number, premise: Premise | undefined) {
    this.version = version;
    this.premise = premise;
  }

  /**
   * Adds mutations up to the first that cannot be applied. After the table's own entry, `found`
   * holds the entries of the mutations for which `isKnown` is true.
   */
  addAll(
    mutations: readonly Mutation[],
    keys: readonly Key[],
    found: readonly (Entry | undefined)[],
    isKnown: (mutation: Mutation) => boolean,
  ): CommitOutcome | undefined {
    let next = 1;
    for (let i = 0; i < mutations.length; i++) {
      const mutation = mutations[i]!;
      const error = isKnown(mutation)
        ? this.#addKnown(mutation, keys[i]!, found[next++])
        : this.#addUnseen(mutation, keys[i]!);
      if (error) return refused(i, error);
    }
    return undefined;
  }

  /**
   * Adds what changes in the indexes, behind all else, so that checks and their puts have the same place. A mutation
   * whose entity was not read is an insert: there was none.
   */
  addEntries(
    indexes: readonly OpenIndex[],
    mutations: readonly Mutation[],
    found: readonly (Entry | undefined)[],
    isKnown: (mutation: Mutation) => boolean,
  ): void {
    let next = 1;
    let put = 0;
    for (const mutation of mutations) {
      const before = isKnown(mutation) ? found[next++]?.value : undefined;
      const after = mutation.kind === "delete" ? undefined : this.puts[put++]!.value;
      addEntryChanges(this, indexes, before, after, this.version);
    }
  }

  /** The entities after the commit, with the versions that the engine gave the puts. */
  stored(mutations: readonly Mutation[], versions: readonly number[]): StoredEntity[] {
    let next = 0;
    return mutations.map(({ kind, partitionKey, rowKey }) => {
      if (kind === "delete") return { partitionKey, rowKey, record: undefined };
      const { value } = this.puts[next]!;
      const version = versions[next++]!;
      return { partitionKey, rowKey, record: recordOf({ value, version }) };
    });
  }

  /** Adds a mutation checked against the current entry, or returns the error. */
  #addKnown(mutation: Mutation, key: Key, entry: Entry | undefined): ServiceError | undefined {
    const refusal = judge(mutation, entry);
    if (refusal) return refusal;
    if (entry) this.checks.push({ key, expected: entry.version });
    else if (mutation.kind !== "delete") this.checks.push({ key, expected: "absent" });
    try {
      this.#addWrite(mutation, key, entry?.value);
    } catch (error) {
      // The result of a merge may be too large.
      if (error instanceof ServiceError) return error;
      throw error;
    }
    return undefined;
  }

  /** Adds a mutation with a check for its own condition, which the engine evaluates. */
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

/** Order of checks: existence of the entity (404, 409), then its ETag (412). */
function judge(mutation: Mutation, entry: Entry | undefined): ServiceError | undefined {
  if (mutation.kind === "insert") return entry && new ServiceError("EntityAlreadyExists");
  if (mutation.ifMatch === undefined) return undefined;
  if (!entry) return new ServiceError("ResourceNotFound");
  if (mutation.ifMatch === "*") return undefined;
  return mutation.ifMatch.matches(recordTimestamp(recordOf(entry)))
    ? undefined
    : new ServiceError("UpdateConditionNotSatisfied");
}

/** Whether the result depends on more than the existence of the entity. */
function needsCurrent(mutation: Mutation): boolean {
  return mutation.kind === "merge" || isExact(mutation);
}

/** Whether what changes in the indexes of the table depends on the entity. */
function dependsOnCurrent(mutation: Mutation): boolean {
  return mutation.kind !== "insert";
}

function isIndex({ value }: Named<TableValue>): boolean {
  return value.indexOf !== undefined;
}

/** The answer to every read of such a table: the entities that it would leave out might as well not exist. */
function lacksEntries({ name, state }: TableIndex): ServiceError {
  const cure =
    state === "building"
      ? `\`rowhouse index show ${name}\` says how far it has come`
      : `\`rowhouse index repair ${name}\` mends it`;
  return new ServiceError("ServerBusy", {
    message: `${name} is ${state}, so entries may be missing: ${cure}. Until then, query the table that it indexes.`,
  });
}

/** The answer to every write to the table of an index. No client library retries it. */
export function keptByServer(): ServiceError {
  return new ServiceError("AuthorizationPermissionMismatch", { message: KEPT_BY_SERVER });
}

const KEPT_BY_SERVER =
  "This table is an index kept by the server. It is written with the table it indexes; drop it with `rowhouse index drop`.";

function isExact(mutation: Mutation): boolean {
  return mutation.ifMatch !== undefined && mutation.ifMatch !== "*";
}

function refused(index: number, error: ServiceError): CommitOutcome {
  return { committed: false, index, error };
}
