import { assertSome, reasonOf, tableError, validationFailed } from "../errors.ts";
import { fnv1a128 } from "../keys/hash.ts";
import { isOneRow, type KeyRange } from "../keys/key-range.ts";
import { assertPaired } from "../keys/text.ts";
import {
  assertKeyFits,
  isRequestedRow,
  project,
  type Row,
  type shortenedValues,
} from "../model/entity-rows.ts";
import type { Field } from "../model/field.ts";
import {
  and,
  type Comparison,
  compare,
  type Filter,
  inRange,
  printFilter,
} from "../ports/filter.ts";
import type { Continuation, Page, StoredEntity } from "../ports/tables.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "../store/limit.ts";
import type { Session } from "../store/session.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";
import type { Column, Condition, Explanation, Permit, Plan, QueryPage } from "./query.ts";

/** Where queries read their rows, and how rows become entities. */
export interface QuerySource {
  readonly session: Session;
  readonly table: string;
  readonly fields: Readonly<Record<string, Field>>;
  /** The index whose entries `decode` verifies against their entities. */
  readonly checked?: string;
  /** Rejects while these rows must not be read. */
  readonly readable?: () => Promise<void>;
  /** Why the service cannot compare this field on these rows; undefined if it can. */
  notComparable(field: string): string | undefined;
  /** What `$select` must name so that `decode` can return `fields`; undefined for everything. */
  projection(fields: readonly string[] | undefined): readonly string[] | undefined;
  /** Undefined for a row that does not belong to the result. */
  decode(
    stored: StoredEntity,
    fields: readonly string[] | undefined,
  ): Row | undefined | Promise<Row | undefined>;
  /** What `decode` costs on top of the pages: requests and entities for each row, and why. Default: nothing. */
  surcharge?(fields: readonly string[] | undefined): {
    readonly perRow: number;
    readonly notes: readonly string[];
  };
}

/** What a query adds to its source. */
interface Choice {
  /** Absent for a table scan. */
  readonly partitionKey?: string;
  readonly range: KeyRange;
  /** Values the rows must also have, because the keys hold only a hash of them. */
  readonly compared?: ReturnType<typeof shortenedValues>;
  readonly condition?: Filter;
  readonly selected?: readonly string[];
  readonly limit?: number;
}

/** A query with its source, as the steps below use it. */
type Run = QuerySource & Choice;

interface Found {
  readonly stored: StoredEntity;
  readonly row: Row;
}

interface FoundPage {
  readonly found: Found[];
  readonly continuation: Continuation | undefined;
}

/** A `Query` without its types. Each step returns a new one. */
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

/**
 * No spreads: for an object literal that begins with a spread and adds members, Node 20 creates a hidden class
 * per object. This takes a microsecond, the class lives until the next major collection, and property access on
 * the object is never cached. With `{ ...source, ...choice }`, lookups by an index took a tenth more of the
 * client's CPU.
 */
export function queryRun(source: QuerySource, choice: Choice): QueryRun {
  const run: Run = Object.assign({}, source, choice);
  const changed = (change: Partial<Choice>) => queryRun(source, Object.assign({}, choice, change));
  return {
    where(conditionOn) {
      // Plain JavaScript allows `({ age }) => age > 40`, which is no condition, and a body in braces that
      // returns none.
      const filter = conditionOn(columnsOf(run))?.filter;
      if (!filter) {
        const message = "it returned no condition: compare as in where(({ age }) => age.gt(40))";
        throw validationFailed("The query", "where", message);
      }
      return changed({ condition: and(run.condition, filter)! });
    },
    select: (...selected) => changed({ selected }),
    limit(limit) {
      assertSome("The limit", { limit });
      return changed({ limit });
    },
    all: (permit) => allRows(run, permit),
    first: (permit) => firstRow(run, permit),
    async *stream(permit) {
      const { limit, session } = run;
      const isCollected = limit !== undefined || planOf(run) !== "table-scan";
      if (isCollected && !session.profile.ordered) return yield* await allRows(run, permit);
      const next = pages(run, permit);
      for (let page = await next(); page; page = await next()) {
        for (const { row } of page.found) yield row;
      }
    },
    page: (cursor, permit) => pageAt(run, cursor, permit),
    explain: () => explainRun(run),
  };
}

function planOf({ partitionKey, range, condition }: Run): Plan {
  if (partitionKey === undefined) return "table-scan";
  if (condition) return "partition-scan";
  return isOneRow(range) ? "point" : "range";
}

/** The fields to read: the selected ones and those to compare. */
function fieldsOf({ selected, compared = [] }: Run): readonly string[] | undefined {
  return selected && [...selected, ...compared.map(([field]) => field)];
}

function isScan(plan: Plan): boolean {
  return plan.endsWith("scan");
}

function filterOf({ partitionKey, range, condition }: Run): Filter | undefined {
  return and(inRange(partitionKey, range), condition);
}

function assertPermitted(run: Run, permit: Permit<Plan> | undefined): void {
  const plan = planOf(run);
  if (!isScan(plan)) return;
  const { session, table } = run;
  const filter = printFilter(filterOf(run));
  if (permit?.allow !== plan || !permit.because) {
    throw tableError(
      "scan-not-permitted",
      `This query is a ${plan} of ${table}: ${filter || "no filter"}.`,
      { plan, filter },
      { remedy: `add an index, or pass { allow: "${plan}", because: "…" }.` },
    );
  }
  session.report({ kind: "scan", plan, table, filter, because: permit.because });
}

/** A point query as a page. Get Entity takes half the client's time of a query for one entity. */
async function point(
  { session, table, partitionKey, range }: Run,
  select: readonly string[] | undefined,
): Promise<Page> {
  const key = { partitionKey: partitionKey ?? "", rowKey: range.from ?? "" };
  assertKeyFits(key, session.profile);
  const stored = await session.tables.get(table, key, select && { select });
  return { entities: stored ? [stored] : [] };
}

/** Each call returns the next page, undefined at the end. A generator would take more turns per page. */
function pages(
  run: Run,
  permit: Permit<Plan> | undefined,
  from?: Continuation,
  max = run.limit,
): () => Promise<FoundPage | undefined> {
  assertPermitted(run, permit);
  const { session, table, checked, compared = [] } = run;
  const selected = fieldsOf(run);
  const { ordered } = session.profile;
  const plan = planOf(run);
  const select = run.projection(selected);
  const filter = plan === "point" ? undefined : filterOf(run);
  let missing = max ?? Number.POSITIVE_INFINITY;
  let continuation = from;
  let isLast = false;
  return async () => {
    if (isLast) return undefined;
    const isFirst = continuation === from;
    if (isFirst) await run.readable?.();
    // Never more than are missing: rows beyond the limit would be paid for and skipped by the cursor.
    const top = ordered && missing < PAGE_ENTITIES_MAX && missing;
    const page =
      plan === "point"
        ? await point(run, select)
        : await session.tables.query(table, {
            ...(filter && { filter }),
            ...(select && { select }),
            ...(top && { top }),
            ...(continuation && { continuation }),
          });
    const rows = await mapBounded(page.entities, LOOKUPS_AT_ONCE, (stored) =>
      run.decode(stored, selected),
    );
    const found = page.entities.flatMap((stored, i) => {
      const row = rows[i];
      if (!row || !isRequestedRow(row, compared)) return [];
      return { stored, row: compared.length > 0 ? (project(row, run.selected) ?? row) : row };
    });
    session.onPage?.({ plan, table, filter, isFirst, page, returned: found.length, checked });
    if (ordered) missing -= found.length;
    continuation = page.continuation;
    isLast = !continuation || missing <= 0;
    return { found, continuation };
  };
}

/** All remaining rows, and where a later page begins. */
async function collect(
  run: Run,
  permit: Permit<Plan> | undefined,
  from?: Continuation,
  max = run.limit,
): Promise<FoundPage> {
  const found: Found[] = [];
  let continuation: Continuation | undefined;
  const next = pages(run, permit, from, max);
  for (let page = await next(); page; page = await next()) {
    found.push(...page.found);
    continuation = page.continuation;
  }
  return { found, continuation };
}

async function allRows(run: Run, permit: Permit<Plan> | undefined): Promise<Row[]> {
  const { found } = await collect(run, permit);
  if (!run.session.profile.ordered) {
    // The endpoint guarantees no order, so the limit must be applied after sorting.
    found.sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1)).splice(run.limit ?? found.length);
  }
  return found.map(({ row }) => row);
}

/** A point query has one page and nothing to collect. */
async function firstRow(run: Run, permit?: Permit<Plan>): Promise<Row | undefined> {
  if (planOf(run) === "point") return (await pages(run, permit)())?.found[0]?.row;
  const [first] = await allRows(Object.assign({}, run, { limit: 1 }), permit);
  return first;
}

async function pageAt(
  run: Run,
  cursor: string | undefined,
  permit: Permit<Plan> | undefined,
): Promise<QueryPage<Row>> {
  const { ordered, name: profile } = run.session.profile;
  if (!ordered) {
    throw tableError(
      "unsupported-by-profile",
      "Pages need an endpoint that returns rows in key order.",
      { profile, feature: "paging" },
      { remedy: "use all or first, which sort here." },
    );
  }
  const from = cursor === undefined ? undefined : await decodeCursor(scopeOf(run), cursor);
  const { found, continuation } = await collect(run, permit, from, run.limit ?? PAGE_ENTITIES_MAX);
  const items = found.map(({ row }) => row);
  return continuation
    ? { items, cursor: await encodeCursor(scopeOf(run), continuation) }
    : { items };
}

/** The query that a cursor is valid for. */
function scopeOf(run: Run) {
  const { session, table } = run;
  const filterHash = fnv1a128(printFilter(filterOf(run)));
  return { plan: planOf(run), table, filterHash, secret: session.cursorSecret };
}

function explainRun(run: Run): Explanation {
  const { session, table, partitionKey, range, limit } = run;
  const plan = planOf(run);
  const rows = limit === undefined ? "rows" : `min(rows, ${limit})`;
  const { perRow = 0, notes = [] } = run.surcharge?.(fieldsOf(run)) ?? {};
  const more = perRow ? ` + ${perRow} × ${rows}` : "";
  const inspected = {
    point: "1",
    range: rows,
    "partition-scan": "rows of the range",
    "table-scan": "rows of the table",
  }[plan];
  const isOnePage = plan === "point" || (limit !== undefined && limit <= PAGE_ENTITIES_MAX);
  const requests = `⌈${inspected}/1000⌉`;
  const whole = partitionKey !== undefined && range.from === undefined && range.to === undefined;
  return {
    plan,
    table,
    filter: printFilter(filterOf(run)),
    requests: isScan(plan) ? `${requests} or more` : (isOnePage ? "1" : requests) + more,
    entities: inspected + more,
    notes: [
      ...notes,
      ...(whole ? ["reads the whole partition"] : []),
      ...(session.profile.ordered
        ? []
        : ["collected and sorted here: the endpoint promises no order"]),
    ],
  };
}

/** No key contains NUL, the separator, or anything below it. */
function orderOf({ stored }: Found): string {
  return `${stored.partitionKey}\0${stored.rowKey}`;
}

function columnsOf(source: QuerySource): Record<string, Column<unknown>> {
  const columns = Object.entries(source.fields).map(([name, field]) => [
    name,
    columnOf(name, field, source.notComparable(name)),
  ]);
  return Object.fromEntries(columns);
}

function columnOf(name: string, field: Field, refusal: string | undefined): Column<unknown> {
  const condition = (comparison: Comparison) => (value: unknown) => {
    if (refusal) throw validationFailed("The condition", name, refusal);
    try {
      const stored = field.encode(value);
      assertPaired(String(stored.value));
      return conditionOf(compare(field.property ?? name, comparison, stored));
    } catch (error) {
      throw validationFailed("The condition", name, reasonOf(error));
    }
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
