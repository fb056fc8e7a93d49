import { LIMITS } from "@rowhouse/protocol/limits";
import type { Plan, PlanClass } from "../query/plan.ts";
import { partitionName } from "./partition-names.ts";

/** A query about to be run, or just run. */
export interface QueryFacts {
  /**
   * Milliseconds since 1970, when the request arrived. What watches takes time from here: asking the
   * clock again costs 0.26 µs on some machines, which five watchers feel.
   */
  readonly at: number;
  readonly account: string;
  readonly table: string;
  /** What is read for this page. */
  readonly plan: Plan;
  /** Of the whole query, whichever page this is: what is left of a table scan is a partition range. */
  readonly class: PlanClass;
  /** As `keysRead` finds them. Who watches mostly wants no more of the plan, which is cold by then. */
  readonly partitionKey: string | undefined;
  readonly rowKey: string | undefined;
  /** The one textual form of the plan. */
  readonly planText: string;
  /** `$filter` as sent; undefined for a point query by address. */
  readonly filter: string | undefined;
  /** Whether the answer is projected. */
  readonly projected: boolean;
  /** Whether it goes on where a page ended: one more page of a query, and no more a query. */
  readonly continued: boolean;
  /** Address of who asks. */
  readonly client: string;
}

/** What a page was made from. */
export interface QueryCost {
  readonly entitiesRead: number;
  readonly entitiesReturned: number;
  readonly bytesRead: number;
  /** Time in the engine and the filter. */
  readonly engineMicros: number;
}

export interface WriteFacts {
  /** As in `QueryFacts`. */
  readonly at: number;
  readonly account: string;
  readonly table: string;
  readonly partitionKey: string;
  /** All of one partition; a single write has one. */
  readonly mutations: readonly MutationFacts[];
  readonly client: string;
}

export interface MutationFacts {
  readonly kind: "insert" | "replace" | "merge" | "delete";
  readonly rowKey: string;
  /** Undefined makes replace and merge upserts. */
  readonly ifMatch: unknown;
}

/**
 * What watches tables being used: budgets, partition load, the cloud's limits. Told before and after;
 * what it keeps is bounded, and nothing waits for it.
 */
export interface Insight {
  /** @throws ServiceError when a rule refuses the query before anything is read. */
  admitQuery(query: QueryFacts): void;
  /** @throws ServiceError when a rule refuses to give what the query cost so much to find. */
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
 * Several as one. Each is told of everything in turn; the first that refuses decides, and those behind
 * it do not hear of that request: what counts stands before what refuses afterwards.
 */
export function joinInsights(watchers: readonly Partial<Insight>[]): Insight {
  const [first] = watchers;
  if (first === undefined) return NO_INSIGHT;
  if (watchers.length === 1 && isWhole(first)) return first;
  // Bound once: a property looked up on five kinds of objects is a search each time. Those who do not
  // listen to something are not called for it.
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
 * `account/table/partition key` of the one partition a query reads; undefined when it reads none or
 * several. Nor is a key a partition's that is longer than keys may be: names are kept, and V8 hashes texts of
 * more than 16,383 characters by their length alone, so that a few thousand made each look for one take 40 ms.
 */
export function partitionNameOf(
  query: Pick<QueryFacts, "account" | "table" | "partitionKey">,
): string | undefined {
  const { account, table, partitionKey } = query;
  if (partitionKey === undefined || partitionKey.length > LIMITS.keyLengthMax) return undefined;
  return partitionName(account, table, partitionKey);
}

/** What the cloud's scalability targets count of a query that read so many: at least one. */
export function countedEntities(entitiesRead: number): number {
  return Math.max(entitiesRead, 1);
}

/** The one partition a plan reads, and the one entity; undefined when it reads none or several. */
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
 * What every answer to a query says of its cost: names and values of headers in turn. `azure-entities` is what
 * the cloud's scalability targets would count: entities scanned, and at least one a request.
 */
export function costHeaders(planText: string, cost: QueryCost) {
  const { entitiesRead, entitiesReturned, bytesRead, engineMicros } = cost;
  const pages = Math.ceil(bytesRead / PAGE_BYTES);
  return [
    "x-rowhouse-plan",
    planText.length > PLAN_LENGTH_MAX ? `${planText.slice(0, PLAN_LENGTH_MAX)}...` : planText,
    "x-rowhouse-cost",
    `entities-read=${entitiesRead}, entities-returned=${entitiesReturned}, bytes-read=${bytesRead}, pages=${pages}, engine-us=${engineMicros}, azure-entities=${countedEntities(entitiesRead)}`,
  ] as const;
}

/** Some clients and proxies refuse longer headers. */
const PLAN_LENGTH_MAX = 2000;
/** The embedded engine's page: an estimate of how many pages hold what was read. */
export const PAGE_BYTES = 8192;
