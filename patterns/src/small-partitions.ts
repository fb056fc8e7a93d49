import type { EntityDefinition, Infer } from "./entities/entity.ts";
import { EntityRepository } from "./entities/repository.ts";
import { assertSome, definitionRefused, tableError } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import { type Fields, project, type Row } from "./model/entity-rows.ts";
import type { AnyEntity, Indexes } from "./model/follower.ts";
import type { KeyEquality, RowQuery } from "./model/key-query.ts";
import { type Openable, openable } from "./model/openable.ts";
import { and, type Filter } from "./ports/filter.ts";
import { matches } from "./ports/filter-match.ts";
import type { Columns, Condition, Explanation, Saved } from "./query/query.ts";
import type { QueryRun } from "./query/query-run.ts";
import type { Session } from "./store/session.ts";

export interface SmallPartitionsOptions {
  /** The maximum number of rows in a range, 1 to 999: as many as one request returns. */
  readonly maxRows: number;
}

export interface SmallPartitions<T, P extends KeyDeclaration, R extends KeyDeclaration> {
  /** As in a repository: equality on leading segments, then at most one range. */
  range(query: KeyEquality<P> & RowQuery<R>): SmallQuery<T>;
}

/** A query that needs no permit: whatever its condition, it reads its range, which must be small. */
export interface SmallQuery<T> {
  /** A condition on properties. The whole range is fetched, and entities that do not match are dropped here. */
  where(condition: (columns: Columns<T>) => Condition): SmallQuery<T>;
  select<const Names extends readonly (keyof T)[]>(
    ...names: Names
  ): SmallQuery<Pick<T, Names[number]>>;
  /** @throws scan-not-permitted when the range holds more rows than declared. 1 R, at most `maxRows` + 1 E. */
  all(): Promise<Saved<T>[]>;
  /** The first in key order. Costs what `all` does. */
  first(): Promise<Saved<T> | undefined>;
  explain(): Explanation;
}

const ROWS_MAX = 999;

/** A collection whose partitions are so small that reading a whole one costs no more than an index would. */
export function smallPartitions<
  F extends Fields,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  I extends Indexes,
>(
  definition: EntityDefinition<string, F, P, R, I>,
  { maxRows }: SmallPartitionsOptions,
): Openable<SmallPartitions<Infer<F>, P, R>> {
  assertSome(definition.name, { maxRows }, definitionRefused, ROWS_MAX);
  return openable([definition.table], (session) => {
    const rows = new EntityRepository(session, definition);
    const whole = { session, definition, maxRows };
    return { range: (query: KeyValues) => new SmallRun(whole, rows.range(query)) };
  });
}

interface Whole {
  readonly session: Session;
  readonly definition: AnyEntity;
  readonly maxRows: number;
}

/** A `SmallQuery` without its types. */
class SmallRun {
  readonly #whole: Whole;
  readonly #range: QueryRun;
  readonly #condition: Filter | undefined;
  readonly #fields: readonly string[] | undefined;

  constructor(whole: Whole, range: QueryRun, condition?: Filter, fields?: readonly string[]) {
    this.#whole = whole;
    this.#range = range;
    this.#condition = condition;
    this.#fields = fields;
  }

  where(condition: Parameters<QueryRun["where"]>[0]): SmallRun {
    let both = this.#condition;
    // Called for its columns, which refuse fields that cannot be compared; the query it returns is not run.
    this.#range.where((columns) => {
      const next = condition(columns);
      both = and(both, next.filter);
      return next;
    });
    return new SmallRun(this.#whole, this.#range, both, this.#fields);
  }

  select(...fields: string[]): SmallRun {
    return new SmallRun(this.#whole, this.#range, this.#condition, fields);
  }

  async all(): Promise<Row[]> {
    const { session, definition, maxRows } = this.#whole;
    const all = await this.#range.limit(maxRows + 1).all();
    if (all.length > maxRows) {
      const { filter } = this.explain();
      throw tableError(
        "scan-not-permitted",
        `The range has more than the ${maxRows} rows declared for ${definition.name}: ${filter}.`,
        { plan: "partition-scan", filter },
        { remedy: "add an index, or raise maxRows." },
      );
    }
    const condition = this.#condition;
    const { rows } = definition;
    const meets = (row: Row) =>
      !condition ||
      matches(condition, {
        ...rows.key(row, session.profile),
        etag: "",
        properties: rows.properties(row),
      });
    return all.filter(meets).map((row) => project(row, this.#fields) ?? row);
  }

  async first(): Promise<Row | undefined> {
    return (await this.all())[0];
  }

  explain(): Explanation {
    const explanation = this.#range.explain();
    const { maxRows } = this.#whole;
    return {
      ...explanation,
      requests: "1",
      entities: `rows, at most ${maxRows}`,
      notes: [...explanation.notes, ...(this.#condition ? ["the condition is applied here"] : [])],
    };
  }
}
