import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { encodeContinuation } from "@rowhouse/protocol/continuation";
import type { IndexDefinition } from "@rowhouse/server/query/indexes/index-definition";
import { type IndexPlan, planIndexes } from "@rowhouse/server/query/indexes/index-planner";
import type { KeyPosition, Plan } from "@rowhouse/server/query/plan";
import { planQuery } from "@rowhouse/server/query/planner";
import {
  estimateReads,
  type ReadEstimate,
  type TableSketch,
} from "@rowhouse/server/query/table-sketch";
import { ColumnChoice } from "./column-choice.ts";
import type { Cell, Row } from "./entities.ts";
import { type ParsedFilter, readFilter } from "./filter-text.ts";
import { readEntities, ServerError, session, wire } from "./session.ts";
import { type Change, editsOf, type TableEdits } from "./staged.ts";
import { readIndexes, readSketch } from "./table-facts.ts";

/** A query that reads more than this after a scan was asked for stops, and says so. */
export const SCAN_BUDGET = 100_000;
/** Smaller tables are scanned without asking. */
const ASKS_FROM = 1000;
/** About how much a request reads: often enough to show how a scan goes on, seldom enough to be fast. */
export const READ_PER_REQUEST = 10_000;
const FIRST_ROWS = 200;
export const ROWS_PER_REQUEST = 1000;
export const CELL_MAX = 256;
/** A browser cannot scroll over more. */
export const ROWS_MAX = 500_000;

/**
 * idle: nothing asked yet; asks: a scan that waits for a yes; running; more: a page that the scrolling may go on from;
 * budget: stopped after `SCAN_BUDGET` entities; stopped: by the user; end: everything was read; failed: `failure`.
 */
export type Phase = "idle" | "asks" | "running" | "more" | "budget" | "stopped" | "end" | "failed";

/** What the server counted, over all requests of a run. */
export interface Actual {
  readonly read: number;
  readonly returned: number;
  readonly bytesRead: number;
  readonly indexEntriesRead: number;
  readonly requests: number;
  readonly engineMs: number;
  /** The server's plan of the first page. */
  readonly planText: string;
}

const NOTHING: Actual = {
  ...{ read: 0, returned: 0, bytesRead: 0, indexEntriesRead: 0 },
  ...{ requests: 0, engineMs: 0, planText: "" },
};

/** A table as it is looked at: the query, its plan, and the rows that were read. */
export class TableView {
  readonly table: string;
  readonly filter: Signal<string>;
  readonly columns: ColumnChoice;
  /** The key that reading begins at; undefined: the first. */
  readonly from = signal<string | undefined>(undefined);
  readonly sketch = signal<TableSketch | undefined>(undefined);
  /** Why there is no sketch. */
  readonly sketchFailure = signal("");
  readonly indexes = signal<readonly IndexDefinition[]>([]);
  readonly edits: TableEdits;
  /** Rows that were chosen, by `idOf`. */
  readonly chosen = signal<ReadonlySet<string>>(new Set());
  /** What was just done, for the foot of the grid. */
  readonly notice = signal("");

  readonly parsed: ReadonlySignal<ParsedFilter>;
  /** Undefined while the filter cannot be read. */
  readonly plan: ReadonlySignal<Plan | undefined>;
  readonly indexPlan: ReadonlySignal<IndexPlan | undefined>;
  readonly estimate: ReadonlySignal<ReadEstimate | undefined>;

  readonly phase = signal<Phase>("idle");
  readonly rows = signal<readonly Row[]>([]);
  readonly actual = signal<Actual>(NOTHING);
  readonly failure = signal<ServerError | undefined>(undefined);
  /** The filter whose rows are shown. */
  readonly ranFilter = signal<string | undefined>(undefined);

  #next: Readonly<Record<string, string>> | undefined;
  #abort = new AbortController();
  /** Entities that this run may still read. */
  #allowance = 0;
  #stopsAtBudget = false;

  constructor(table: string, filter: string) {
    this.table = table;
    this.filter = signal(filter);
    this.columns = new ColumnChoice(table);
    this.edits = editsOf(session.value?.account ?? "", table);
    this.parsed = computed(() => readFilter(this.filter.value));
    this.plan = computed(() => {
      const { tree, problem } = this.parsed.value;
      return problem ? undefined : planQuery(tree);
    });
    this.indexPlan = computed(
      () => this.plan.value && planIndexes(this.plan.value, this.indexes.value),
    );
    this.estimate = computed(() => {
      const plan = this.plan.value;
      return plan && this.sketch.value && estimateReads(plan, this.sketch.value);
    });
  }

  /** Reads what is known of the table, and its first rows. */
  async open(): Promise<void> {
    const facts = Promise.all([this.refreshSketch(), this.#readIndexes()]);
    // With a filter of an address, the estimate decides whether to ask first.
    if (this.filter.value !== "") await facts;
    await this.run();
  }

  close(): void {
    this.#abort.abort();
  }

  async refreshSketch(): Promise<void> {
    try {
      this.sketch.value = await readSketch(this.table);
      this.sketchFailure.value = "";
    } catch (error) {
      this.sketchFailure.value = error instanceof ServerError ? error.message : String(error);
    }
  }

  async #readIndexes(): Promise<void> {
    this.indexes.value = await readIndexes(this.table).catch(() => []);
  }

  /** Whether running would read much that it does not return: then it asks first, and stops at the budget. */
  get isScan(): boolean {
    const plan = this.plan.value;
    if (!plan?.residual || this.indexPlan.value) return false;
    if (plan.class !== "table scan" && plan.class !== "partition range") return false;
    return (this.estimate.value?.most ?? Number.POSITIVE_INFINITY) > ASKS_FROM;
  }

  /** Begins anew. @param isConfirmed that a scan was agreed to */
  async run(isConfirmed = false): Promise<void> {
    this.#abort.abort();
    if (this.plan.value === undefined) return;
    const isScan = this.isScan;
    batch(() => {
      this.rows.value = [];
      this.actual.value = NOTHING;
      this.failure.value = undefined;
      this.ranFilter.value = this.filter.value;
      this.notice.value = "";
      this.columns.clearRowChoices();
      this.phase.value = isScan && !isConfirmed ? "asks" : "running";
    });
    if (this.phase.value === "asks") return;
    const from = this.from.value;
    this.#next = from === undefined ? {} : { NextPartitionKey: encodeContinuation(from) };
    this.#stopsAtBudget = isScan;
    await this.#read(FIRST_ROWS);
  }

  /** Goes on after a page, a stop or the budget. */
  async goOn(): Promise<void> {
    const { value } = this.phase;
    if (value !== "more" && value !== "budget" && value !== "stopped" && value !== "failed") return;
    if (this.#next) await this.#read(ROWS_PER_REQUEST);
  }

  stop(): void {
    if (this.phase.value === "asks") this.phase.value = "idle";
    if (this.phase.value !== "running") return;
    this.#abort.abort();
    this.phase.value = "stopped";
  }

  /** Shows what was saved, where its rows are among those that were read: nothing is read again. */
  takeSaved(saved: readonly (Change & { readonly etag: string | undefined })[]): void {
    const rows = [...this.rows.value];
    for (const { kind, row, base, etag } of saved) {
      const at = firstNotBefore(rows, row);
      const isThere = rows[at] !== undefined && isSameKey(rows[at], row);
      if (kind === "delete") {
        if (isThere) rows.splice(at, 1);
        continue;
      }
      const cells = new Map<string, Cell>(row.cells);
      const [, time] = /datetime'(.*)'/.exec(decodeURIComponent(etag ?? "")) ?? [];
      if (time !== undefined) cells.set("Timestamp", { type: "Edm.DateTime", text: time });
      const isRead = at < rows.length || this.phase.value === "end";
      if (isThere) rows[at] = { ...row, cells };
      else if (base === undefined && isRead) rows.splice(at, 0, { ...row, cells });
    }
    this.columns.learnAnew(rows);
    this.rows.value = rows;
  }

  /** Until a page of rows is there, nothing is left, or the budget is used up. */
  async #read(wanted: number): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    this.#allowance = SCAN_BUDGET;
    batch(() => {
      this.phase.value = "running";
      this.failure.value = undefined;
    });
    let missing = wanted;
    try {
      while (this.#next && missing > 0) {
        if (this.#stopsAtBudget && this.#allowance <= 0) {
          this.phase.value = "budget";
          return;
        }
        missing -= await this.#request(Math.min(missing, ROWS_PER_REQUEST), abort.signal);
        if (abort.signal.aborted) return;
      }
      this.phase.value = this.#next ? "more" : "end";
    } catch (error) {
      if (abort.signal.aborted) return;
      if (!(error instanceof ServerError)) throw error;
      batch(() => {
        this.failure.value = error;
        this.phase.value = "failed";
      });
    }
  }

  /** @returns how many rows came */
  async #request(top: number, abort: AbortSignal): Promise<number> {
    const answer = await wire({
      path: `/${this.table}()`,
      query: {
        $filter: this.ranFilter.value ?? "",
        $select: this.columns.projection.join(","),
        $top: String(top),
        ...this.#next,
      },
      headers: {
        "x-rowhouse-read-max": String(READ_PER_REQUEST),
        "x-rowhouse-cell-max": String(CELL_MAX),
      },
      signal: abort,
    });
    const rows = await readEntities(answer);
    if (abort.aborted) return 0;
    const cost = costOf(answer.headers);
    this.#allowance -= cost.read;
    batch(() => {
      const { value: before } = this.actual;
      this.actual.value = {
        read: before.read + cost.read,
        returned: before.returned + rows.length,
        bytesRead: before.bytesRead + cost.bytesRead,
        indexEntriesRead: before.indexEntriesRead + cost.indexEntriesRead,
        requests: before.requests + 1,
        engineMs: before.engineMs + cost.engineMs,
        planText: before.planText || (answer.headers.get("x-rowhouse-plan") ?? ""),
      };
      this.columns.learn(rows);
      this.rows.value = this.rows.value.concat(rows);
    });
    this.#next = nextOf(answer.headers);
    if (this.rows.value.length >= ROWS_MAX) this.#next = undefined;
    return rows.length;
  }
}

export function costOf(headers: Headers) {
  const parts = new Map(
    (headers.get("x-rowhouse-cost") ?? "").split(", ").map((part) => {
      const [name = "", value = ""] = part.split("=");
      return [name, Number(value)];
    }),
  );
  const of = (name: string) => parts.get(name) ?? 0;
  return {
    read: of("entities-read"),
    bytesRead: of("bytes-read"),
    indexEntriesRead: of("index-entries-read"),
    engineMs: of("engine-us") / 1000,
  };
}

export function nextOf(headers: Headers): Readonly<Record<string, string>> | undefined {
  const partition = headers.get("x-ms-continuation-nextpartitionkey");
  if (partition === null) return undefined;
  const row = headers.get("x-ms-continuation-nextrowkey");
  return { NextPartitionKey: partition, ...(row !== null && { NextRowKey: row }) };
}

/** The index of the first row that is not before these keys; rows are in key order. */
function firstNotBefore(rows: readonly Row[], { partitionKey, rowKey }: KeyPosition): number {
  const at = rows.findIndex(
    (row) =>
      row.partitionKey > partitionKey ||
      (row.partitionKey === partitionKey && row.rowKey >= rowKey),
  );
  return at < 0 ? rows.length : at;
}

function isSameKey(a: KeyPosition, b: KeyPosition): boolean {
  return a.partitionKey === b.partitionKey && a.rowKey === b.rowKey;
}
