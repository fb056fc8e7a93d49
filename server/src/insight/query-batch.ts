import { PLAN_CLASSES } from "../query/plan.ts";
import { partitionNameOf, type QueryCost, type QueryFacts } from "./insight.ts";

export const BATCH_QUERIES_MAX = 64;

/** Positions of a query's numbers in its row. */
const AT = 0;
const PLAN_CLASS = 1;
const PLAIN = 2;
const ENTITIES_READ = 3;
const ENTITIES_RETURNED = 4;
const BYTES_READ = 5;
const ENGINE_MICROS = 6;
const ADMITTED = 7;
const ROW = 8;

/**
 * Completed queries, in the order in which they ended. The facts that watchers read are copied into rows
 * while the query is still in the caches: a hundred queries later it has left them, and each fact would be a
 * wait for memory. A row of numbers is one cache line, where separate columns would be eight.
 */
export class QueryBatch {
  count = 0;
  readonly #numbers = new Float64Array(ROW * BATCH_QUERIES_MAX);
  readonly #accounts = new Array<string>(BATCH_QUERIES_MAX).fill("");
  readonly #clients = new Array<string>(BATCH_QUERIES_MAX).fill("");
  readonly #partitions = new Array<string | undefined>(BATCH_QUERIES_MAX).fill(undefined);
  // Reallocated for each batch: storing young objects in an old array costs a write barrier of the garbage
  // collector each time.
  #rowKeys = new Array<string | undefined>(BATCH_QUERIES_MAX);
  #queries = new Array<QueryFacts | undefined>(BATCH_QUERIES_MAX);

  /** The query that has begun but not ended. */
  get begun(): QueryFacts | undefined {
    return this.#queries[this.count];
  }

  begin(query: QueryFacts): void {
    this.#queries[this.count] = query;
  }

  end(query: QueryFacts, cost: QueryCost): void {
    const i = this.count;
    const { rowKey } = query;
    const numbers = this.#numbers;
    const row = ROW * i;
    numbers[row + AT] = query.at;
    numbers[row + PLAN_CLASS] = PLAN_CLASSES.indexOf(query.class);
    numbers[row + PLAIN] =
      rowKey !== undefined && query.filter === undefined && !query.projected ? 1 : 0;
    numbers[row + ENTITIES_READ] = cost.entitiesRead;
    numbers[row + ENTITIES_RETURNED] = cost.entitiesReturned;
    numbers[row + BYTES_READ] = cost.bytesRead;
    numbers[row + ENGINE_MICROS] = cost.engineMicros;
    numbers[row + ADMITTED] = this.#queries[i] === query ? 0 : 1;
    this.#queries[i] = query;
    this.#rowKeys[i] = rowKey;
    this.#accounts[i] = query.account;
    this.#clients[i] = query.client;
    this.#partitions[i] = partitionNameOf(query);
    this.count = i + 1;
  }

  /** As in `QueryFacts`. */
  at(i: number): number {
    return this.#numbers[ROW * i + AT]!;
  }

  account(i: number): string {
    return this.#accounts[i]!;
  }

  client(i: number): string {
    return this.#clients[i]!;
  }

  /** Index in `PLAN_CLASSES`. */
  planClass(i: number): number {
    return this.#numbers[ROW * i + PLAN_CLASS]!;
  }

  /** See `partitionNameOf`; equal names are usually the identical string. */
  partition(i: number): string | undefined {
    return this.#partitions[i];
  }

  rowKey(i: number): string | undefined {
    return this.#rowKeys[i];
  }

  /** Whether one whole entity was requested by its address. */
  isPlain(i: number): boolean {
    return this.#numbers[ROW * i + PLAIN] === 1;
  }

  /** As in `QueryCost`. */
  entitiesRead(i: number): number {
    return this.#numbers[ROW * i + ENTITIES_READ]!;
  }

  entitiesReturned(i: number): number {
    return this.#numbers[ROW * i + ENTITIES_RETURNED]!;
  }

  bytesRead(i: number): number {
    return this.#numbers[ROW * i + BYTES_READ]!;
  }

  engineMicros(i: number): number {
    return this.#numbers[ROW * i + ENGINE_MICROS]!;
  }

  /**
   * Whether watchers received `admitQuery` for it: another query began or ended, or a write came, before its
   * end.
   */
  wasAdmitted(i: number): boolean {
    return this.#numbers[ROW * i + ADMITTED] === 1;
  }

  /** All facts of a query, for the few cases in which the rows do not suffice. */
  query(i: number): QueryFacts {
    return this.#queries[i]!;
  }

  cost(i: number): QueryCost {
    return {
      entitiesRead: this.entitiesRead(i),
      entitiesReturned: this.entitiesReturned(i),
      bytesRead: this.bytesRead(i),
      engineMicros: this.engineMicros(i),
    };
  }

  clear(): void {
    this.#queries = new Array(BATCH_QUERIES_MAX);
    this.#rowKeys = new Array(BATCH_QUERIES_MAX);
    this.count = 0;
  }
}
