import type { Insight, QueryCost, QueryFacts, WriteFacts } from "./insight.ts";
import { BATCH_QUERIES_MAX, QueryBatch } from "./query-batch.ts";

/** A query with a longer filter is passed on immediately: waiting queries are held in memory. */
const FILTER_LENGTH_MAX = 1024;

/** Observes part of the use of tables and refuses nothing: it receives queries later, many at a time. */
export interface Watcher {
  /** Receives completed queries. For most of them there is no other call. */
  ranQueries?(batch: QueryBatch): void;
  /** Called only for a query during which something else happened; its end is reported in a batch. */
  admitQuery?(query: QueryFacts): void;
  admitWrite?(write: WriteFacts): void;
}

/**
 * Passes queries on to watchers a little later: all waiting ones to the first watcher, then to the next. In a
 * loop of its own, with its code and tables in the caches, their work takes a quarter of the time it takes
 * between the steps of a request. Each watcher receives everything in the order in which it happened.
 *
 * A query that ends before the next one begins, as all do in an embedded engine, waits as one event. Writes
 * are passed on immediately, after the waiting queries: their entities are too large to hold, and a flush
 * costs a thousand times as much.
 */
export class DeferredWatchers implements Insight {
  readonly #watchers: readonly Watcher[];
  readonly #admits: boolean;
  readonly #batch = new QueryBatch();

  constructor(watchers: readonly Watcher[]) {
    this.#watchers = watchers;
    this.#admits = watchers.some(({ admitQuery }) => admitQuery !== undefined);
  }

  admitQuery(query: QueryFacts): void {
    if (!this.#admits) return;
    if (this.#batch.begun !== undefined) this.drain();
    this.#batch.begin(query);
  }

  queried(query: QueryFacts, cost: QueryCost): void {
    const batch = this.#batch;
    if (batch.begun !== undefined && batch.begun !== query) this.drain();
    batch.end(query, cost);
    const isLong = query.filter !== undefined && query.filter.length > FILTER_LENGTH_MAX;
    if (isLong || batch.count === BATCH_QUERIES_MAX) this.drain();
  }

  admitWrite(write: WriteFacts): void {
    this.drain();
    for (const watcher of this.#watchers) watcher.admitWrite?.(write);
  }

  /** Passes on the waiting queries. Call it before asking a watcher for results. */
  drain(): void {
    const batch = this.#batch;
    const { begun } = batch;
    if (batch.count === 0 && begun === undefined) return;
    for (const watcher of this.#watchers) {
      if (batch.count > 0) watcher.ranQueries?.(batch);
      if (begun !== undefined) watcher.admitQuery?.(begun);
    }
    batch.clear();
  }
}
