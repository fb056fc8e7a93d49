import type { Clock } from "../clock.ts";
import type { RequestRecord } from "../wire/observer.ts";
import { TransactionCounts } from "./transaction-counts.ts";

/** What an account wants logged and counted for a service. Its service properties have this shape. */
export interface AnalyticsSettings {
  readonly logging: LogSettings;
  readonly hourMetrics: MetricsSettings;
  readonly minuteMetrics: MetricsSettings;
}

/** Which requests are logged. */
export interface LogSettings {
  readonly read: boolean;
  readonly write: boolean;
  readonly delete: boolean;
}

export type MetricsSettings =
  | { readonly enabled: false; readonly retentionDays: number | null }
  | {
      readonly enabled: true;
      readonly includeApis: boolean;
      readonly retentionDays: number | null;
    };

/** Counts to be added to a row. */
export interface RowCounts {
  readonly account: string;
  /** `$MetricsHourPrimaryTransactionsTable` and the like. */
  readonly table: string;
  /** The hour or minute, as `20261120T1400`. */
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly counts: TransactionCounts;
}

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
/** Maximum number of waiting rows. With the operations there are, only many accounts could exceed it. */
const ROWS_MAX = 20_000;

/**
 * Counts requests for the analytics tables, for accounts whose service properties enable it. A request waits
 * only for the counting; a background writer takes the counts.
 */
export class AnalyticsMetrics {
  readonly #clock: Clock;
  #rows = new Map<string, RowCounts>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  finished(record: RequestRecord, { hourMetrics, minuteMetrics }: AnalyticsSettings): void {
    const now = this.#clock.now();
    const service = `${record.service.charAt(0).toUpperCase()}${record.service.slice(1)}`;
    this.#add(hourMetrics, `$MetricsHourPrimaryTransactions${service}`, hourOf(now), record);
    this.#add(minuteMetrics, `$MetricsMinutePrimaryTransactions${service}`, minuteOf(now), record);
  }

  /** The counts since the last call. */
  take(): RowCounts[] {
    const rows = [...this.#rows.values()];
    this.#rows = new Map();
    return rows;
  }

  /** Returns counts that could not be written, and adds them to the newer ones. */
  giveBack(row: RowCounts): void {
    this.#countsOf(row)?.merge(row.counts);
  }

  #add(
    settings: MetricsSettings,
    table: string,
    partitionKey: string,
    record: RequestRecord,
  ): void {
    if (!settings.enabled) return;
    const { account, operation } = record;
    const row = { account, table, partitionKey };
    this.#countsOf({ ...row, rowKey: "user;All" })?.add(record);
    if (!settings.includeApis) return;
    this.#countsOf({ ...row, rowKey: `user;${operation || "Unknown"}` })?.add(record);
  }

  #countsOf(row: Omit<RowCounts, "counts">): TransactionCounts | undefined {
    const key = `${row.account}/${row.table}/${row.partitionKey}/${row.rowKey}`;
    const known = this.#rows.get(key);
    if (known) return known.counts;
    if (this.#rows.size >= ROWS_MAX) return undefined;
    const counts = new TransactionCounts();
    const { account, table, partitionKey, rowKey } = row;
    this.#rows.set(key, { account, table, partitionKey, rowKey, counts });
    return counts;
  }
}

/** The partition key of the hour that contains `now`. */
export function hourOf(now: number): string {
  return timeKey(now - (now % HOUR_MS));
}

function minuteOf(now: number): string {
  return timeKey(now - (now % MINUTE_MS));
}

/** `20261120T1405`, which sorts by time. */
function timeKey(at: number): string {
  return new Date(at).toISOString().slice(0, 16).replace(/[-:]/g, "");
}
