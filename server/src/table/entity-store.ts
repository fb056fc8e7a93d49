import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import { ServiceError } from "@rowhouse/protocol/errors";
import { whenReady } from "../awaitable.ts";
import type { Catalog, Named } from "../catalog/catalog.ts";
import type { Awaitable, Check, Engine, Entry, Key, Put } from "../engine/engine.ts";
import { encodeText } from "../engine/key-codec.ts";
import { encodeRecord, recordTimestamp, restampRecord } from "./entity-record.ts";
import { mergeRecord } from "./merge-record.ts";
import type { CommitOutcome, Mutation } from "./mutation.ts";
import { entityKey, tablePrefix } from "./table-keys.ts";
import { Turns } from "./turns.ts";

/** What the catalog keeps of a table. */
export interface TableValue {
  readonly policies: readonly AccessPolicy[];
}

/** A table as reads and writes use it: its catalog entry and the bytes its keys begin with. */
export interface OpenTable {
  readonly named: Named<TableValue>;
  readonly prefix: Uint8Array;
}

/**
 * Maps entities to engine keys. Every read and write carries the table's catalog entry along, so
 * that a table removed elsewhere is noticed in the same snapshot and no operation needs two trips.
 */
export class EntityStore {
  readonly #engine: Engine;
  readonly #catalog: Catalog<TableValue>;
  readonly #turns = new Turns();

  constructor(engine: Engine, catalog: Catalog<TableValue>) {
    this.#engine = engine;
    this.#catalog = catalog;
  }

  /** @throws ServiceError TableNotFound */
  openTable(account: string, name: string): Awaitable<OpenTable> {
    return whenReady(this.#catalog.find(account, name), (named) => {
      if (!named) throw new ServiceError("TableNotFound");
      return this.#open(account, named);
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
    const key = entityKey(this.#open(account, named).prefix, partitionKey, rowKey);
    return whenReady(this.#engine.get([named.key, key]), (entries) =>
      this.#catalog.isCurrent(named, entries[0])
        ? entries[1]?.value
        : this.#getAfresh(account, name, partitionKey, rowKey),
    );
  }

  #getAfresh(account: string, name: string, partitionKey: string, rowKey: string) {
    return whenReady(this.openTable(account, name), ({ prefix }) =>
      whenReady(
        this.#engine.get([entityKey(prefix, partitionKey, rowKey)]),
        ([entry]) => entry?.value,
      ),
    );
  }

  /** Applies all mutations, or none. They must be of one partition and name each entity once. */
  async commit(
    account: string,
    name: string,
    mutations: readonly Mutation[],
  ): Promise<CommitOutcome> {
    const [first] = mutations;
    // Unconditional merges need no luck to succeed, only a turn; see `Turns`.
    if (mutations.length === 1 && first?.kind === "merge" && !isExact(first)) {
      const key = `${account}/${name.toLowerCase()}/${first.partitionKey}/${first.rowKey}`;
      return this.#turns.take(key, () => this.#commit(account, name, mutations));
    }
    return this.#commit(account, name, mutations);
  }

  async #commit(
    account: string,
    name: string,
    mutations: readonly Mutation[],
  ): Promise<CommitOutcome> {
    let named = this.#catalog.remembered(account, name);
    // The first try reads only what the mutations must know. Whatever fails is then judged on a
    // snapshot of everything, in order, so that the mutation named is the first that cannot be.
    for (let complete = false; ; complete = true) {
      named ??= await this.#catalog.find(account, name);
      if (!named) return refused(0, new ServiceError("TableNotFound"));
      const { prefix } = this.#open(account, named);
      const keys = entityKeys(prefix, mutations);
      const wanted = keys.filter((_, i) => complete || needsCurrent(mutations[i]!));
      const [entry, ...found] = await this.#engine.get([named.key, ...wanted]);
      if (!this.#catalog.isCurrent(named, entry)) {
        named = undefined;
        continue;
      }
      const version = this.#engine.nextVersion();
      const write = new TransactionWrite(version);
      let next = 0;
      let refusal: CommitOutcome | undefined;
      for (const [i, mutation] of mutations.entries()) {
        const isKnown = complete || needsCurrent(mutation);
        const error = write.add(mutation, keys[i]!, isKnown ? { entry: found[next++] } : undefined);
        if (!error) continue;
        refusal = refused(i, error);
        break;
      }
      if (refusal) {
        if (complete || mutations.length === 1) return refusal;
        continue;
      }
      const result = await this.#engine.commit(write);
      if (!result.committed) continue;
      const records = await this.#settle(write, result.versions);
      return {
        committed: true,
        stored: mutations.map(({ partitionKey, rowKey }, i) => ({
          partitionKey,
          rowKey,
          record: records[i],
        })),
      };
    }
  }

  /**
   * The engine raises a version that is not above what it finds; the Timestamp inside the record
   * is then stamped anew, or it would not grow. Happens only between servers whose clocks differ.
   */
  async #settle(
    write: TransactionWrite,
    versions: readonly number[],
  ): Promise<(Uint8Array | undefined)[]> {
    for (const [i, raised] of versions.entries()) {
      if (raised === write.version) continue;
      const { key } = write.puts[i]!;
      const restamped = { key, value: restampRecord(write.puts[i]!.value, raised + 1) };
      const result = await this.#engine.commit({
        version: raised + 1,
        checks: [{ key, expected: raised }],
        puts: [restamped],
        deletes: [],
      });
      // A check that fails means somebody wrote since: their Timestamp stands, ours was never seen.
      if (result.committed) write.puts[i] = restamped;
    }
    let next = 0;
    return write.kinds.map((kind) => (kind === "put" ? write.puts[next++]?.value : undefined));
  }

  #open(account: string, named: Named<TableValue>): OpenTable {
    let open = opened.get(named);
    if (!open) {
      open = { named, prefix: tablePrefix(this.#catalog.accountId(account), named.id) };
      opened.set(named, open);
    }
    return open;
  }
}

/** Their partition is one, and so are its bytes. */
function entityKeys(prefix: Uint8Array, mutations: readonly Mutation[]): Key[] {
  const partition = encodeText(mutations[0]?.partitionKey ?? "", prefix);
  return mutations.map(({ rowKey }) => ({ partition, sort: encodeText(rowKey) }));
}

/** Prefixes by catalog entry, made once for each entry the catalog remembers. */
const opened = new WeakMap<Named<TableValue>, OpenTable>();

/** One engine write in the making. */
class TransactionWrite {
  readonly version: number;
  readonly checks: Check[] = [];
  readonly puts: Put[] = [];
  readonly deletes: Key[] = [];
  readonly kinds: ("put" | "delete")[] = [];

  constructor(version: number) {
    this.version = version;
  }

  /** Adds a mutation, judged on what is there where that is known; answers why it cannot be. */
  add(
    mutation: Mutation,
    key: Key,
    known: { entry: Entry | undefined } | undefined,
  ): ServiceError | undefined {
    if (known) {
      const refusal = judge(mutation, known.entry);
      if (refusal) return refusal;
      if (known.entry) this.checks.push({ key, expected: known.entry.version });
      else if (mutation.kind !== "delete") this.checks.push({ key, expected: "absent" });
    } else if (mutation.kind === "insert") {
      this.checks.push({ key, expected: "absent" });
    } else if (mutation.ifMatch === "*") {
      this.checks.push({ key, expected: "present" });
    }
    if (mutation.kind === "delete") {
      this.deletes.push(key);
      this.kinds.push("delete");
      return undefined;
    }
    const current = known?.entry?.value;
    const entity = mutation.entity!;
    const value =
      mutation.kind === "merge" && current
        ? mergeRecord(current, entity, this.version)
        : encodeRecord(entity, this.version);
    this.puts.push({ key, value });
    this.kinds.push("put");
    return undefined;
  }
}

/** Order of checks: the entity is there (404, 409), then its ETag (412). */
function judge(mutation: Mutation, entry: Entry | undefined): ServiceError | undefined {
  if (mutation.kind === "insert") return entry && new ServiceError("EntityAlreadyExists");
  if (mutation.ifMatch === undefined) return undefined;
  if (!entry) return new ServiceError("ResourceNotFound");
  if (mutation.ifMatch === "*") return undefined;
  return mutation.ifMatch.matches(recordTimestamp(entry.value))
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
