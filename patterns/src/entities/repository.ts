import { tableError, validationFailed } from "../errors.ts";
import type { KeyDeclaration } from "../keys/key.ts";
import { within } from "../keys/key-range.ts";
import type { KeyValues } from "../keys/key-shape.ts";
import {
  assertEntityFits,
  project,
  type Row,
  selected,
  shortenedValues,
} from "../model/entity-rows.ts";
import type { AnyEntity, Contribution, IndexApi, Indexes, Snapshot } from "../model/follower.ts";
import type { KeyEquality, RowQuery } from "../model/key-query.ts";
import { deleteOf } from "../ports/mutation.ts";
import { isRefusalInside } from "../ports/port-error.ts";
import type { Query, Saved } from "../query/query.ts";
import { type QueryRun, type QuerySource, queryRun } from "../query/query-run.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "../store/limit.ts";
import type { Session } from "../store/session.ts";
import { WRITE_TOKENS } from "../store/write-token.ts";
import {
  changeStep,
  commitSteps,
  deleteStep,
  insertStep,
  keyIn,
  mustRead,
  type OpenEntity,
  openEntity,
  readEntity,
  retryWhileStale,
  Stale,
  type Step,
  updateStep,
  upsertOver,
  type WriteOptions,
  withContribution,
} from "./write.ts";

export type KeyOf<P extends KeyDeclaration, R extends KeyDeclaration> = KeyEquality<P> &
  KeyEquality<R>;

export interface DeleteOptions extends WriteOptions {
  /** Deletes whatever version is stored now. */
  readonly force?: boolean;
}

/**
 * The entities of one definition. Costs are in requests (R) and entities (E), for entities without indexes;
 * each sibling index adds 1 E to a write.
 */
export interface Repository<
  T,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  I extends Indexes,
> {
  /** 1 R, 1 E. */
  get(key: KeyOf<P, R>): Promise<Saved<T> | undefined>;
  /** @throws not-found. 1 R, 1 E. */
  mustGet(key: KeyOf<P, R>): Promise<Saved<T>>;
  /** Concurrent point queries; the results are in the order of `keys`. n R, n E. */
  getMany(keys: readonly KeyOf<P, R>[]): Promise<(Saved<T> | undefined)[]>;
  /**
   * The entities of one partition whose row keys match: equality on leading segments, then at most one range
   * (`gte`, `gt`, `lte`, `lt`, `startsWith`). ⌈rows/1000⌉ R, rows E.
   */
  range(query: KeyEquality<P> & RowQuery<R>): Query<T, "range">;
  /** Every entity in the table. Running it requires a permit. */
  scan(): Query<T, "table-scan">;

  /** @throws unique-violation when the key, or a value of a unique index, is taken. 1 R. */
  insert(entity: T): Promise<Saved<T>>;
  /**
   * Reads the entity, applies the pure function `change` and writes the result if the entity has not changed
   * since; if it has, starts again. A field that `change` returns as undefined is removed; if `change` returns
   * nothing, nothing is written. 2 R.
   */
  update(
    key: KeyOf<P, R>,
    change: (current: Saved<T>) => Changes<T> | undefined,
    options?: WriteOptions,
  ): Promise<Saved<T>>;
  /** Replaces the whole value of an existing entity. 2 R. */
  replace(entity: T, options?: WriteOptions): Promise<Saved<T>>;
  /** One attempt. @throws conflict when the stored entity is not the version that was read. 2 R. */
  replaceIfUnchanged(entity: Saved<T>): Promise<Saved<T>>;
  /** Inserts the entity or replaces its whole value. 1 R without indexes, otherwise 2. */
  upsert(entity: T, options?: WriteOptions): Promise<Saved<T>>;
  /** Inserts the entity or changes only the given fields. 1 R; only for entities without indexes or followers. */
  readonly insertOrMerge: keyof I extends never
    ? (fields: KeyOf<P, R> & Changes<T>) => Promise<void>
    : never;
  /** False when there was nothing to delete. 2 R; 1 R with `force` for entities without indexes. */
  delete(key: KeyOf<P, R>, options?: DeleteOptions): Promise<boolean>;
  /**
   * One attempt. False when the entity is gone.
   * @throws conflict when the stored entity is not the version that was read. 1 R, 2 with indexes.
   */
  deleteIfUnchanged(entity: Saved<T>): Promise<boolean>;
  /**
   * Writes the index entries and copies of the entity again, for rows that other software wrote. False when the
   * entity does not exist.
   */
  reconcile(key: KeyOf<P, R>): Promise<boolean>;

  /** The indexes, by name: `by.lastName.range(…)`, and `by.email.get(…)` for a unique one. */
  readonly by: { readonly [Name in keyof I]: IndexApi<I[Name], T, P> };
}

/**
 * New values; undefined removes an optional field. (The compiler refuses undefined for a required field only
 * under `exactOptionalPropertyTypes`; without it, every property that may be omitted may also be undefined.)
 */
export type Changes<T> = {
  readonly [Name in keyof T]?:
    | T[Name]
    | (Record<never, never> extends Pick<T, Name> ? undefined : never);
};

export function openRepository<
  T,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  I extends Indexes,
>(session: Session, entity: AnyEntity): Repository<T, P, R, I> {
  // The only place where the declared types meet untyped rows: what `EntityRows` encodes and decodes follows
  // the declaration that T, P, R and I were inferred from.
  return new EntityRepository(session, entity) as unknown as Repository<T, P, R, I>;
}

/** A `Repository` without its types. */
export class EntityRepository {
  readonly by: Readonly<Record<string, unknown>>;
  readonly #open: OpenEntity;
  /**
   * Whether a write must read the row first: followers need the old entity, or the key holds a hash that
   * another entity may share.
   */
  readonly #isRead: boolean;
  readonly #source: QuerySource;

  constructor(session: Session, entity: AnyEntity) {
    this.#open = openEntity(session, entity);
    this.by = this.#open.by;
    const compared = shortenedValues(entity.rows, entity.rows, {});
    this.#isRead = this.#open.followers.length + compared.length > 0;
    const { rows, table } = entity;
    this.#source = {
      session,
      table,
      fields: rows.fields,
      notComparable: (field) => rows.notComparable(field),
      projection: (fields) => rows.selectFor(fields),
      decode: (stored, fields) => project(rows.decode(stored), fields),
    };
  }

  async get(key: KeyValues): Promise<Row | undefined> {
    return (await readEntity(this.#open, key))?.row;
  }

  async mustGet(key: KeyValues): Promise<Row> {
    return (await mustRead(this.#open, key)).row;
  }

  getMany(keys: readonly KeyValues[]): Promise<(Row | undefined)[]> {
    return mapBounded(keys, LOOKUPS_AT_ONCE, (key) => this.get(key));
  }

  range(query: KeyValues): QueryRun {
    const { rows } = this.#open.entity;
    return queryRun(this.#source, selected(rows, rows, query));
  }

  scan(): QueryRun {
    const { row } = this.#open.entity.rows;
    return queryRun(this.#source, { range: within(row.prefix) });
  }

  insert(entity: Row): Promise<Row> {
    return this.#commit({}, () => insertStep(this.#open, entity));
  }

  update(
    key: KeyValues,
    change: (current: Row) => Row | undefined,
    options: WriteOptions = {},
    contribution: Contribution = {},
  ): Promise<Row> {
    return this.#uncontended(options, async () => {
      const before = await mustRead(this.#open, key);
      const step = await changeStep(this.#open, before, change);
      return step ? commit(withContribution(step, contribution)) : before.row;
    });
  }

  replace(entity: Row, options: WriteOptions = {}): Promise<Row> {
    return this.#commit(options, async () =>
      updateStep(this.#open, await mustRead(this.#open, entity), entity, "replace"),
    );
  }

  replaceIfUnchanged(entity: Row): Promise<Row> {
    return once(async () => {
      const before = unchanged(await mustRead(this.#open, entity), entity);
      return commit(await updateStep(this.#open, before, entity, "replace"));
    });
  }

  async upsert(entity: Row, options: WriteOptions = {}): Promise<Row> {
    if (!this.#isRead) return saved(entity, await this.#blind("insertOrReplace", entity));
    return this.#commit(options, async () =>
      upsertOver(this.#open, await readEntity(this.#open, entity), entity),
    );
  }

  async insertOrMerge(fields: Row): Promise<void> {
    if (this.#open.followers.length > 0) {
      const { name } = this.#open.entity;
      throw validationFailed(
        name,
        "indexes",
        "its indexes and followers require a read first; use update or upsert",
      );
    }
    await this.#blind("insertOrMerge", Object(fields));
  }

  async delete(key: KeyValues, options: DeleteOptions = {}): Promise<boolean> {
    if (options.force && !this.#isRead) {
      const { session, entity } = this.#open;
      const request = session.tables.commit(entity.table, [deleteOf(keyIn(this.#open, key))]);
      return request.then(() => true, falseIfAbsent);
    }
    return this.#uncontended(options, async () => {
      const before = await readEntity(this.#open, key);
      if (before) await commitSteps([deleteStep(this.#open, before)]);
      return before !== undefined;
    });
  }

  deleteIfUnchanged(entity: Row): Promise<boolean> {
    return once(async () => {
      // No read returns the ETag "*". As a condition it would match any row, so read the row and compare.
      const isRead = this.#open.followers.length > 0 || entity?.etag === "*";
      const found = isRead ? await readEntity(this.#open, entity) : this.#assumed(entity);
      if (!found) return false;
      const request = commitSteps([deleteStep(this.#open, unchanged(found, entity))]);
      return request.then(() => true, falseIfAbsent);
    });
  }

  reconcile(key: KeyValues): Promise<boolean> {
    return this.#uncontended({}, async () => {
      const before = await readEntity(this.#open, key);
      if (before) await commitSteps([await updateStep(this.#open, before, before.row, "update")]);
      return before !== undefined;
    });
  }

  #commit(options: WriteOptions, makeStep: () => Promise<Step>): Promise<Row> {
    return this.#uncontended(options, async () => commit(await makeStep()));
  }

  #uncontended<Result>(options: WriteOptions, attempt: () => Promise<Result>): Promise<Result> {
    return retryWhileStale(this.#open.session, options, attempt);
  }

  #assumed(entity: Row): Snapshot {
    return {
      row: entity,
      stored: { ...keyIn(this.#open, entity), etag: String(entity.etag), properties: {} },
    };
  }

  async #blind(
    kind: "insertOrReplace" | "insertOrMerge",
    fields: Row,
  ): Promise<string | undefined> {
    const { session, entity } = this.#open;
    await entity.rows.validate(fields, kind === "insertOrMerge" ? Object.keys(fields) : undefined);
    const properties = entity.rows.encode(fields, session.writeToken());
    // A merge keeps the row's token history, so that an earlier writer still finds its own token there.
    if (kind === "insertOrMerge") delete properties[WRITE_TOKENS];
    const key = keyIn(this.#open, fields);
    assertEntityFits(key, properties);
    const [etag] = await session.tables.commit(entity.table, [{ kind, ...key, properties }]);
    return etag;
  }
}

async function commit(step: Step): Promise<Row> {
  const [etag] = await commitSteps([step]);
  return saved(step.change.after ?? {}, etag);
}

function saved(row: Row, etag: string | undefined): Row {
  const present = Object.entries(row).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries([...present, ["etag", etag ?? ""]]);
}

/** @throws Stale when the caller read another version. */
function unchanged(found: Snapshot, { etag }: Row): Snapshot {
  if (found.stored.etag === etag) return found;
  throw new Stale(found.stored.rowKey);
}

/** Makes one attempt. @throws conflict where `retryWhileStale` would retry. */
function once<Result>(attempt: () => Promise<Result>): Promise<Result> {
  return attempt().catch((error) => {
    if (!(error instanceof Stale)) throw error;
    const { message, rowKey, cause } = error;
    throw tableError("conflict", message, { key: rowKey }, { cause });
  });
}

function falseIfAbsent(error: unknown): false {
  const refusal = error instanceof Stale ? error.cause : error;
  if (isRefusalInside(refusal, 404)) return false;
  throw error;
}
