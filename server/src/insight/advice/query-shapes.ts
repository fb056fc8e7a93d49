import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { shapeOf } from "../query-remedy.ts";
import type { QueryEvent } from "../recording.ts";
import type { TrafficListener } from "./read-recording.ts";
import { tableOf } from "./rule.ts";

/** Queries with the same table and the same filter, apart from constants. */
export class QueryShape {
  /** `account/table`. */
  readonly table: string;
  readonly shape: string;
  readonly first: QueryEvent;
  readonly all = new PageCounts();
  readonly unprojected = new PageCounts();
  readonly tableScans = new PageCounts();
  /** Queries within one partition that return nearly everything they read. */
  readonly series = new PageCounts();

  constructor(shape: string, first: QueryEvent) {
    this.table = tableOf(first);
    this.shape = shape;
    this.first = first;
  }

  add(query: QueryEvent): void {
    const { class: planClass, partitionKey, projected, read, returned } = query;
    this.all.add(query);
    if (!projected) this.unprojected.add(query);
    if (planClass === "table scan") this.tableScans.add(query);
    if (partitionKey !== undefined && returned >= SERIES_MIN && returned >= 0.9 * read) {
      this.series.add(query);
    }
  }
}

/** Fewer entities than this are not a series. */
export const SERIES_MIN = 12;

class PageCounts {
  pages = 0;
  /** Number of queries, whatever their number of pages. */
  queries = 0;
  read = 0;
  returned = 0;
  bytes = 0;

  add({ bytes, continued, read, returned }: QueryEvent): void {
    this.pages++;
    if (!continued) this.queries++;
    this.read += read;
    this.returned += returned;
    this.bytes += bytes;
  }
}

const SHAPES_MAX = 100_000;
const FILTERS_MAX = 10_000;

/**
 * Groups queries by table and filter, in order of first appearance. Shapes beyond the first 100,000 are
 * ignored.
 */
export class QueryShapes implements TrafficListener {
  readonly #shapes = new Map<string, QueryShape>();
  /** For the most recent filters. */
  readonly #shapeOfFilter = new Map<string, string>();

  queried(query: QueryEvent): void {
    // Point queries are left out, unless one filter names several points: that is a list.
    if (query.rowKey !== undefined) return;
    const shape = this.shapeOf(query.filter);
    const key = `${tableOf(query)} ${shape}`;
    let counts = this.#shapes.get(key);
    if (counts === undefined) {
      if (this.#shapes.size === SHAPES_MAX) return;
      counts = new QueryShape(shape, query);
      this.#shapes.set(key, counts);
    }
    counts.add(query);
  }

  find<T>(judge: (shape: QueryShape) => T | readonly T[]): T[] {
    return [...this.#shapes.values()].flatMap(judge);
  }

  /** A filter without its constants. */
  shapeOf(filter = ""): string {
    let shape = this.#shapeOfFilter.get(filter);
    if (shape === undefined) {
      shape = filter.trim() === "" ? "" : shapeOf(parseFilter(filter));
      if (this.#shapeOfFilter.size === FILTERS_MAX) this.#shapeOfFilter.clear();
      this.#shapeOfFilter.set(filter, shape);
    }
    return shape;
  }
}
