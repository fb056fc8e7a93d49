import { entity, type Infer } from "./entities/entity.ts";
import { EntityRepository, type KeyOf } from "./entities/repository.ts";
import { retryWhileStale, Stale, type WriteOptions } from "./entities/write.ts";
import { assertSome, definitionRefused, isTableError, validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import { padded } from "./keys/number.ts";
import type { Fields, Row } from "./model/entity-rows.ts";
import { type Field, f } from "./model/field.ts";
import type { AnyEntity } from "./model/follower.ts";
import type { CheckedKey } from "./model/key-query.ts";
import { type Openable, openable } from "./model/openable.ts";
import type { Session } from "./store/session.ts";

/** The points of a series: `name_00`, `name_01`, … */
export interface Slots<Value> {
  readonly name: string;
  readonly count: number;
  readonly field: Field<Value, false>;
}

/** `name_00`, `name_01`, …: 1 to 248 points, each an Int32 unless `field` is given. */
export function slots(name: string, count: number): Slots<number>;
export function slots<Value>(name: string, count: number, field: Field<Value, false>): Slots<Value>;
export function slots(
  name: string,
  count: number,
  field: Field<unknown, false> = f.int32(),
): Slots<unknown> {
  return { name, count, field };
}

/** 24 counters, one for each hour of a day. */
export function hours(name: string): Slots<number> {
  return slots(name, 24);
}

export interface SeriesOptions<
  F extends Fields,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  Value,
> {
  /** The fields of the key. */
  readonly fields: F;
  readonly key: {
    readonly partition: P & CheckedKey<P, Infer<F>>;
    readonly row: R & CheckedKey<R, Infer<F>>;
  };
  readonly slots: Slots<Value>;
  /** Spreads the additions to one series over this many rows, which are summed on read. */
  readonly writers?: number;
}

export interface Series<Key, Value> {
  /** Sets one point without reading. 1 R, 1 E. Not for series with writers. */
  set(key: Key, slot: number, value: Value): Promise<void>;
  /** Adds to one point; no addition is lost or counted twice. 2 R, 2 E. */
  add(key: Key, slot: number, delta: Value, options?: AddOptions): Promise<void>;
  /** All points, undefined for gaps. 1 R, 1 E for each writer. */
  read(key: Key): Promise<(Value | undefined)[]>;
  /**
   * The points of several series end to end, from position `from` up to, but not including, `to`. A read for
   * each series.
   */
  window(keys: readonly Key[], from: number, to: number): Promise<(Value | undefined)[]>;
  /** Removes points. 2 R, 2 E for each writer. */
  clear(key: Key, slots: readonly number[]): Promise<void>;
}

export interface AddOptions extends WriteOptions {
  /** Which of the series' rows receives the addition, from 0. Default: a random one. */
  readonly writer?: number;
}

const SLOTS_MAX = 248;

/** Many numbers that are read together, in one row. */
export function series<
  const F extends Fields,
  const P extends KeyDeclaration,
  const R extends KeyDeclaration,
  Value extends number | bigint,
>(name: string, options: SeriesOptions<F, P, R, Value>): Openable<Series<KeyOf<P, R>, Value>> {
  const { slots, key, fields, writers = 1 } = options;
  assertSome(name, { writers }, definitionRefused, SLOTS_MAX);
  assertSome(name, { slots: slots.count }, definitionRefused, SLOTS_MAX);
  const points = Array.from({ length: slots.count }, (_, slot) => pointName(slots, slot));
  const all: Fields = {
    ...fields,
    ...Object.fromEntries(points.map((point) => [point, slots.field.optional()])),
  };
  const definitions = Array.from({ length: writers }, (_, writer) =>
    entity(name, {
      version: 1,
      fields: all,
      key: {
        partition: key.partition as KeyDeclaration,
        row: (writers > 1
          ? withLiteral(key.row, `w${pad(writer, writers)}`)
          : key.row) as KeyDeclaration,
      },
    }),
  );
  return openable([name], (session) => new OpenSeries(session, definitions, points));
}

function withLiteral(key: KeyDeclaration, literal: string): KeyDeclaration {
  return "parts" in key ? { ...key, parts: [...key.parts, { literal }] } : [...key, { literal }];
}

function pointName({ name, count }: Slots<unknown>, slot: number): string {
  return `${name}_${pad(slot, count)}`;
}

function pad(index: number, count: number): string {
  return padded(index, Math.max(2, String(count - 1).length));
}

class OpenSeries {
  readonly #session: Session;
  readonly #rows: readonly EntityRepository[];
  readonly #points: readonly string[];

  constructor(session: Session, definitions: readonly AnyEntity[], points: readonly string[]) {
    this.#session = session;
    this.#rows = definitions.map((definition) => new EntityRepository(session, definition));
    this.#points = points;
  }

  async set(key: KeyValues, slot: number, value: unknown): Promise<void> {
    if (this.#rows.length > 1) {
      throw validationFailed("The series", "set", "with writers a point is a sum; use add");
    }
    await this.#rows[0]!.insertOrMerge({ ...key, [this.#point(slot)]: value });
  }

  async add(key: KeyValues, slot: number, delta: unknown, options: AddOptions = {}): Promise<void> {
    const point = this.#point(slot);
    // In plain JavaScript it may be a text or missing, which cannot be added.
    if (typeof delta !== "number" && typeof delta !== "bigint") {
      throw validationFailed("The series", "delta", `${delta} is not a number`);
    }
    const writer = options.writer ?? Math.floor(this.#session.random() * this.#rows.length);
    const rows = this.#rows[writer];
    if (!rows) throw validationFailed("The series", "writer", `there is no writer ${writer}`);
    const change = (current: Row) => ({ [point]: sum(current[point], delta) });
    await retryWhileStale(this.#session, options, async () => {
      try {
        return await rows.update(key, change, options);
      } catch (error) {
        if (!isTableError(error, "not-found")) throw error;
      }
      try {
        return await rows.insert({ ...key, ...change({}) });
      } catch (error) {
        // Another writer created the row in between.
        throw isTableError(error, "unique-violation") ? new Stale(error.key, error) : error;
      }
    });
  }

  async read(key: KeyValues): Promise<unknown[]> {
    const found = await Promise.all(this.#rows.map((rows) => rows.get(key)));
    return this.#points.map((point) => found.map((row) => row?.[point]).reduce(sum));
  }

  async window(keys: readonly KeyValues[], from: number, to: number): Promise<unknown[]> {
    return (await Promise.all(keys.map((key) => this.read(key)))).flat().slice(from, to);
  }

  async clear(key: KeyValues, slots: readonly number[]): Promise<void> {
    const gaps = Object.fromEntries(slots.map((slot) => [this.#point(slot), undefined]));
    await Promise.all(
      this.#rows.map((rows) =>
        rows
          .update(key, () => gaps)
          .catch((error) => {
            if (!isTableError(error, "not-found")) throw error;
          }),
      ),
    );
  }

  #point(slot: number): string {
    const point = this.#points[slot];
    if (point) return point;
    throw validationFailed(
      "The series",
      "slot",
      `${slot} is not one of 0 to ${this.#points.length - 1}`,
    );
  }
}

function sum(a: unknown, b: unknown): unknown {
  if (typeof a === "number" && typeof b === "number") return a + b;
  if (typeof a === "bigint" && typeof b === "bigint") return a + b;
  if (a !== undefined && b !== undefined) {
    throw validationFailed("The series", "delta", `a ${typeof b} cannot be added to a ${typeof a}`);
  }
  return a ?? b;
}
