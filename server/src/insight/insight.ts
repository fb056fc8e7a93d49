import { LIMITS } from "@rowhouse/protocol/limits";
import type { Plan, PlanClass } from "../query/plan.ts";

/** A query about to run, or just completed. */
export interface QueryFacts {
  /**
   * Arrival of the request, in milliseconds since 1970. Watchers take the time from here: reading the clock
   * again costs 0.26 µs on some machines.
   */
  readonly at: number;
  readonly account: string;
  readonly table: string;
  /** The plan of this page. */
  readonly plan: Plan;
  /** Class of the whole query, whichever page this is: the rest of a table scan would be a partition range. */
  readonly class: PlanClass;
  /** From `keysRead`. */
  readonly partitionKey: string | undefined;
  readonly rowKey: string | undefined;
  /** The plan's text form. */
  readonly planText: string;
  /** `$filter` as sent; undefined for a point query by address. */
  readonly filter: string | undefined;
  /** Whether the query has a `$select`. */
  readonly projected: boolean;
  /** Whether it resumes where a page ended: one more page, but not one more query. */
  readonly continued: boolean;
  /** Address of the client. */
  readonly client: string;
  /** Filled in by `partitionNameOf`, which several watchers call. */
  partition?: string | undefined;
}

/** The cost of one page. */
export interface QueryCost {
  readonly entitiesRead: number;
  readonly entitiesReturned: number;
  readonly bytesRead: number;
  /** Entries read from the tables of indexes to find those entities; undefined for a query without index. */
  readonly indexEntriesRead?: number | undefined;
  /** Time spent in the engine and the filter. */
  readonly engineMicros: number;
}

export interface WriteFacts {
  /** As in `QueryFacts`. */
  readonly at: number;
  readonly account: string;
  readonly table: string;
  readonly partitionKey: string;
  /** All in one partition; a single write has one. */
  readonly mutations: readonly MutationFacts[];
  readonly client: string;
}

export interface MutationFacts {
  readonly kind: "insert" | "replace" | "merge" | "delete";
  readonly rowKey: string;
  /** Replace and merge without it are upserts. */
  readonly ifMatch: unknown;
}

/**
 * Observes the use of tables: budgets, partition load, the cloud's targets. Called before and after each
 * operation; its memory is bounded, and no request waits for it.
 */
export interface Insight {
  /** @throws ServiceError when a rule refuses the query before anything is read. */
  admitQuery(query: QueryFacts): void;
  /** @throws ServiceError when a rule refuses to return the result because of its cost. */
  queried(query: QueryFacts, cost: QueryCost): void;
  /** @throws ServiceError when a limit refuses the write before anything is written. */
  admitWrite(write: WriteFacts): void;
}

export const NO_INSIGHT: Insight = {
  admitQuery() {},
  queried() {},
  admitWrite() {},
};

/**
 * Joins several into one. Each is called in turn. The first that refuses decides, and those after it do not
 * see the request, so watchers that count come before those that refuse afterwards.
 */
export function joinInsights(watchers: readonly Partial<Insight>[]): Insight {
  const [first] = watchers;
  if (first === undefined) return NO_INSIGHT;
  if (watchers.length === 1 && isWhole(first)) return first;
  // A watcher is not called for what it does not implement.
  const admitQuery = watchers.flatMap((each) => each.admitQuery?.bind(each) ?? []);
  const queried = watchers.flatMap((each) => each.queried?.bind(each) ?? []);
  const admitWrite = watchers.flatMap((each) => each.admitWrite?.bind(each) ?? []);
  return {
    admitQuery(query) {
      for (let i = 0; i < admitQuery.length; i++) admitQuery[i]!(query);
    },
    queried(query, cost) {
      for (let i = 0; i < queried.length; i++) queried[i]!(query, cost);
    },
    admitWrite(write) {
      for (let i = 0; i < admitWrite.length; i++) admitWrite[i]!(write);
    },
  };
}

function isWhole(watcher: Partial<Insight>): watcher is Insight {
  return Boolean(watcher.admitQuery && watcher.queried && watcher.admitWrite);
}

/**
 * `account/table/partition key` of the one partition a query reads; undefined when it reads none or several.
 * It is also undefined for a key longer than keys may be: names are stored, and V8 hashes strings of more
 * than 16,383 characters by their length alone, so that a few thousand of them made each lookup take 40 ms.
 */
export function partitionNameOf(
  query: Pick<QueryFacts, "account" | "table" | "partitionKey" | "partition">,
): string | undefined {
  const { account, table, partitionKey } = query;
  if (partitionKey === undefined || partitionKey.length > LIMITS.keyLengthMax) return undefined;
  query.partition ??= partitionName(account, table, partitionKey);
  return query.partition;
}

export function partitionName(account: string, table: string, partitionKey: string): string {
  return `${account}/${table}/${partitionKey}`;
}

/** What the cloud's scalability targets count for a query that read this many entities: at least one. */
export function countedEntities(entitiesRead: number): number {
  return Math.max(entitiesRead, 1);
}

/** The partition key and the row key that a plan reads; undefined where it reads none or several. */
export function keysRead(plan: Plan): Pick<QueryFacts, "partitionKey" | "rowKey"> {
  const only = plan.reads.length === 1 ? plan.reads[0] : undefined;
  if (only?.kind === "point") return { partitionKey: only.partitionKey, rowKey: only.rowKey };
  return { partitionKey: partitionOf(plan), rowKey: undefined };
}

function partitionOf(plan: Plan): string | undefined {
  let partition: string | undefined;
  for (const read of plan.reads) {
    if (read.class === "partition range" || read.class === "table scan") return undefined;
    const { partitionKey } = read.kind === "point" ? read : read.start;
    if (partition !== undefined && partition !== partitionKey) return undefined;
    partition = partitionKey;
  }
  return partition;
}

/**
 * The cost headers of every answer to a query: alternating names and values. `azure-entities` is what the
 * cloud's scalability targets would count: entities scanned, at least one per request. Entries of an index count like
 * entities, as they would if a client read the index table and then the entities.
 */
export function costHeaders(planText: string, cost: QueryCost) {
  const { entitiesRead, entitiesReturned, bytesRead, engineMicros, indexEntriesRead } = cost;
  const counted = countedEntities(entitiesRead + (indexEntriesRead ?? 0));
  const entries = indexEntriesRead === undefined ? "" : `index-entries-read=${indexEntriesRead}, `;
  const pages = Math.ceil(bytesRead / PAGE_BYTES);
  return [
    "x-rowhouse-plan",
    planText.length > PLAN_LENGTH_MAX ? `${planText.slice(0, PLAN_LENGTH_MAX)}...` : planText,
    "x-rowhouse-cost",
    `entities-read=${entitiesRead}, entities-returned=${entitiesReturned}, ${entries}bytes-read=${bytesRead}, pages=${pages}, engine-us=${engineMicros}, azure-entities=${counted}`,
  ] as const;
}

/** Some clients and proxies refuse longer headers. */
const PLAN_LENGTH_MAX = 2000;
/** A page of the embedded engine, used to estimate how many pages hold what was read. */
export const PAGE_BYTES = 8192;
