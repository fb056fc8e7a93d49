import type { Database } from "../database.ts";
import { tableError, validationFailed } from "../errors.ts";
import { fnv1a128 } from "../keys/hash.ts";
import type { KeyRange } from "../keys/key-range.ts";
import type { Row } from "../model/entity-rows.ts";
import type { Field } from "../model/field.ts";
import type { Continuation, Page, StoredEntity } from "../ports/tables.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";
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

/** A query without its types; see `Query`. Each step returns a new one. */
export interface QueryRun {
  where(condition: (columns: Record<string, Column<unknown>>) => Condition): QueryRun;
  select(...fields: string[]): QueryRun;
  limit(limit: number): QueryRun;
  all(permit?: Permit<Plan>): Promise<Row[]>;
  first(permit?: Permit<Plan>): Promise<Row | undefined>;
  stream(permit?: Permit<Plan>): AsyncGenerator<Row>;
  page(cursor: string | undefined, permit?: Permit<Plan>): Promise<QueryPage<Row>>;
  explain(): Explanation;
}

const PAGE_ENTITIES_MAX = 1000;

export function queryRun(source: QuerySource, state: QueryState = {}): QueryRun {
  const { database, table, partitionKey, range } = source;
  const { condition, fields, limit } = state;
  const { ordered, name: profile } = database.profile;
  const plan: Plan =
    partitionKey === undefined
      ? "table-scan"
      : condition
        ? "partition-scan"
        : isOneRow(range)
          ? "point"
          : "range";
  const isScan = plan.endsWith("scan");
  const filterOf = () => and(inRange(partitionKey, range), condition);
  const filterText = () => printFilter(filterOf());
  const scope = () => ({
    plan,
    table,
    filterHash: fnv1a128(filterText()),
    secret: database.cursorSecret,
  });

  function assertPermitted(permit: Permit<Plan> | undefined): void {
    if (!isScan) return;
    const filter = filterText();
    if (permit?.allow !== plan || !permit.because) {
      throw tableError(
        "scan-not-permitted",
        `This query is a ${plan} of ${table}: ${filter || "no filter"}.`,
        { plan, filter },
        { remedy: `add an index, or pass { allow: "${plan}", because: "…" }.` },
      );
    }
    database.report({ kind: "scan", plan, table, filter, because: permit.because });
  }

  /** As a page. Asked for by its keys an entity takes half the client's time that a query of one takes. */
  async function point(select: readonly string[] | undefined): Promise<Page> {
    const key = { partitionKey: partitionKey ?? "", rowKey: range.from ?? "" };
    const stored = await database.tables.get(table, key, select && { select });
    return { entities: stored ? [stored] : [] };
  }

  /** Each call answers the next page; undefined at the end. A generator takes more turns for a page. */
  function pages(permit: Permit<Plan> | undefined, from?: Continuation, max = limit) {
    assertPermitted(permit);
    const select = source.projection(fields);
    const filter = plan === "point" ? undefined : filterOf();
    let missing = max ?? Number.POSITIVE_INFINITY;
    let continuation = from;
    let isLast = false;
    return async (): Promise<FoundPage | undefined> => {
      if (isLast) return undefined;
      const isFirst = continuation === from;
      if (isFirst) await source.readable?.();
      // Never more than are missing: rows beyond the limit would be paid for and lost to the cursor.
      const top = ordered && missing < PAGE_ENTITIES_MAX && missing;
      const page =
        plan === "point"
          ? await point(select)
          : await database.tables.query(table, {
              ...(filter && { filter }),
              ...(select && { select }),
              ...(top && { top }),
              ...(continuation && { continuation }),
            });
      const decoded = await source.decode(page.entities, fields);
      const found: Found[] = [];
      decoded.forEach((row, i) => {
        if (row) found.push({ stored: page.entities[i]!, row });
      });
      const { checked } = source;
      database.onPage?.({ plan, table, filter, isFirst, page, returned: found.length, checked });
      if (ordered) missing -= found.length;
      continuation = page.continuation;
      isLast = !continuation || missing <= 0;
      return { found, continuation };
    };
  }

  return {
    where(conditionOn) {
      const columns = Object.entries(source.fields).map(([name, field]) => [
        name,
        columnOf(name, field, source.notComparable(name)),
      ]);
      const { filter } = conditionOn(Object.fromEntries(columns));
      return queryRun(source, { ...state, condition: and(condition, filter)! });
    },
    select: (...fields) => queryRun(source, { ...state, fields }),
    limit(limit) {
      if (!Number.isInteger(limit) || limit < 1) {
        throw validationFailed("The limit", "limit", `${limit} is not 1, 2, 3, …`);
      }
      return queryRun(source, { ...state, limit });
    },

    async all(permit) {
      const found: Found[] = [];
      const next = pages(permit);
      for (let page = await next(); page; page = await next()) found.push(...page.found);
      if (!ordered) {
        // The endpoint promises no order, so a limit must not cut before sorting.
        found.sort((a, b) => order(a.stored, b.stored)).splice(limit ?? found.length);
      }
      return found.map(({ row }) => row);
    },
    async first(permit) {
      return (await queryRun(source, { ...state, limit: 1 }).all(permit))[0];
    },
    async *stream(permit) {
      const next = pages(permit);
      for (let page = await next(); page; page = await next()) {
        for (const { row } of page.found) yield row;
      }
    },
    async page(cursor, permit) {
      if (!ordered) {
        throw tableError(
          "unsupported-by-profile",
          "Pages need an endpoint that returns rows in key order.",
          { profile, feature: "paging" },
          { remedy: "use all or first, which sort here." },
        );
      }
      const from = cursor === undefined ? undefined : await decodeCursor(scope(), cursor);
      const items: Row[] = [];
      let at: Continuation | undefined;
      const next = pages(permit, from, limit ?? PAGE_ENTITIES_MAX);
      for (let page = await next(); page; page = await next()) {
        items.push(...page.found.map(({ row }) => row));
        at = page.continuation;
      }
      return at ? { items, cursor: await encodeCursor(scope(), at) } : { items };
    },

    explain() {
      const rows = limit === undefined ? "rows" : `min(rows, ${limit})`;
      const { perRow, notes } = source.surcharge(fields);
      const more = perRow ? ` + ${perRow} × ${rows}` : "";
      const inspected = {
        point: "1",
        range: rows,
        "partition-scan": "rows of the range",
        "table-scan": "rows of the table",
      }[plan];
      const isOnePage = plan === "point" || (limit !== undefined && limit <= PAGE_ENTITIES_MAX);
      const pages = `⌈${inspected}/1000⌉`;
      const whole =
        partitionKey !== undefined && range.from === undefined && range.to === undefined;
      return {
        plan,
        table,
        filter: filterText(),
        requests: isScan ? `${pages} or more` : (isOnePage ? "1" : pages) + more,
        entities: inspected + more,
        notes: [
          ...notes,
          ...(whole ? ["reads the whole partition"] : []),
          ...(ordered ? [] : ["collected and sorted here: the endpoint promises no order"]),
        ],
      };
    },
  };
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
