import { validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import { type KeyValues, namedTwice } from "./keys/key-shape.ts";
import { REPAIR_QUEUE, requestRepair } from "./messages/repair-order.ts";
import { project, type Row, selected } from "./model/entity-rows.ts";
import { BASE_PARTITION_KEY, BASE_ROW_KEY, entryProblems, hasKey } from "./model/entry.ts";
import { segmentsOf } from "./model/entry-options.ts";
import type { AnyEntity, FollowerContext } from "./model/follower.ts";
import { Index, type IndexKind, type OpenIndex } from "./model/follower.ts";
import type { FieldNames, KeyEquality, RowQuery } from "./model/key-query.ts";
import { nameProblems } from "./model/storage-name.ts";
import type { EntityKey, StoredEntity } from "./ports/tables.ts";
import type { Query, Saved } from "./query/query.ts";
import { type QueryRun, type QuerySource, queryRun } from "./query/query-run.ts";
import { RemoteEntries, STATE_PROPERTY } from "./remote/remote-entries.ts";
import type { RemoteOptions, Timing } from "./remote/remote-options.ts";

export type { RemoteOptions, Timing, WriteMode } from "./remote/remote-options.ts";

export interface RemoteRead {
  /**
   * `verify` (default): each entry is checked against its base, 2 requests. `eventual`: returns what the entry
   * copies, 1 request; it may be slightly out of date, but it was committed once.
   */
  readonly consistency?: "verify" | "eventual";
}

interface RemoteKind<
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  Unique,
  Names extends string,
> extends IndexKind {
  readonly fields: Names;
  readonly api: RemoteRange<this["entity"], P, R> &
    (Unique extends true ? RemoteGet<this["entity"], P, R> : unknown);
}

interface RemoteRange<T, P extends KeyDeclaration, R extends KeyDeclaration> {
  range(query: KeyEquality<P> & RowQuery<R>, read?: RemoteRead): Query<T, "range">;
}

interface RemoteGet<T, P extends KeyDeclaration, R extends KeyDeclaration> {
  get(key: KeyEquality<P> & KeyEquality<R>, read?: RemoteRead): Promise<Saved<T> | undefined>;
}

/** Declares an index whose entries are stored in other partitions, or another table, than the entities. */
export function remoteIndex<
  const P extends KeyDeclaration,
  const R extends KeyDeclaration,
  const Unique extends boolean = false,
  const E extends string = never,
>(
  options: RemoteOptions<P, R, Unique, E>,
): RemoteIndex<P, R, Unique, FieldNames<P, E> | FieldNames<R, E>> {
  return new RemoteIndex(options);
}

const TIMING: Timing = { deadlineMs: 20_000, settleMs: 60_000, tripwireMs: 90_000 };

/** See `RemoteEntries` for how the entries are maintained. */
export class RemoteIndex<
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  Unique extends boolean,
  Names extends string = string,
> extends Index<RemoteKind<P, R, Unique, Names>> {
  declare readonly options: RemoteOptions<KeyDeclaration, KeyDeclaration, boolean>;
  readonly timing: Timing;
  override readonly queues: readonly string[];

  constructor(options: RemoteOptions<P, R, Unique>) {
    super(options, options);
    this.timing = { ...TIMING, ...options.timing };
    this.queues = options.mode === "inline" ? [] : [options.queue ?? REPAIR_QUEUE];
  }

  problems(entity: AnyEntity, name: string): string[] {
    const { unique, mode, queue } = this.options;
    const problems = entryProblems(this, entity, name, unique ? [] : segmentsOf(entity.rows));
    const { partition, row } = this.place(entity);
    // With one name in both keys, a range on one would have to be equality on the other.
    problems.push(...namedTwice(partition, row));
    problems.push(...nameProblems({ queue }));
    const { deadlineMs, settleMs, tripwireMs } = this.timing;
    if (!(deadlineMs < settleMs && settleMs < tripwireMs)) {
      problems.push("needs deadlineMs < settleMs < tripwireMs");
    }
    if (unique && mode === "queued") {
      problems.push("cannot be unique and queued: unique values are claimed before the commit");
    }
    return problems;
  }

  follow(context: FollowerContext): OpenIndex {
    const keeper = new RemoteEntries(this, context);
    const open = new OpenRemote(this, context, keeper);
    const range = open.range.bind(open);
    return {
      api: this.options.unique ? { range, get: open.get.bind(open) } : { range },
      reachesOut: true,
      prepare: (change) => keeper.prepare(change),
      keeper,
    };
  }
}

type AnyRemoteIndex = RemoteIndex<KeyDeclaration, KeyDeclaration, boolean>;

/** Reads entities through their entries. */
class OpenRemote {
  readonly #index: AnyRemoteIndex;
  readonly #context: FollowerContext;
  readonly #entries: RemoteEntries;
  readonly #verified: QuerySource;
  readonly #eventual: QuerySource;

  constructor(index: AnyRemoteIndex, context: FollowerContext, entries: RemoteEntries) {
    this.#index = index;
    this.#context = context;
    this.#entries = entries;
    this.#verified = this.#source(true);
    this.#eventual = this.#source(false);
  }

  range(query: KeyValues, { consistency }: RemoteRead = {}): QueryRun {
    const isEventual = consistency === "eventual";
    if (isEventual && this.#index.options.copy === "keys") {
      const message = "the entries copy no fields";
      throw validationFailed(this.#context.name, "consistency", message);
    }
    const { rows } = this.#entries;
    const source = isEventual ? this.#eventual : this.#verified;
    return queryRun(source, selected(rows.base, rows, query));
  }

  async get(query: KeyValues, read?: RemoteRead): Promise<Row | undefined> {
    return await this.range(query, read).first();
  }

  #source(isVerified: boolean): QuerySource {
    const { session, entity, name, readable } = this.#context;
    const { table, rows } = this.#entries;
    return {
      session,
      table,
      fields: entity.rows.fields,
      ...(readable && { readable }),
      ...(isVerified && { checked: `${entity.name}.${name}` }),
      notComparable: (field) =>
        isVerified
          ? "may be stale on the entries; read with consistency eventual, or filter the result"
          : rows.notComparable(field),
      projection: (fields) => {
        const own = [BASE_PARTITION_KEY, BASE_ROW_KEY, STATE_PROPERTY];
        return rows.projection(isVerified ? [] : fields, own);
      },
      decode: (entry, fields) => {
        const base = this.#entries.baseOf(entry);
        if (!base) return undefined;
        const mayCopy =
          !isVerified && !(STATE_PROPERTY in entry.properties) && rows.isCovered(fields);
        return mayCopy ? rows.decode(entry, base, fields) : this.#fromBase(base, entry, fields);
      },
      surcharge: (fields) =>
        isVerified || !rows.isCovered(fields)
          ? { perRow: 1, notes: ["each entry is checked against its base"] }
          : { perRow: 0, notes: ["served from copies, which may be stale"] },
    };
  }

  async #fromBase(
    base: EntityKey,
    entry: StoredEntity,
    fields: readonly string[] | undefined,
  ): Promise<Row | undefined> {
    const { row } = await this.#entries.baseAt(base);
    if (row && hasKey(this.#entries.keysOf(row), entry)) return project(row, fields);
    const { repairOnRead, queue = REPAIR_QUEUE } = this.#index.options;
    if (repairOnRead) await requestRepair(this.#context, queue, base, entry);
    return undefined;
  }
}
