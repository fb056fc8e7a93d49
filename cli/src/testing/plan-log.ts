import type { Insight, QueryCost, QueryFacts } from "@rowhouse/server/insight/insight";

/** The facts of a query that a test may ask for; the public type with the same members says what they mean. */
interface LoggedQuery
  extends Pick<QueryFacts, "account" | "table" | "class" | "filter">,
    Pick<QueryCost, "entitiesRead" | "entitiesReturned"> {
  readonly plan: string;
}

const QUERIES_MAX = 10_000;
/** They read whole partitions, or more: what an index would have spared. */
const SCANS: ReadonlySet<LoggedQuery["class"]> = new Set([
  "partition scan",
  "partition range",
  "table scan",
]);

/** The last queries, and what each cost. */
export class PlanLog implements Partial<Insight> {
  #queries: LoggedQuery[] = [];
  /** How many were forgotten. */
  #dropped = 0;

  queried(query: QueryFacts, cost: QueryCost): void {
    const { account, table, filter, planText } = query;
    const { entitiesRead, entitiesReturned } = cost;
    if (this.#queries.length === QUERIES_MAX) {
      this.#queries.shift();
      this.#dropped++;
    }
    this.#queries.push({
      account,
      table,
      class: query.class,
      plan: planText,
      filter,
      entitiesRead,
      entitiesReturned,
    });
  }

  /** The number of queries so far. */
  get count(): number {
    return this.#dropped + this.#queries.length;
  }

  since(mark: number): readonly LoggedQuery[] {
    return this.#queries.slice(Math.max(0, mark - this.#dropped));
  }

  clear(): void {
    this.#dropped += this.#queries.length;
    this.#queries = [];
  }
}

export function scansAmong(queries: readonly LoggedQuery[]): readonly LoggedQuery[] {
  return queries.filter((query) => SCANS.has(query.class));
}
