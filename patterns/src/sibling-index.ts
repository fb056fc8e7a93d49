import { readAt } from "./entities/write.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import {
  assertEntityFits,
  project,
  type Row,
  selected,
  type Unknown,
} from "./model/entity-rows.ts";
import { BASE_ROW_KEY, EntryRows, entryProblems, valueTaken } from "./model/entry.ts";
import type { EntryOptions } from "./model/entry-options.ts";
import type {
  AnyEntity,
  Change,
  Contribution,
  FollowerContext,
  Snapshot,
} from "./model/follower.ts";
import {
  type EntryKeeper,
  Index,
  type IndexKind,
  type OpenIndex,
  type Reconciled,
} from "./model/follower.ts";
import type { FieldNames, KeyEquality, RowQuery } from "./model/key-query.ts";
import { type Properties, text } from "./ports/edm.ts";
import { deleteOf, keyOf, mergeNothing, writeOver } from "./ports/mutation.ts";
import type { EntityKey, Mutation, StoredEntity } from "./ports/tables.ts";
import type { Query, Saved } from "./query/query.ts";
import { type QueryRun, type QuerySource, queryRun } from "./query/query-run.ts";
import { commitIfCurrent } from "./store/commit-if-current.ts";
import { tokensAfter, tokensOf } from "./store/write-token.ts";

export interface SiblingOptions<
  R extends KeyDeclaration,
  Unique extends boolean,
  E extends string = string,
> extends EntryOptions<E> {
  /** The entry's row key. It begins with its own literal and, unless it is unique, includes the base's row key. */
  readonly row: R;
  /** At most one entity of a partition has the value. */
  readonly unique?: Unique;
}

interface SiblingKind<R extends KeyDeclaration, Unique, Names extends string> extends IndexKind {
  readonly fields: Names;
  readonly api: SiblingRange<this["entity"], this["partition"], R> &
    (Unique extends true ? SiblingGet<this["entity"], this["partition"], R> : unknown);
}

interface SiblingRange<T, P, R extends KeyDeclaration> {
  range(query: KeyEquality<P> & RowQuery<R>): Query<T, "range">;
}

interface SiblingGet<T, P, R extends KeyDeclaration> {
  /** 1 R, 1 E; one more of each when the entry does not copy every field. */
  get(key: KeyEquality<P> & KeyEquality<R>): Promise<Saved<T> | undefined>;
}

/** Declares an index whose entries are stored in the partition of their entity, and written with it. */
export function siblingIndex<
  const R extends KeyDeclaration,
  const Unique extends boolean = false,
  const E extends string = never,
>(options: SiblingOptions<R, Unique, E>): SiblingIndex<R, Unique, FieldNames<R, E>> {
  return new SiblingIndex(options);
}

const SIBLINGS_MAX = 49;
const ROUNDS_MAX = 5;

/**
 * Entries in the base's own partition, written with it in one transaction: they are never missing, surplus or
 * stale.
 */
export class SiblingIndex<
  R extends KeyDeclaration,
  Unique extends boolean,
  Names extends string = string,
> extends Index<SiblingKind<R, Unique, Names>> {
  declare readonly options: SiblingOptions<R, Unique>;

  constructor(options: SiblingOptions<R, Unique>) {
    super(options, { row: options.row });
  }

  problems(entity: AnyEntity, name: string): string[] {
    const naming = this.options.unique ? [] : entity.rows.row.segments;
    const problems = entryProblems(this, entity, name, naming);
    const siblings = Object.entries(entity.indexes).filter(
      ([, index]) => index instanceof SiblingIndex,
    );
    if (siblings.length > SIBLINGS_MAX && siblings[0]?.[0] === name) {
      problems.push(
        `is one of ${siblings.length} sibling indexes; at most ${SIBLINGS_MAX} fit in a transaction`,
      );
    }
    return problems;
  }

  follow(context: FollowerContext): OpenIndex {
    const open = new OpenSibling(this, context);
    return {
      api: this.options.unique ? open : { range: open.range.bind(open) },
      prepare: (change) => open.prepare(change),
      keeper: open,
    };
  }
}

class OpenSibling implements EntryKeeper {
  readonly table: string;
  readonly tag: string;
  readonly #isUnique: boolean;
  readonly #context: FollowerContext;
  readonly #entries: EntryRows;
  readonly #source: QuerySource;

  constructor(index: SiblingIndex<KeyDeclaration, boolean>, context: FollowerContext) {
    this.#isUnique = index.options.unique ?? false;
    this.#context = context;
    this.#entries = new EntryRows(context, index);
    this.table = context.entity.table;
    this.tag = this.#entries.tag;
    this.#source = this.#entriesAsSource();
  }

  keysOf(row: Row): EntityKey[] {
    return this.#entries.keysOf(row);
  }

  baseOf(entry: StoredEntity): EntityKey | undefined {
    return this.#baseKey(entry);
  }

  contentOf({ row, stored }: Snapshot): Properties {
    const { properties } = stored;
    const unknown = this.#entries.base.unknownIn(properties);
    return this.#entry(row, stored, tokensOf(properties) ?? "", unknown);
  }

  async reconcile(base: EntityKey, hints: readonly EntityKey[]): Promise<Reconciled> {
    const { session } = this.#context;
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const { mutations, outcome } = await this.#corrections(base, hints);
      const isDone = mutations.length === 0 || commitIfCurrent(session, this.table, mutations);
      if (await isDone) return outcome;
    }
    return "later";
  }

  /**
   * The mutations that correct the entries; none when all are right, or their values belong to another entity.
   * The entries are read before the base. A missing base has no ETag to make the transaction conditional on,
   * but a writer that inserts it again also rewrites its entries, and so changes their ETags.
   */
  async #corrections(
    { partitionKey, rowKey }: EntityKey,
    hints: readonly EntityKey[],
  ): Promise<{ readonly mutations: readonly Mutation[]; readonly outcome: Reconciled }> {
    const { session, entity } = this.#context;
    const read = (rowKey: string) => session.tables.get(this.table, { partitionKey, rowKey });
    const entries = new Map<string, StoredEntity | undefined>();
    for (const hint of hints) entries.set(hint.rowKey, await read(hint.rowKey));
    const stored = await read(rowKey);
    const row = stored && entity.rows.decode(stored);
    const desired = this.#rowKeys(row);
    for (const key of desired) if (!entries.has(key)) entries.set(key, await read(key));
    const mutations: Mutation[] = [];
    let outcome: Reconciled = "done";
    for (const [key, entry] of entries) {
      const target = { partitionKey, rowKey: key };
      const owner = entry && this.#baseKey(entry)?.rowKey;
      if (desired.includes(key) && row && stored) {
        if (entry && owner !== rowKey) outcome = "duplicate";
        else mutations.push(writeOver(entry, target, this.contentOf({ row, stored })));
      } else if (entry && owner === rowKey) {
        mutations.push(deleteOf(entry, entry.etag));
      }
    }
    // Changes nothing in the base, but requires it to be the version that was read.
    if (stored && mutations.length > 0) mutations.unshift(mergeNothing(stored, stored.etag));
    return { mutations, outcome };
  }

  async prepare(change: Change): Promise<Contribution> {
    const { key, before, after, unknown, token, isPartial } = change;
    const { partitionKey } = key;
    const oldKeys = this.#rowKeys(before?.row);
    const newKeys = this.#rowKeys(after);
    const owners = await this.#ownersOf(oldKeys, change);
    const mutations: Mutation[] = [];
    for (const rowKey of oldKeys.filter((old) => !newKeys.includes(old))) {
      // The base's ETag guards the whole transaction, so the entry needs no condition of its own.
      if (owners.get(rowKey) === key.rowKey) mutations.push(deleteOf({ partitionKey, rowKey }));
    }
    for (const rowKey of newKeys) {
      const isKept = oldKeys.includes(rowKey);
      const previous = isKept ? tokensOf(before?.stored.properties) : undefined;
      const properties = this.#entry(after!, key, tokensAfter(token, previous), unknown);
      assertEntityFits({ partitionKey, rowKey }, properties);
      const owner = owners.get(rowKey);
      const isOwn = owner === key.rowKey;
      if (isPartial && owner !== undefined && !isOwn) continue;
      // An unchanged key is overwritten, which heals a missing entry; so is a key whose entry is already the
      // base's own.
      const kind = this.#isUnique && !isOwn ? "insert" : "insertOrReplace";
      mutations.push({ kind, partitionKey, rowKey, properties });
    }
    return {
      mutations,
      explain: async (mutation) =>
        isPartial && oldKeys.includes(mutation.rowKey) ? "retry" : this.#explain(mutation),
    };
  }

  /**
   * The owners of the entries at these keys. Each entry exists and is the entity's own, unless the index is
   * partial or the entity has no token: then other software wrote it, without entries.
   */
  async #ownersOf(
    rowKeys: readonly string[],
    { key, before, isPartial }: Change,
  ): Promise<ReadonlyMap<string, string | undefined>> {
    const isOwn = !isPartial && tokensOf(before?.stored.properties) !== undefined;
    const owners = await Promise.all(
      rowKeys.map(async (rowKey) => {
        if (isOwn) return key.rowKey;
        const entry = await this.#context.session.tables.get(this.table, { ...key, rowKey });
        return entry && (this.#baseKey(entry) ?? entry).rowKey;
      }),
    );
    return new Map(rowKeys.map((rowKey, i) => [rowKey, owners[i]]));
  }

  range(query: KeyValues): QueryRun {
    return queryRun(this.#source, selected(this.#entries.base, this.#entries, query));
  }

  async get(query: KeyValues): Promise<Row | undefined> {
    return this.range(query).first();
  }

  #entriesAsSource(): QuerySource {
    const { session, entity, readable } = this.#context;
    const { rows, table } = entity;
    const entries = this.#entries;
    return {
      session,
      ...(readable && { readable }),
      table,
      fields: rows.fields,
      notComparable: (field) => entries.notComparable(field),
      projection: (fields) => entries.projection(fields, [BASE_ROW_KEY]),
      decode: (stored, fields) =>
        entries.isCovered(fields)
          ? this.#fromEntry(stored, fields)
          : this.#fromBase(stored, fields),
      surcharge: (fields) =>
        entries.isCovered(fields)
          ? { perRow: 0, notes: ["served from copies"] }
          : { perRow: 1, notes: ["each row costs a point read of its base"] },
    };
  }

  #fromEntry(entry: StoredEntity, fields: readonly string[] | undefined): Row | undefined {
    const base = this.#baseKey(entry);
    return base && this.#entries.decode(entry, base, fields);
  }

  async #fromBase(
    entry: StoredEntity,
    fields: readonly string[] | undefined,
  ): Promise<Row | undefined> {
    const base = this.#baseKey(entry);
    return project(base && (await readAt(this.#context, base))?.row, fields);
  }

  #baseKey(entry: StoredEntity): EntityKey | undefined {
    const rowKey = entry.properties[BASE_ROW_KEY]?.value;
    if (rowKey === undefined || !this.#entries.isEntry(entry)) return undefined;
    return { partitionKey: entry.partitionKey, rowKey: String(rowKey) };
  }

  #rowKeys(row: Row | undefined): string[] {
    return row ? this.keysOf(row).map(({ rowKey }) => rowKey) : [];
  }

  #entry(row: Row, base: EntityKey, tokens: string, unknown: Unknown | undefined): Properties {
    return Object.assign(this.#entries.copyOf(row, unknown), {
      [BASE_ROW_KEY]: text(base.rowKey),
      ...this.#entries.marks(tokens, unknown),
    });
  }

  async #explain(mutation: Mutation): Promise<Error | "retry" | undefined> {
    if (mutation.kind !== "insert") return undefined;
    const entry = await this.#context.session.tables.get(this.table, keyOf(mutation));
    if (!entry) return "retry";
    const { partitionKey, rowKey, properties } = entry;
    const owner = { partitionKey, rowKey: String(properties[BASE_ROW_KEY]?.value ?? rowKey) };
    return valueTaken(this.#context, rowKey, owner);
  }
}
