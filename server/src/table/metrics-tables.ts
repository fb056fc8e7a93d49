import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { parseIfMatch } from "@rowhouse/protocol/etag";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { LIMITS } from "@rowhouse/protocol/limits";
import { encodeName } from "@rowhouse/protocol/property-name";
import type { BackgroundWork } from "../catalog/background-loop.ts";
import { BackgroundWriter } from "../catalog/background-writer.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Clock } from "../clock.ts";
import type { Engine } from "../engine/engine.ts";
import { type AnalyticsMetrics, hourOf, type RowCounts } from "../insight/analytics-metrics.ts";
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
  readonly metrics: AnalyticsMetrics;
  /** Days for which the rows of a metrics table are kept; undefined: forever. */
  readonly retentionDays: (account: string, table: string) => number | undefined;
  readonly onError: (error: unknown) => void;
}

const DAY_MS = 86_400_000;

/** Whether a table is one of the service's own, which users can read but neither list nor write. */
export function isMetricsTable(name: string): boolean {
  // No other table name begins with `$`. Names are case-insensitive.
  return name.startsWith("$") && name.toLowerCase().startsWith("$metrics");
}

/**
 * Writes the counts to the `$Metrics…` tables, once a minute and when the server closes. Counts are
 * added to the existing row, so several processes may share it.
 */
export class MetricsTables implements BackgroundWork {
  readonly #options: MetricsTablesOptions;
  readonly #writer: BackgroundWriter<RowCounts>;
  readonly #view = new RecordView();
  /** The hour in which old rows were last looked for, by account and table. */
  readonly #cleared = new Map<string, string>();

  constructor(options: MetricsTablesOptions) {
    this.#options = options;
    const { clock, metrics, onError } = options;
    this.#writer = new BackgroundWriter({
      clock,
      name: "rows of metrics",
      onError,
      run: () => this.write(),
      prepare: (row) => this.#openTable(row),
      put: (row) => this.#add(row),
      written() {},
      giveBack: (row) => metrics.giveBack(row),
    });
  }

  start(): void {
    this.#writer.start();
  }

  close(): Promise<void> {
    return this.#writer.close();
  }

  /**
   * Writes the counts so far and removes rows that are too old. Rows that fail are given back to be
   * counted on.
   */
  async write(): Promise<void> {
    const rows = this.#options.metrics.take();
    await this.#writer.write(rows);
    for (const row of rows) await this.#clearOld(row);
  }

  /** Creates the table with its first row. */
  async #openTable({ account, table }: RowCounts): Promise<void> {
    const { catalog } = this.#options;
    if (await catalog.find(account, table)) return;
    await catalog.create(account, table, { policies: [] });
  }

  async #add(row: RowCounts): Promise<void> {
    const { entities } = this.#options;
    const { account, counts, partitionKey, rowKey, table } = row;
    for (;;) {
      const record = await entities.get(account, table, partitionKey, rowKey);
      const sum = new TransactionCounts();
      sum.merge(counts);
      if (record) sum.mergeRow(this.#numbersOf(record));
      const mutation: Mutation = {
        kind: record ? "replace" : "insert",
        partitionKey,
        rowKey,
        entity: decodeEntity(Buffer.from(sum.toJson(partitionKey, rowKey), "utf8")),
        ifMatch: record && parseIfMatch(recordEtag(record)),
      };
      const outcome = await entities.commit(account, table, [mutation]);
      // Otherwise another process wrote the row first: read it again and retry.
      if (outcome.committed) return;
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

  /** Deletes rows older than the retention period, once an hour. */
  async #clearOld({ account, table }: RowCounts): Promise<void> {
    const { clock, retentionDays } = this.#options;
    const days = retentionDays(account, table);
    const place = `${account}/${table}`;
    const hour = hourOf(clock.now());
    if (days === undefined || this.#cleared.get(place) === hour || this.#writer.closed) return;
    this.#cleared.set(place, hour);
    const before = hourOf(clock.now() - days * DAY_MS);
    for (;;) {
      const partitions = await this.#rowsBefore(account, table, before);
      if (partitions.size === 0) return;
      for (const mutations of partitions.values()) {
        if (this.#writer.closed) return;
        await this.#options.entities.commit(account, table, mutations);
      }
    }
  }

  /** The deletes of one page of rows, by partition. */
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
        mutations.push({ kind: "delete", partitionKey, rowKey, entity: undefined, ifMatch: "*" });
      },
    });
    await reader.read();
    return partitions;
  }
}
