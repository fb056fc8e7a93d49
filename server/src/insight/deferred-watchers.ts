import type { QueryCost, QueryFacts, Watcher, WriteFacts } from "./insight.ts";

/** So many events wait at most. Few enough to be still in the processor's cache. */
const WAITING_MAX = 16;
/** Queries with longer filters are told at once: what waits is held in memory. */
const FILTER_LENGTH_MAX = 1024;

/**
 * Tells watchers of queries a little later, many at once: what they do takes half as long in a loop of
 * its own, where their code and tables are at hand, as between the steps of a request. They are told of
 * everything, in the order in which it happened. For watchers that refuse nothing: nobody hears them.
 *
 * Writes are told at once, behind what waits: their entities are too large to be kept, and a flush costs
 * a thousand times as much.
 */
export class DeferredWatchers implements Watcher {
  readonly #watchers: readonly Watcher[];
  readonly #admits: boolean;
  readonly #queries = new Array<QueryFacts | undefined>(WAITING_MAX).fill(undefined);
  /** Undefined where a query is only about to be run. */
  readonly #costs = new Array<QueryCost | undefined>(WAITING_MAX).fill(undefined);
  #waiting = 0;

  constructor(watchers: readonly Watcher[]) {
    this.#watchers = watchers;
    this.#admits = watchers.some(({ admitQuery }) => admitQuery !== undefined);
  }

  admitQuery(query: QueryFacts): void {
    if (this.#admits) this.#wait(query, undefined);
  }

  queried(query: QueryFacts, cost: QueryCost): void {
    this.#wait(query, cost);
    if (query.filter !== undefined && query.filter.length > FILTER_LENGTH_MAX) this.drain();
  }

  admitWrite(write: WriteFacts): void {
    this.drain();
    for (const watcher of this.#watchers) watcher.admitWrite?.(write);
  }

  /** Tells what waits. Whoever asks a watcher for what it knows calls this before. */
  drain(): void {
    const count = this.#waiting;
    this.#waiting = 0;
    for (let i = 0; i < count; i++) {
      const query = this.#queries[i]!;
      const cost = this.#costs[i];
      this.#queries[i] = undefined;
      this.#costs[i] = undefined;
      for (const watcher of this.#watchers) {
        if (cost === undefined) watcher.admitQuery?.(query);
        else watcher.queried?.(query, cost);
      }
    }
  }

  #wait(query: QueryFacts, cost: QueryCost | undefined): void {
    this.#queries[this.#waiting] = query;
    this.#costs[this.#waiting] = cost;
    this.#waiting++;
    if (this.#waiting === WAITING_MAX) this.drain();
  }
}
