import type { Insight, QueryCost, QueryFacts, WriteFacts } from "./insight.ts";
import { BATCH_QUERIES_MAX, QueryBatch } from "./query-batch.ts";

/** Queries with longer filters are told at once: what waits is held in memory. */
const FILTER_LENGTH_MAX = 1024;

/** Watches some of how tables are used, and refuses nothing: it hears of many queries at once, later. */
export interface Watcher {
  /** Queries that were run. Of most of them it is told nothing else. */
  ranQueries?(batch: QueryBatch): void;
  /** Only of a query that did not end before something else happened: its end is told in a batch. */
  admitQuery?(query: QueryFacts): void;
  admitWrite?(write: WriteFacts): void;
}

/**
 * Tells watchers of queries a little later: first one watcher of all that waits, then the next. What
 * they do takes a quarter as long in a loop of its own, where their code and tables are at hand, as
 * between the steps of a request. Each is told of everything, in the order in which it happened.
 *
 * A query that ends before the next begins, as all do in an embedded engine, waits as one event.
 * Writes are told at once, behind what waits: their entities are too large to be kept, and a flush costs
 * a thousand times as much.
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

  /** Tells what waits. Whoever asks a watcher for what it knows calls this before. */
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
