import type { EntityDefinition, Infer } from "./entities/entity.ts";
import { EntityRepository, type KeyOf } from "./entities/repository.ts";
import { retryWhileStale, Stale } from "./entities/write.ts";
import {
  assertBetween,
  assertSome,
  definitionRefused,
  tableError,
  validationFailed,
} from "./errors.ts";
import { type KeyDeclaration, Segment } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import { decodeIsoDate, encodeIsoDate, type TimeUnit, UNIT_LENGTH } from "./keys/time.ts";
import type { Fields, Row } from "./model/entity-rows.ts";
import type { AnyEntity, Indexes } from "./model/follower.ts";
import type { KeyEquality } from "./model/key-query.ts";
import { type Openable, openable } from "./model/openable.ts";
import { tableProblems } from "./model/storage-name.ts";
import { isRefusal } from "./ports/port-error.ts";
import { type From, pages } from "./query/pages.ts";
import type { Saved } from "./query/query.ts";
import { DAY_MS, HOUR_MS } from "./store/clock.ts";
import type { Session } from "./store/session.ts";

export interface RotationOptions<At> {
  /** The date field that determines a row's table; the row key begins with it. */
  readonly at: At;
  /** Each of these has a table. */
  readonly unit: TimeUnit;
  /** How many whole units are kept besides the current one; at most 1000, since each is a table. */
  readonly keep: number;
  /** How many tables are created before their time, so that the service knows them. Default: 1. */
  readonly ahead?: number;
  /** How long a table is kept beyond its time, for clocks that differ. Default: one hour. */
  readonly graceMs?: number;
  /**
   * What happens to a row older than what is kept: it is refused, stored in the oldest table that is kept (and
   * dropped with it), or passed to a function. Readers must declare the same as writers.
   */
  readonly late?: "reject" | "oldest" | ((entity: Row) => void | Promise<void>);
}

export interface Rotating<T, P extends KeyDeclaration, R extends KeyDeclaration> {
  /**
   * 1 R, 1 E; 2 R more for the first row of a table; 4 R or more for a late row that is stored in the oldest
   * table, because no two tables may hold it. Undefined when the `late` function received the row.
   */
  insert(entity: T): Promise<Saved<T> | undefined>;
  /** 1 R, 1 E; for a past time, where late rows are kept, 1 R more and 1 for each table. */
  get(key: KeyOf<P, R>): Promise<Saved<T> | undefined>;
  /** The rows of a partition from `from` (included) to `to`, in key order. 1 R and 1 for each table. */
  range(query: KeyEquality<P> & Interval): AsyncIterable<Saved<T>>;
  /** Creates the upcoming tables and drops the expired ones. Any number of clients may run it at once. */
  rotate(): Promise<Rotation>;
  /** The existing tables, oldest first. */
  periods(): Promise<Period[]>;
  /** Drops the table for this time. False when there is none. */
  dropPeriod(time: Date): Promise<boolean>;
}

export interface Interval {
  readonly from: Date;
  readonly to: Date;
}

export interface Period {
  readonly table: string;
  /** Its first instant. */
  readonly from: Date;
}

export interface Rotation {
  readonly created: readonly string[];
  readonly dropped: readonly string[];
}

const UNIT_MS = { day: DAY_MS, hour: HOUR_MS };
/** The name of a dropped table cannot be used for a while. */
const BEING_DELETED_WAITS_MS = [5_000, 10_000, 20_000, 40_000];
const KEEP_MAX = 1000;
/** A hundred years: all of these dates are valid. */
const GRACE_MAX_MS = 36_500 * DAY_MS;

/** Rows that expire by age: a table for each period, and one request to drop it. */
export function rotating<
  F extends Fields,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  I extends Indexes,
>(
  definition: EntityDefinition<string, F, P, R, I>,
  options: RotationOptions<keyof Infer<F> & string>,
): Openable<Rotating<Infer<F>, P, R>> {
  const { keep, ahead = 1, graceMs = 0 } = options;
  assertSome("The rotation", { keep }, definitionRefused, KEEP_MAX);
  assertSome("The rotation", { ahead }, definitionRefused, KEEP_MAX, 0);
  // A negative grace would drop tables that must be kept.
  assertBetween("The rotation", { graceMs }, 0, GRACE_MAX_MS, definitionRefused);
  const problem = problemOf(definition, options);
  if (problem) throw definitionRefused("The rotation", definition.name, problem);
  return openable([], (session) => new OpenRotation(session, definition, options));
}

type Definition = AnyEntity & {
  readonly tables: readonly string[];
  in(table: string): AnyEntity;
};

function problemOf({ rows, table, tables }: Definition, options: RotationOptions<string>) {
  const [first] = rows.row.parts;
  if (!(first instanceof Segment) || first.field !== options.at || !first.lossless) {
    return `has a row key that does not begin with "${options.at}"`;
  }
  if (tables.length > 1) return "has indexes in other tables, which would not be dropped with it";
  if (!(options.unit in UNIT_LENGTH)) {
    return `has the unknown unit "${options.unit}": use ${Object.keys(UNIT_LENGTH).join(", ")}`;
  }
  // Each table has a date after the name.
  return tableProblems(table + encodeIsoDate(new Date(0), options.unit))[0];
}

class OpenRotation {
  readonly #session: Session;
  readonly #definition: Definition;
  readonly #options: RotationOptions<string>;
  readonly #isDescending: boolean;

  constructor(session: Session, definition: Definition, options: RotationOptions<string>) {
    this.#session = session;
    this.#definition = definition;
    this.#options = options;
    this.#isDescending = definition.rows.row.segments[0]!.descending;
  }

  async insert(entity: Row): Promise<Row | undefined> {
    const { late = "reject", at } = this.#options;
    const table = this.#tableOf(entity);
    const oldest = this.#name(this.#period(-this.#options.keep));
    if (table < oldest) {
      if (late === "reject") {
        throw validationFailed(table, at, `the time is before ${oldest}, the oldest table kept`);
      }
      if (late !== "oldest") {
        await late(entity);
        return undefined;
      }
    }
    return table >= this.#lateEnd()
      ? this.#insertInto(table, entity)
      : this.#insertOnce(table < oldest ? oldest : table, entity);
  }

  /**
   * A writer whose clock is on the other side of a period's end stores the row in another table. So each writer
   * looks for the row in the other tables after its own is written: if two meet, both remove their row and
   * start over.
   */
  #insertOnce(table: string, entity: Row): Promise<Row> {
    return retryWhileStale(this.#session, {}, async () => {
      if (await this.get(entity)) throw this.#taken(entity);
      const row = await this.#insertInto(table, entity);
      if (!(await this.#find(entity, table))) return row;
      await this.#rowsOf(table).deleteIfUnchanged(row);
      throw new Stale(this.#definition.rows.row.encode(entity));
    });
  }

  async #insertInto(table: string, entity: Row): Promise<Row> {
    const rows = this.#rowsOf(table);
    try {
      return await rows.insert(entity);
    } catch (error) {
      if (!isAbsent(error)) throw error;
      await this.#create(table);
      return rows.insert(entity);
    }
  }

  get(key: KeyValues): Promise<Row | undefined> {
    return this.#find(key);
  }

  /** Looks in every table but `except`. */
  async #find(key: KeyValues, except?: string): Promise<Row | undefined> {
    const own = this.#tableOf(key);
    for (const table of own < this.#lateEnd() ? await this.#tables(own, this.#lateEnd()) : [own]) {
      if (table === except) continue;
      try {
        const row = await this.#rowsOf(table).get(key);
        if (row) return row;
      } catch (error) {
        if (!isAbsent(error)) throw error;
      }
    }
    return undefined;
  }

  async *range(query: KeyValues & Interval): AsyncGenerator<Row> {
    const [first, last] = [query.from, query.to].map((at) => this.#tableAt(at)) as [string, string];
    const lateEnd = this.#lateEnd();
    const tables = await this.#tables(first, last < lateEnd ? lateEnd : last);
    // Rows of any past time may be in any of these; in the later tables each row is in the table of its time.
    const late = tables.filter((table) => table <= lateEnd);
    const groups = [late, ...tables.slice(late.length).map((table) => [table])];
    if (this.#isDescending) groups.reverse();
    for (const group of groups) yield* this.#merged(group, query);
  }

  /** The rows of several tables, in key order. */
  async *#merged(tables: readonly string[], query: KeyValues & Interval): AsyncGenerator<Row> {
    const { row } = this.#definition.rows;
    const keyOf = ({ head }: { head: Row }) => row.encode(head);
    const streams = tables.map((table) => this.#rowsIn(table, query));
    const live: { head: Row; readonly rows: AsyncGenerator<Row> }[] = [];
    try {
      for (const rows of streams) {
        const { value, done } = await rows.next();
        if (!done) live.push({ head: value, rows });
      }
      while (live.length > 0) {
        const next = live.reduce((a, b) => (keyOf(b) < keyOf(a) ? b : a));
        yield next.head;
        const { value, done } = await next.rows.next();
        if (done) live.splice(live.indexOf(next), 1);
        else next.head = value;
      }
    } finally {
      for (const rows of streams) await rows.return(undefined);
    }
  }

  async *#rowsIn(table: string, query: KeyValues & Interval): AsyncGenerator<Row> {
    const { from, to, ...partition } = query;
    const bounds = { ...partition, [this.#options.at]: { gte: from, lt: to } };
    try {
      yield* this.#rowsOf(table).range(bounds).stream();
    } catch (error) {
      // The table was dropped after it was listed.
      if (!isAbsent(error)) throw error;
    }
  }

  async rotate(): Promise<Rotation> {
    const { keep, ahead = 1, graceMs = HOUR_MS } = this.#options;
    const there = (await this.periods()).map(({ table }) => table);
    const kept = this.#name(this.#period(-keep, -graceMs));
    const dropped = there.filter((table) => table < kept);
    const wanted = Array.from({ length: ahead + 1 }, (_, i) => this.#name(this.#period(i)));
    const created = wanted.filter((table) => !there.includes(table));
    for (const table of created) await this.#create(table);
    for (const table of dropped) await this.#session.tables.deleteTable(table);
    return { created, dropped };
  }

  async periods(): Promise<Period[]> {
    const prefix = this.#definition.table;
    const periods: Period[] = [];
    const { tables } = this.#session;
    // ":" is the character after the digits.
    const range = { from: prefix, to: `${prefix}:` };
    for await (const { names } of pages((next: From<string>) =>
      tables.listTables({ ...range, ...next }),
    )) {
      for (const table of names) {
        const from = this.#periodOf(table.slice(prefix.length));
        if (from) periods.push({ table, from });
      }
    }
    return periods.sort((a, b) => a.from.getTime() - b.from.getTime());
  }

  /** The existing tables from one name through another, oldest first. */
  async #tables(first: string, last: string): Promise<string[]> {
    const tables = (await this.periods()).map(({ table }) => table);
    return tables.filter((table) => table >= first && table <= last);
  }

  /** The last table that late rows may be in, whatever the writer's clock says; "" when they are kept in none. */
  #lateEnd(): string {
    const { keep, late, graceMs = HOUR_MS } = this.#options;
    return late === "oldest" ? this.#name(this.#period(-keep, graceMs)) : "";
  }

  #taken(entity: Row): Error {
    const { name, rows } = this.#definition;
    const key = rows.row.encode(entity);
    const message = `${name} ${key} already exists.`;
    return tableError("unique-violation", message, { index: "key", key, owner: entity });
  }

  async dropPeriod(time: Date): Promise<boolean> {
    return this.#session.tables.deleteTable(this.#tableAt(time));
  }

  /** Undefined for a name that is not one of our tables. */
  #periodOf(digits: string): Date | undefined {
    if (!/^\d{4,10}$/.test(digits)) return undefined;
    const from = decodeIsoDate(digits);
    const isExact =
      !Number.isNaN(from.getTime()) && encodeIsoDate(from, this.#options.unit) === digits;
    return isExact ? from : undefined;
  }

  async #create(table: string): Promise<void> {
    for (const waitMs of [...BEING_DELETED_WAITS_MS, undefined]) {
      try {
        await this.#session.tables.createTable(table);
        return;
      } catch (error) {
        const isHeld = isRefusal(error, 409) && error.code === "TableBeingDeleted";
        if (!isHeld || waitMs === undefined) throw error;
        await this.#session.clock.sleep(waitMs);
      }
    }
  }

  #rowsOf(table: string): EntityRepository {
    return new EntityRepository(this.#session, this.#definition.in(table));
  }

  #tableOf(row: Row): string {
    return this.#tableAt(Object(row)[this.#options.at]);
  }

  /** @throws validation-failed for anything but a valid date. */
  #tableAt(time: unknown): string {
    if (time instanceof Date && !Number.isNaN(time.getTime())) return this.#name(time);
    throw validationFailed(this.#definition.table, this.#options.at, "a date is expected");
  }

  #name(time: Date): string {
    return this.#definition.table + encodeIsoDate(time, this.#options.unit);
  }

  /** The first instant of the period `count` units from now. */
  #period(count: number, offsetMs = 0): Date {
    const { unit } = this.#options;
    const now = new Date(this.#session.clock.now() + offsetMs);
    const start = decodeIsoDate(encodeIsoDate(now, unit));
    if (unit === "day" || unit === "hour") {
      return new Date(start.getTime() + count * UNIT_MS[unit]);
    }
    start.setUTCMonth(start.getUTCMonth() + count * (unit === "year" ? 12 : 1));
    return start;
  }
}

function isAbsent(error: unknown): boolean {
  return isRefusal(error, 404) && error.code === "TableNotFound";
}
