import type { Database } from "../database.ts";
import { tableError, validationFailed } from "../errors.ts";
import { fnv1a128 } from "../keys/hash.ts";
import type { KeyRange } from "../keys/key-range.ts";
import type { Row } from "../model/entity-rows.ts";
import type { Field } from "../model/field.ts";
import type { Continuation, Page, StoredEntity } from "../ports/tables.ts";
import { type CursorScope, decodeCursor, encodeCursor } from "./cursor.ts";
import {
  and,
  type Comparison,
  compare,
  type Filter,
  inRange,
  isOneRow,
  printFilter,
} from "./filter.ts";
import type { Column, Condition, Explanation, Permit, Plan, QueryPage } from "./query.ts";

/** The rows a query runs over and how they become entities. */
export interface QuerySource {
  readonly database: Database;
  readonly table: string;
  /** Absent for a table scan. */
  readonly partitionKey?: string;
  readonly range: KeyRange;
  readonly fields: Readonly<Record<string, Field>>;
  /** The index whose entries `decode` checks against their entities. */
  readonly checked?: string;
  /** Rejects while these rows may not be relied on. */
  readonly readable?: () => Promise<void>;
  /** Why the service cannot compare this field on these rows, if so. */
  notComparable(field: string): string | undefined;
  /** What `$select` must name so that `decode` can give `fields`; undefined for everything. */
  projection(fields: readonly string[] | undefined): readonly string[] | undefined;
  /** In the order of `stored`; undefined for a row that does not belong to the result. */
  decode(
    stored: readonly StoredEntity[],
    fields: readonly string[] | undefined,
  ): Promise<(Row | undefined)[]>;
  /** What `decode` costs beside the pages: requests and entities for each row, and why. */
  surcharge(fields: readonly string[] | undefined): {
    readonly perRow: number;
    readonly notes: readonly string[];
  };
}

interface QueryState {
  readonly condition?: Filter;
  readonly fields?: readonly string[];
  readonly limit?: number;
}

interface Found {
  readonly stored: StoredEntity;
  readonly row: Row;
}

interface FoundPage {
  readonly found: readonly Found[];
  readonly continuation: Continuation | undefined;
}

const PAGE_ENTITIES_MAX = 1000;

/** A query without its types; see `Query`. Each step returns a new one. */
export class QueryRun {
  readonly #source: QuerySource;
  readonly #state: QueryState;

  constructor(source: QuerySource, state: QueryState = {}) {
    this.#source = source;
    this.#state = state;
  }

  where(condition: (columns: Record<string, Column<unknown>>) => Condition): QueryRun {
    const columns = Object.entries(this.#source.fields).map(([name, field]) => {
      const refusal = this.#source.notComparable(name);
      return [name, columnOf(name, field, refusal)];
    });
    const { filter } = condition(Object.fromEntries(columns));
    return new QueryRun(this.#source, {
      ...this.#state,
      condition: and(this.#state.condition, filter)!,
    });
  }

  select(...fields: string[]): QueryRun {
    return new QueryRun(this.#source, { ...this.#state, fields });
  }

  limit(limit: number): QueryRun {
    if (!Number.isInteger(limit) || limit < 1) {
      throw validationFailed("The limit", "limit", `${limit} is not 1, 2, 3, …`);
    }
    return new QueryRun(this.#source, { ...this.#state, limit });
  }

  async all(permit?: Permit<Plan>): Promise<Row[]> {
    const found: Found[] = [];
    const next = this.#pages(permit);
    for (let page = await next(); page; page = await next()) found.push(...page.found);
    if (!this.#source.database.profile.ordered) {
      // The endpoint promises no order, so a limit must not cut before sorting; see `#top`.
      found.sort((a, b) => order(a.stored, b.stored)).splice(this.#state.limit ?? found.length);
    }
    return found.map(({ row }) => row);
  }

  async first(permit?: Permit<Plan>): Promise<Row | undefined> {
    return (await this.limit(1).all(permit))[0];
  }

  async *stream(permit?: Permit<Plan>): AsyncGenerator<Row> {
    const next = this.#pages(permit);
    for (let page = await next(); page; page = await next()) {
      for (const { row } of page.found) yield row;
    }
  }

  async page(cursor: string | undefined, permit?: Permit<Plan>): Promise<QueryPage<Row>> {
    const { database } = this.#source;
    if (!database.profile.ordered) {
      const payload = { profile: database.profile.name, feature: "paging" };
      throw tableError(
        "unsupported-by-profile",
        "Pages need an endpoint that returns rows in key order.",
        payload,
      );
    }
    const scope = this.#scope();
    const from = cursor === undefined ? undefined : await decodeCursor(scope, cursor);
    const items: Row[] = [];
    let at: Continuation | undefined;
    const bounded = this.#state.limit === undefined ? this.limit(PAGE_ENTITIES_MAX) : this;
    const next = bounded.#pages(permit, from);
    for (let page = await next(); page; page = await next()) {
      items.push(...page.found.map(({ row }) => row));
      at = page.continuation;
    }
    return at ? { items, cursor: await encodeCursor(scope, at) } : { items };
  }

  explain(): Explanation {
    const { table, range, partitionKey } = this.#source;
    const { fields, limit } = this.#state;
    const filter = this.#filter();
    const plan = this.#plan();
    const rows = limit === undefined ? "rows" : `min(rows, ${limit})`;
    const { perRow, notes } = this.#source.surcharge(fields);
    const pages =
      plan === "point"
        ? "1"
        : limit !== undefined && limit <= PAGE_ENTITIES_MAX
          ? "1"
          : `⌈${rows}/1000⌉`;
    const inspected =
      plan === "partition-scan"
        ? "rows of the range"
        : plan === "table-scan"
          ? "rows of the table"
          : rows;
    const whole = partitionKey !== undefined && range.from === undefined && range.to === undefined;
    return {
      plan,
      table,
      filter: filter ? printFilter(filter) : "",
      requests: plan.endsWith("scan")
        ? `⌈${inspected}/1000⌉ or more`
        : pages + (perRow ? ` + ${perRow} × ${rows}` : ""),
      entities: (plan === "point" ? "1" : inspected) + (perRow ? ` + ${perRow} × ${rows}` : ""),
      notes: [
        ...notes,
        ...(whole ? ["reads the whole partition"] : []),
        ...(this.#source.database.profile.ordered
          ? []
          : ["collected and sorted here: the endpoint promises no order"]),
      ],
    };
  }

  #plan(): Plan {
    const { partitionKey, range } = this.#source;
    if (partitionKey === undefined) return "table-scan";
    if (this.#state.condition) return "partition-scan";
    return isOneRow(range) ? "point" : "range";
  }

  #filter(): Filter | undefined {
    const { partitionKey, range } = this.#source;
    return and(inRange(partitionKey, range), this.#state.condition);
  }

  /** Each call answers the next page; undefined at the end. A generator takes more turns for a page. */
  #pages(permit: Permit<Plan> | undefined, from?: Continuation) {
    const { database, table, readable, checked } = this.#source;
    const { fields, limit } = this.#state;
    this.#assertPermitted(permit);
    const select = this.#source.projection(fields);
    const plan = this.#plan();
    const isPoint = plan === "point";
    const filter = isPoint ? undefined : this.#filter();
    let missing = limit ?? Number.POSITIVE_INFINITY;
    let continuation = from;
    let isLast = false;
    return async (): Promise<FoundPage | undefined> => {
      if (isLast) return undefined;
      const isFirst = continuation === from;
      if (readable && isFirst) await readable();
      const top = this.#top(missing);
      const page = isPoint
        ? await this.#point(select)
        : await database.tables.query(table, {
            ...(filter && { filter }),
            ...(select && { select }),
            ...(top && { top }),
            ...(continuation && { continuation }),
          });
      const decoded = await this.#source.decode(page.entities, fields);
      const found: Found[] = [];
      decoded.forEach((row, i) => {
        if (row) found.push({ stored: page.entities[i]!, row });
      });
      database.onPage?.({ plan, table, filter, isFirst, page, returned: found.length, checked });
      if (database.profile.ordered) missing -= found.length;
      continuation = page.continuation;
      isLast = !continuation || missing <= 0;
      return { found, continuation };
    };
  }

  /** As a page. Asked for by its keys an entity takes half the client's time that a query of one takes. */
  async #point(select: readonly string[] | undefined): Promise<Page> {
    const { database, table, partitionKey = "", range } = this.#source;
    const key = { partitionKey, rowKey: range.from ?? "" };
    const stored = await database.tables.get(table, key, select && { select });
    return { entities: stored ? [stored] : [] };
  }

  /** Never more than are missing: rows beyond the limit would be paid for and lost to the cursor. */
  #top(missing: number): number | undefined {
    return missing < PAGE_ENTITIES_MAX && this.#source.database.profile.ordered
      ? missing
      : undefined;
  }

  #assertPermitted(permit: Permit<Plan> | undefined): void {
    const plan = this.#plan();
    if (plan === "point" || plan === "range") return;
    const { table, database } = this.#source;
    const filter = this.explain().filter;
    if (permit?.allow !== plan || !permit.because) {
      throw tableError(
        "scan-not-permitted",
        `This query is a ${plan} of ${table}: ${filter || "no filter"}.`,
        { plan, filter },
        {
          remedy: `add an index, or pass { allow: "${plan}", because: "…" }.`,
        },
      );
    }
    database.report({ kind: "scan", plan, table, filter, because: permit.because });
  }

  #scope(): CursorScope {
    const { plan, table, filter } = this.explain();
    return {
      plan,
      table,
      filterHash: fnv1a128(filter),
      secret: this.#source.database.cursorSecret,
    };
  }
}

function order(a: StoredEntity, b: StoredEntity): number {
  return compareText(a.partitionKey, b.partitionKey) || compareText(a.rowKey, b.rowKey);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function columnOf(name: string, field: Field, refusal: string | undefined): Column<unknown> {
  const condition = (comparison: Comparison) => (value: unknown) => {
    if (refusal) throw validationFailed("The condition", name, refusal);
    return conditionOf(compare(field.property ?? name, comparison, field.encode(value)));
  };
  return {
    eq: condition("eq"),
    ne: condition("ne"),
    gt: condition("gt"),
    gte: condition("ge"),
    lt: condition("lt"),
    lte: condition("le"),
  };
}

function conditionOf(filter: Filter): Condition {
  return {
    filter,
    and: (other) => conditionOf({ kind: "and", left: filter, right: other.filter }),
    or: (other) => conditionOf({ kind: "or", left: filter, right: other.filter }),
    not: () => conditionOf({ kind: "not", operand: filter }),
  };
}
