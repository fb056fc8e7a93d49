import type { Insight, QueryCost, QueryFacts, Watcher, WriteFacts } from "./insight.ts";

/** So many events wait at most. */
const WAITING_MAX = 64;
/** Queries with longer filters are told at once: what waits is held in memory. */
const FILTER_LENGTH_MAX = 1024;

/**
 * Tells watchers of queries a little later: first one watcher of all that waits, then the next. What
 * they do takes half as long in a loop of its own, where their code and tables are at hand, as between
 * the steps of a request. Each is told of everything, in the order in which it happened. For watchers
 * that refuse nothing: nobody hears them.
 *
 * Writes are told at once, behind what waits: their entities are too large to be kept, and a flush costs
 * a thousand times as much.
 */
export class DeferredWatchers implements Insight {
  readonly #watchers: readonly Watcher[];
  readonly #admits: boolean;
  // New for each batch: to put what is young into an array that is old, the collector must be told each time.
  #queries = new Array<QueryFacts | undefined>(WAITING_MAX);
  /** Undefined where a query is only about to be run. */
  #costs = new Array<QueryCost | undefined>(WAITING_MAX);
  /** 1 where a query's beginning and end came one after the other, and wait together. */
  readonly #whole = new Uint8Array(WAITING_MAX);
  #waiting = 0;

  constructor(watchers: readonly Watcher[]) {
    this.#watchers = watchers;
    this.#admits = watchers.some(({ admitQuery }) => admitQuery !== undefined);
  }

  admitQuery(query: QueryFacts): void {
    if (this.#admits) this.#wait(query, undefined);
  }

  queried(query: QueryFacts, cost: QueryCost): void {
    const last = this.#waiting - 1;
    // Mostly a query ends before the next begins.
    if (this.#admits && last >= 0 && this.#queries[last] === query && !this.#costs[last]) {
      this.#costs[last] = cost;
      this.#whole[last] = 1;
    } else this.#wait(query, cost);
    if (query.filter !== undefined && query.filter.length > FILTER_LENGTH_MAX) this.drain();
  }

  admitWrite(write: WriteFacts): void {
    this.drain();
    for (const watcher of this.#watchers) watcher.admitWrite?.(write);
  }

  /** Tells what waits. Whoever asks a watcher for what it knows calls this before. */
  drain(): void {
    const count = this.#waiting;
    if (count === 0) return;
    this.#waiting = 0;
    for (const watcher of this.#watchers) this.#tell(watcher, count);
    this.#queries = new Array(WAITING_MAX);
    this.#costs = new Array(WAITING_MAX);
    this.#whole.fill(0, 0, count);
  }

  #tell(watcher: Watcher, count: number): void {
    const { admitQuery, queried } = watcher;
    for (let i = 0; i < count; i++) {
      const query = this.#queries[i]!;
      const cost = this.#costs[i];
      // `call` on a function that is at hand, not a property looked up on six kinds of objects.
      if (admitQuery && (cost === undefined || this.#whole[i] === 1))
        admitQuery.call(watcher, query);
      if (queried && cost !== undefined) queried.call(watcher, query, cost);
    }
  }

  #wait(query: QueryFacts, cost: QueryCost | undefined): void {
    if (this.#waiting === WAITING_MAX) this.drain();
    this.#queries[this.#waiting] = query;
    this.#costs[this.#waiting] = cost;
    this.#waiting++;
  }
}
