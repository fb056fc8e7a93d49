import { parseFilter } from "@rowhouse/protocol/filter-parser";
import type { PlanClass } from "../query/plan.ts";
import { detachedString } from "./detached-string.ts";
import type { QueryCost, QueryFacts } from "./insight.ts";
import { shapeOf } from "./query-remedy.ts";

/** A query whose page cost more than those of other kinds. */
export interface NotableQuery {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly table: string;
  readonly class: PlanClass;
  /** The filter without its constants. */
  readonly shape: string;
  /** The filter as sent, the first 2,000 characters of it. */
  readonly filter: string;
  readonly engineMicros: number;
  readonly entitiesRead: number;
  readonly entitiesReturned: number;
}

const KEPT_MS = 3_600_000;
const KINDS_MAX = 20;
const TEXT_LENGTH_MAX = 2000;

/** The 20 kinds of queries of the last hour, each with its most costly page; below 200 KiB. */
export class NotableQueries {
  readonly #measure: (cost: QueryCost | NotableQuery) => number;
  #kept: NotableQuery[] = [];
  /** What a page must cost at least to be kept, while the list is full. */
  #least = 0;
  #oldest = Number.POSITIVE_INFINITY;

  constructor(measure: (cost: Pick<NotableQuery, "engineMicros" | "entitiesRead">) => number) {
    this.#measure = measure;
  }

  offer(query: QueryFacts, cost: QueryCost): void {
    const measure = this.#measure(cost);
    if (query.at - this.#oldest > KEPT_MS) this.#keep(this.list(query.at));
    if (measure <= this.#least) return;
    const { at, table, class: planClass, filter = "" } = query;
    const isKnown = (each: NotableQuery) =>
      each.class === planClass && each.table === table && each.filter === filter;
    if (this.#kept.some((each) => isKnown(each) && this.#measure(each) >= measure)) return;
    const shape = kept(filter.trim() === "" ? "" : shapeOf(parseFilter(filter)));
    const isSame = (each: NotableQuery) =>
      each.class === planClass && each.table === table && each.shape === shape;
    const known = this.#kept.find(isSame);
    if (known && this.#measure(known) >= measure) return;
    const { engineMicros, entitiesRead, entitiesReturned } = cost;
    const notable = {
      ...{ at, table: detachedString(table), class: planClass, shape, filter: kept(filter) },
      ...{ engineMicros, entitiesRead, entitiesReturned },
    };
    this.#keep([...this.#kept.filter((each) => each !== known), notable]);
  }

  /** The most costly first. */
  list(now: number): NotableQuery[] {
    return this.#kept.filter(({ at }) => now - at <= KEPT_MS);
  }

  #keep(all: NotableQuery[]): void {
    this.#kept = all.sort((a, b) => this.#measure(b) - this.#measure(a)).slice(0, KINDS_MAX);
    const last = this.#kept.length === KINDS_MAX ? this.#kept.at(-1) : undefined;
    this.#least = last ? this.#measure(last) : 0;
    this.#oldest = Math.min(...this.#kept.map(({ at }) => at));
  }
}

function kept(text: string): string {
  return detachedString(text.slice(0, TEXT_LENGTH_MAX));
}
