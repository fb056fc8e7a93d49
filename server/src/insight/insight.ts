import type { Plan } from "../query/plan.ts";

/** A query about to be run, or just run. */
export interface QueryFacts {
  readonly account: string;
  readonly table: string;
  readonly plan: Plan;
  /** The one textual form of the plan. */
  readonly planText: string;
  /** `$filter` as sent; undefined for a point query by address. */
  readonly filter: string | undefined;
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
  readonly account: string;
  readonly table: string;
  readonly partitionKey: string;
  readonly rowKey: string;
  /** Entities of the transaction; a single write has one. */
  readonly entities: number;
}

/**
 * What watches tables being used: budgets, partition load, the cloud's limits. Told before and after;
 * what it keeps is bounded, and nothing waits for it.
 */
export interface Insight {
  /** @throws ServiceError when a rule refuses the query before anything is read. */
  admitQuery(query: QueryFacts): void;
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
 * What every answer to a query says of its cost, in two headers. `azure-entities` is what the cloud's
 * scalability targets would count: entities scanned, and at least one a request.
 */
export function costHeaders(planText: string, cost: QueryCost): string[] {
  const { entitiesRead, entitiesReturned, bytesRead, engineMicros } = cost;
  return [
    "x-rowhouse-plan",
    planText.length > PLAN_LENGTH_MAX ? `${planText.slice(0, PLAN_LENGTH_MAX)}...` : planText,
    "x-rowhouse-cost",
    `entities-read=${entitiesRead}, entities-returned=${entitiesReturned}, bytes-read=${bytesRead}, ` +
      `pages=${Math.ceil(bytesRead / PAGE_BYTES)}, engine-us=${engineMicros}, ` +
      `azure-entities=${Math.max(entitiesRead, 1)}`,
  ];
}

/** Some clients and proxies refuse longer headers. */
const PLAN_LENGTH_MAX = 2000;
/** The embedded engine's page: an estimate of how many pages hold what was read. */
const PAGE_BYTES = 8192;
