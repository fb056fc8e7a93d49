import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { parseIfMatch } from "@rowhouse/protocol/etag";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { LIMITS } from "@rowhouse/protocol/limits";
import { encodeName } from "@rowhouse/protocol/property-name";
import { BackgroundLoop } from "../catalog/background-loop.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Clock } from "../clock.ts";
import { type Engine, EngineError } from "../engine/engine.ts";
import { type Analytics, hourOf, type RowCounts } from "../insight/analytics.ts";
import { TransactionCounts } from "../insight/transaction-counts.ts";
import { planQuery } from "../query/planner.ts";
import { recordEtag } from "./entity-record.ts";
import type { EntityStore, TableValue } from "./entity-store.ts";
import type { Mutation } from "./mutation.ts";
import { PageReader } from "./page-reader.ts";
import { RecordView } from "./record-view.ts";

export interface MetricsTablesOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly catalog: Catalog<TableValue>;
  readonly entities: EntityStore;
  readonly analytics: Analytics;
  /** Days that rows of a metrics table are kept; undefined: for ever. */
  readonly retentionDays: (account: string, table: string) => number | undefined;
  readonly onError: (error: unknown) => void;
}

const PERIOD_MS = 60_000;
/** No row is begun when a server ends for longer than this. */
const CLOSE_MS_MAX = 10_000;
const DAY_MS = 86_400_000;

/** Whether a table is one of the service's own, which users read, but neither list nor write. */
export function isMetricsTable(name: string): boolean {
  // No other table begins so; found are tables in any case.
  return name.startsWith("$") && name.toLowerCase().startsWith("$metrics");
}

/**
 * Writes what was counted to the `$Metrics…` tables, once a minute and when the server ends. Counts are
 * added to the row that is there, so several processes may share it. A crash loses the last minute, and
 * a store that is away at the end what could not be written since it went.
 */
export class MetricsTables {
  readonly #options: MetricsTablesOptions;
  readonly #loop: BackgroundLoop;
  readonly #view = new RecordView();
  /** The hour in which old rows were last looked for, by account and table. */
  readonly #cleared = new Map<string, string>();
  /** Milliseconds since 1970. */
  #endsAt = Number.POSITIVE_INFINITY;

  constructor(options: MetricsTablesOptions) {
    this.#options = options;
    const { onError } = options;
    this.#loop = new BackgroundLoop({ run: () => this.write(), periodMs: PERIOD_MS, onError });
  }

  start(): void {
    this.#loop.start();
  }

  async close(): Promise<void> {
    this.#endsAt = this.#options.clock.now() + CLOSE_MS_MAX;
    await this.#loop.close();
    await this.write().catch(this.#options.onError);
  }

  /**
   * Writes what was counted so far. Rows that fail are counted on, and with the engine all that are
   * left: each would wait for its time-out.
   */
  async write(): Promise<void> {
    const { analytics, clock } = this.#options;
    const rows = analytics.take();
    const failures: unknown[] = [];
    let begun = 0;
    while (begun < rows.length && clock.now() <= this.#endsAt) {
      const row = rows[begun++]!;
      try {
        await this.#add(row);
        await this.#clearOld(row);
      } catch (error) {
        failures.push(error);
        if (error instanceof EngineError) break;
      }
    }
    const left = rows.slice(begun);
    for (const row of left) analytics.giveBack(row);
    if (failures.length > 0) throw failures[0];
    if (left.length > 0) {
      throw new Error(`${left.length} rows of metrics were not written before the server ended.`);
    }
  }

  async #add(row: RowCounts): Promise<void> {
    const { analytics, catalog, entities } = this.#options;
    const { account, counts, partitionKey, rowKey, table } = row;
    try {
      for (;;) {
        if (!(await catalog.find(account, table))) {
          await catalog.create(account, table, { policies: [] });
        }
        const record = await entities.get(account, table, partitionKey, rowKey);
        const sum = new TransactionCounts();
        sum.merge(counts);
        if (record) sum.mergeRow(this.#numbersOf(record));
        const mutation: Mutation = {
          ...{ kind: record ? "replace" : "insert", partitionKey, rowKey },
          entity: decodeEntity(Buffer.from(sum.toJson(partitionKey, rowKey), "utf8")),
          ifMatch: record && parseIfMatch(recordEtag(record)),
        };
        const outcome = await entities.commit(account, table, [mutation]);
        // Refused is who comes second: the row is another one now.
        if (outcome.committed) return;
      }
    } catch (error) {
      // May be written: a minute that is counted too few is better than one counted twice.
      if (!(error instanceof EngineError && error.code === "Unknown")) analytics.giveBack(row);
      throw error;
    }
  }

  #numbersOf(record: Uint8Array): (column: string) => number | undefined {
    const view = this.#view;
    view.reset(record);
    return (column) => {
      const index = view.find(encodeName(column));
      if (index < 0) return undefined;
      return view.typeOf(index) === "Edm.Int64" ? Number(view.bigint(index)) : view.number(index);
    };
  }

  /** Deletes rows older than the retention, once an hour. */
  async #clearOld({ account, table }: RowCounts): Promise<void> {
    const { clock, retentionDays } = this.#options;
    const days = retentionDays(account, table);
    const place = `${account}/${table}`;
    const hour = hourOf(clock.now());
    if (days === undefined || this.#cleared.get(place) === hour) return;
    this.#cleared.set(place, hour);
    const before = hourOf(clock.now() - days * DAY_MS);
    for (;;) {
      const partitions = await this.#rowsBefore(account, table, before);
      if (partitions.size === 0) return;
      for (const mutations of partitions.values()) {
        if (this.#loop.closed) return;
        await this.#options.entities.commit(account, table, mutations);
      }
    }
  }

  /** Deletions of a page of rows, by partition. */
  async #rowsBefore(
    account: string,
    table: string,
    before: string,
  ): Promise<Map<string, Mutation[]>> {
    const { clock, engine, entities } = this.#options;
    const { prefix } = await entities.openTable(account, table);
    const partitions = new Map<string, Mutation[]>();
    const reader = new PageReader(engine, clock, {
      prefix,
      plan: planQuery(parseFilter(`PartitionKey lt '${before}'`)),
      predicate: undefined,
      entitiesMax: LIMITS.pageEntitiesMax,
      bytesMax: LIMITS.pageBytesMax,
      deadline: clock.now() + LIMITS.pageTimeMs,
      take({ partitionKey, rowKey }) {
        const mutations = partitions.get(partitionKey) ?? [];
        partitions.set(partitionKey, mutations);
        mutations.push({
          ...{ kind: "delete", partitionKey, rowKey, entity: undefined, ifMatch: "*" },
        });
      },
    });
    await reader.read();
    return partitions;
  }
}
