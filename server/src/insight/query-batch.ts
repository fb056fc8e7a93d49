import { PLAN_CLASSES } from "../query/plan.ts";
import { partitionNameOf, type QueryCost, type QueryFacts } from "./insight.ts";

export const BATCH_QUERIES_MAX = 64;

const POINT = PLAN_CLASSES.indexOf("point query");

/**
 * Queries that were run, in the order in which they ended. What watchers read of each stands in columns,
 * written while the query is at hand: a hundred queries later its facts have left the caches, and each
 * place that is read of them is a wait for memory.
 */
export class QueryBatch {
  count = 0;
  /** As in `QueryFacts`. */
  readonly at = new Float64Array(BATCH_QUERIES_MAX);
  readonly account = new Array<string>(BATCH_QUERIES_MAX).fill("");
  readonly client = new Array<string>(BATCH_QUERIES_MAX).fill("");
  /** Places in `PLAN_CLASSES`. */
  readonly planClass = new Uint8Array(BATCH_QUERIES_MAX);
  /** See `partitionNameOf`; where two are the same, mostly the very same string. */
  readonly partition = new Array<string | undefined>(BATCH_QUERIES_MAX).fill(undefined);
  /** 1 where one entity was asked for by its address, and all of it. */
  readonly plain = new Uint8Array(BATCH_QUERIES_MAX);
  /** As in `QueryCost`. */
  readonly entitiesRead = new Float64Array(BATCH_QUERIES_MAX);
  readonly entitiesReturned = new Float64Array(BATCH_QUERIES_MAX);
  readonly bytesRead = new Float64Array(BATCH_QUERIES_MAX);
  readonly engineMicros = new Float64Array(BATCH_QUERIES_MAX);
  /** 1 where watchers were told of the query's beginning by itself: another began or ended before its end. */
  readonly admitted = new Uint8Array(BATCH_QUERIES_MAX);
  // New each time: to put what is young into an array that is old, the collector must be told each time.
  #rowKeys = new Array<string | undefined>(BATCH_QUERIES_MAX);
  #queries = new Array<QueryFacts | undefined>(BATCH_QUERIES_MAX);

  /** The query that has begun, and has not ended. */
  get begun(): QueryFacts | undefined {
    return this.#queries[this.count];
  }

  begin(query: QueryFacts): void {
    this.#queries[this.count] = query;
  }

  end(query: QueryFacts, cost: QueryCost): void {
    const i = this.count;
    const { rowKey } = query;
    this.admitted[i] = this.#queries[i] === query ? 0 : 1;
    this.#queries[i] = query;
    this.#rowKeys[i] = rowKey;
    this.at[i] = query.at;
    this.account[i] = query.account;
    this.client[i] = query.client;
    this.partition[i] = partitionNameOf(query);
    this.planClass[i] = rowKey === undefined ? PLAN_CLASSES.indexOf(query.class) : POINT;
    this.plain[i] = rowKey !== undefined && query.filter === undefined && !query.projected ? 1 : 0;
    this.entitiesRead[i] = cost.entitiesRead;
    this.entitiesReturned[i] = cost.entitiesReturned;
    this.bytesRead[i] = cost.bytesRead;
    this.engineMicros[i] = cost.engineMicros;
    this.count = i + 1;
  }

  rowKey(i: number): string | undefined {
    return this.#rowKeys[i];
  }

  /** All that is known of a query, for the few of which the columns do not say enough. */
  query(i: number): QueryFacts {
    return this.#queries[i]!;
  }

  cost(i: number): QueryCost {
    return {
      entitiesRead: this.entitiesRead[i]!,
      entitiesReturned: this.entitiesReturned[i]!,
      bytesRead: this.bytesRead[i]!,
      engineMicros: this.engineMicros[i]!,
    };
  }

  clear(): void {
    this.#queries = new Array(BATCH_QUERIES_MAX);
    this.#rowKeys = new Array(BATCH_QUERIES_MAX);
    this.count = 0;
  }
}
