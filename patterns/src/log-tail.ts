import { bulkDelete } from "./bulk-delete.ts";
import type { Database } from "./database.ts";
import { assertBetween } from "./errors.ts";
import { type KeyDeclaration, k } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import { type AnyEntity, entity, type Infer } from "./model/entity.ts";
import type { Fields, Row } from "./model/entity-rows.ts";
import { type Field, f } from "./model/field.ts";
import type { CheckedKey, KeyEquality } from "./model/key-query.ts";
import { type Openable, openable } from "./model/openable.ts";
import type { Query, Saved } from "./query/query.ts";
import type { QueryRun } from "./query/query-run.ts";
import { EntityRepository } from "./repository.ts";

export interface LogTailOptions<
  F extends Fields,
  S extends KeyDeclaration,
  At extends DateNames<F>,
> {
  readonly fields: F;
  /** What a log belongs to: the partition key. */
  readonly stream: S & CheckedKey<S, Infer<F>>;
  /** The field that orders it. */
  readonly at: At;
  /** Default: the name. */
  readonly table?: string;
}

type DateNames<F extends Fields> = {
  [Name in keyof F & string]: F[Name] extends Field<Date, false> ? Name : never;
}[keyof F & string];

/** `entryId` tells entries of the same millisecond apart; those of one process sort by when they came. */
export type Logged<T> = T & { readonly entryId: string };

export interface Log<T, S extends KeyDeclaration, At extends string> {
  /** Its time is now unless the entry has one. 1 R, 1 E. */
  append(entry: Omit<T, At> & { readonly [Name in At]?: Date }): Promise<Saved<Logged<T>>>;
  /** The newest entries, newest first. ⌈count/1000⌉ R, count E. */
  tail(stream: KeyEquality<S>, count: number): Promise<Saved<Logged<T>>[]>;
  /** Everything, newest first. A page's cursor leads to older entries, whatever is appended meanwhile. */
  all(stream: KeyEquality<S>): Query<Logged<T>, "range">;
  /** What is newer than `time`, newest first. */
  since(stream: KeyEquality<S>, time: Date): Query<Logged<T>, "range">;
  /** What is older than `time`, newest first. */
  before(stream: KeyEquality<S>, time: Date): Query<Logged<T>, "range">;
  /** Deletes what is older than `time`; may be run again. @returns how many entries it deleted. */
  trimBefore(stream: KeyEquality<S>, time: Date): Promise<number>;
  /** New entries as they come, oldest first, until the signal aborts it (with the signal's reason). */
  follow(stream: KeyEquality<S>, options?: FollowOptions): AsyncIterable<Saved<Logged<T>>>;
}

export interface FollowOptions {
  /** Nothing before this time is given. Default: now. */
  readonly from?: Date;
  /** Default: 1 s. */
  readonly pollMs?: number;
  /** How late an entry may become visible, clocks of other writers included. Default: 5 s. */
  readonly overlapMs?: number;
  readonly signal?: AbortSignal;
}

/** Entries that are mostly read latest first: the row key is the time counted backwards. */
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
  return openable([definition.table], (database) => new OpenLog(database, definition, options.at));
}

class OpenLog {
  readonly #database: Database;
  readonly #definition: AnyEntity;
  readonly #at: string;
  readonly #rows: EntityRepository;

  constructor(database: Database, definition: AnyEntity, at: string) {
    this.#database = database;
    this.#definition = definition;
    this.#at = at;
    this.#rows = new EntityRepository(database, definition);
  }

  append(entry: Row): Promise<Row> {
    const at = Object(entry)[this.#at] ?? new Date(this.#database.clock.now());
    const entryId = this.#database.writeToken().toLowerCase();
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
    return bulkDelete(this.#database, table, {
      partitionKey: rows.partitionKey(stream),
      rows: rows.row.rangeOf({ [this.#at]: { lt: time } }),
    });
  }

  async *follow(stream: KeyValues, options: FollowOptions = {}): AsyncGenerator<Row> {
    const { clock } = this.#database;
    const { from, pollMs = 1000, overlapMs = 5000, signal } = options;
    // At no interval it would ask without end.
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
        // A time that is yet to come must not hide what is written until then.
        newest = Math.max(newest, Math.min(Number(row[this.#at]), clock.now()));
        yield row;
      }
      await clock.sleep(pollMs, signal);
    }
  }
}
