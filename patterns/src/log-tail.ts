import { bulkDelete } from "./bulk-delete.ts";
import { entity, type Infer } from "./entities/entity.ts";
import { EntityRepository } from "./entities/repository.ts";
import { assertBetween } from "./errors.ts";
import { type KeyDeclaration, k } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import type { Fields, Row } from "./model/entity-rows.ts";
import { type Field, f } from "./model/field.ts";
import type { AnyEntity } from "./model/follower.ts";
import type { CheckedKey, KeyEquality } from "./model/key-query.ts";
import { type Openable, openable } from "./model/openable.ts";
import type { Query, Saved } from "./query/query.ts";
import type { QueryRun } from "./query/query-run.ts";
import type { Session } from "./store/session.ts";
import { newestFirst } from "./store/write-token.ts";

export interface LogTailOptions<
  F extends Fields,
  S extends KeyDeclaration,
  At extends DateNames<F>,
> {
  readonly fields: F;
  /** The partition key: what a log belongs to. */
  readonly stream: S & CheckedKey<S, Infer<F>>;
  /** The date field that orders it. */
  readonly at: At;
  /** Default: the name. */
  readonly table?: string;
}

type DateNames<F extends Fields> = {
  [Name in keyof F & string]: F[Name] extends Field<Date, false> ? Name : never;
}[keyof F & string];

/** `entryId` tells entries with the same time apart: that of a later append is lower. */
export type Logged<T> = T & { readonly entryId: string };

export interface Log<T, S extends KeyDeclaration, At extends string> {
  /** Uses the current time unless the entry has one. 1 R, 1 E. */
  append(entry: Omit<T, At> & { readonly [Name in At]?: Date }): Promise<Saved<Logged<T>>>;
  /** The newest entries, newest first. ⌈count/1000⌉ R, count E. */
  tail(stream: KeyEquality<S>, count: number): Promise<Saved<Logged<T>>[]>;
  /** All entries, newest first. A page's cursor leads to older entries, whatever is appended in the meantime. */
  all(stream: KeyEquality<S>): Query<Logged<T>, "range">;
  /** Entries newer than `time`, newest first. */
  since(stream: KeyEquality<S>, time: Date): Query<Logged<T>, "range">;
  /** Entries older than `time`, newest first. */
  before(stream: KeyEquality<S>, time: Date): Query<Logged<T>, "range">;
  /** Deletes entries older than `time`; may be run again. @returns the number it deleted. */
  trimBefore(stream: KeyEquality<S>, time: Date): Promise<number>;
  /**
   * Yields new entries as they appear, oldest first, until the signal ends it (it rejects with the signal's
   * reason).
   */
  follow(stream: KeyEquality<S>, options?: FollowOptions): AsyncIterable<Saved<Logged<T>>>;
}

export interface FollowOptions {
  /** Yields nothing before this time. Default: now. */
  readonly from?: Date;
  /** Default: 1 s. */
  readonly pollMs?: number;
  /** How late an entry may become visible, including differences between writers' clocks. Default: 5 s. */
  readonly overlapMs?: number;
  readonly signal?: AbortSignal;
}

/** Entries that are mostly read newest first: the row key begins with the inverted time. */
export function logTail<
  const F extends Fields,
  const S extends KeyDeclaration,
  const At extends DateNames<F>,
>(name: string, options: LogTailOptions<F, S, At>): Openable<Log<Infer<F>, S, At>> {
  const definition: AnyEntity = entity(name, {
    version: 1,
    table: options.table ?? name,
    fields: { ...options.fields, entryId: f.string() } as Fields,
    key: {
      partition: options.stream as KeyDeclaration,
      row: [k.dateDesc(options.at), k.ulid("entryId")] as KeyDeclaration,
    },
  });
  return openable([definition.table], (session) => new OpenLog(session, definition, options.at));
}

class OpenLog {
  readonly #session: Session;
  readonly #definition: AnyEntity;
  readonly #at: string;
  readonly #rows: EntityRepository;

  constructor(session: Session, definition: AnyEntity, at: string) {
    this.#session = session;
    this.#definition = definition;
    this.#at = at;
    this.#rows = new EntityRepository(session, definition);
  }

  append(entry: Row): Promise<Row> {
    const at = Object(entry)[this.#at] ?? new Date(this.#session.clock.now());
    const entryId = newestFirst(this.#session.writeToken());
    return this.#rows.insert(Object.assign({}, entry, { [this.#at]: at, entryId }));
  }

  tail(stream: KeyValues, count: number): Promise<Row[]> {
    return this.all(stream).limit(count).all();
  }

  all(stream: KeyValues): QueryRun {
    return this.#rows.range(stream);
  }

  since(stream: KeyValues, time: Date): QueryRun {
    return this.#rows.range({ ...stream, [this.#at]: { gt: time } });
  }

  before(stream: KeyValues, time: Date): QueryRun {
    return this.#rows.range({ ...stream, [this.#at]: { lt: time } });
  }

  trimBefore(stream: KeyValues, time: Date): Promise<number> {
    const { table, rows } = this.#definition;
    return bulkDelete(this.#session, table, {
      partitionKey: rows.partitionKey(stream),
      rows: rows.row.rangeOf({ [this.#at]: { lt: time } }),
    });
  }

  async *follow(stream: KeyValues, options: FollowOptions = {}): AsyncGenerator<Row> {
    const { clock } = this.#session;
    const { from, pollMs = 1000, overlapMs = 5000, signal } = options;
    // With an interval of 0 it would poll without pause.
    assertBetween("The log", { pollMs }, 1);
    assertBetween("The log", { overlapMs }, 0);
    const start = (from?.getTime() ?? clock.now()) - 1;
    let newest = start;
    let seen = new Set<unknown>();
    for (;;) {
      // Entries may become visible out of order, so the last stretch is read again.
      const since = new Date(Math.max(start, newest - overlapMs));
      const rows = await this.since(stream, since).all();
      const fresh = rows.filter(({ entryId }) => !seen.has(entryId)).reverse();
      seen = new Set(rows.map(({ entryId }) => entryId));
      for (const row of fresh) {
        // An entry with a future time must not hide entries written before then.
        newest = Math.max(newest, Math.min(Number(row[this.#at]), clock.now()));
        yield row;
      }
      await clock.sleep(pollMs, signal);
    }
  }
}
