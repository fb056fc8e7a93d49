import type { RequestRecord } from "../wire/observer.ts";

/** The outcome of a request, in the words of the analytics tables. */
const OUTCOMES = [
  "Success",
  "ThrottlingError",
  "ClientTimeoutError",
  "ServerTimeoutError",
  "ClientOtherError",
  "ServerOtherError",
  "AuthorizationError",
  "NetworkError",
] as const;

/** The caller: with a key or token, anonymous, or with a shared access signature. */
const CALLERS = ["", "Anonymous", "SAS"] as const;

/** Columns that are counts, which add up when two rows are merged. */
const COUNTED = [
  "TotalIngress",
  "TotalEgress",
  "TotalRequests",
  "TotalBillableRequests",
  ...CALLERS.flatMap((caller) => OUTCOMES.map((outcome) => `${caller}${outcome}`)),
] as const;

/** An average in the tables, a sum here. */
const LATENCY = "AverageE2ELatency";

/**
 * A row of the analytics tables: the requests of an account, in total or of one operation, within an hour or
 * a minute. The columns are those that the service documents; see COMPATIBILITY.md for their interpretation.
 */
export class TransactionCounts {
  readonly #counts = new Map<string, number>();
  #successMs = 0;

  of(column: string): number {
    return this.#counts.get(column) ?? 0;
  }

  add(record: RequestRecord): void {
    const outcome = outcomeOf(record);
    const isBillable = outcome === "Success" || outcome.startsWith("Client");
    this.count("TotalIngress", record.requestBytes);
    this.count("TotalEgress", record.responseBytes);
    this.count("TotalRequests", 1);
    if (isBillable) this.count("TotalBillableRequests", 1);
    this.count(`${callerOf(record)}${outcome}`, 1);
    if (outcome === "Success") this.#successMs += record.durationMs;
  }

  count(column: string, amount: number): void {
    this.#counts.set(column, this.of(column) + amount);
  }

  merge(other: TransactionCounts): void {
    for (const [column, amount] of other.#counts) this.count(column, amount);
    this.#successMs += other.#successMs;
  }

  /** Adds the values of a stored row: its counts, and its average converted back to a sum. */
  mergeRow(number: (column: string) => number | undefined): void {
    const stored = new TransactionCounts();
    for (const column of COUNTED) stored.count(column, number(column) ?? 0);
    stored.#successMs = (number(LATENCY) ?? 0) * stored.#successes();
    this.merge(stored);
  }

  /** The entity as a client would send it: counts are Edm.Int64, everything else is Edm.Double. */
  toJson(partitionKey: string, rowKey: string): string {
    const all = Math.max(this.of("TotalRequests"), 1);
    const total = (outcome: string) =>
      CALLERS.reduce((sum, caller) => sum + this.of(`${caller}${outcome}`), 0);
    const percent = (amount: number) => (100 * amount) / all;
    const billable = this.of("TotalBillableRequests");
    const unexpected = total("ServerOtherError") + total("ServerTimeoutError");
    const latency = this.#successMs / Math.max(this.#successes(), 1);
    const doubles: Record<string, number> = {
      Availability: billable + unexpected === 0 ? 100 : (100 * billable) / (billable + unexpected),
      [LATENCY]: latency,
      AverageServerLatency: latency,
      PercentSuccess: percent(total("Success")),
      PercentThrottlingError: percent(total("ThrottlingError")),
      PercentTimeoutError: percent(total("ServerTimeoutError") + total("ClientTimeoutError")),
      PercentServerOtherError: percent(total("ServerOtherError")),
      PercentClientOtherError: percent(total("ClientOtherError")),
      PercentAuthorizationError: percent(total("AuthorizationError")),
      PercentNetworkError: percent(total("NetworkError")),
    };
    const members = [
      `"PartitionKey":${JSON.stringify(partitionKey)}`,
      `"RowKey":${JSON.stringify(rowKey)}`,
      ...COUNTED.map(
        (column) => `"${column}@odata.type":"Edm.Int64","${column}":"${this.of(column)}"`,
      ),
      ...Object.entries(doubles).map(
        ([column, value]) => `"${column}@odata.type":"Edm.Double","${column}":${value}`,
      ),
    ];
    return `{${members.join(",")}}`;
  }

  #successes(): number {
    return CALLERS.reduce((sum, caller) => sum + this.of(`${caller}Success`), 0);
  }
}

type Outcome = (typeof OUTCOMES)[number];

export function outcomeOf({ status, errorCode }: RequestRecord): Outcome {
  if (status < 400) return "Success";
  if (status === 401 || status === 403) return "AuthorizationError";
  if (status < 500) return "ClientOtherError";
  if (errorCode === "ServerBusy") return "ThrottlingError";
  return errorCode === "OperationTimedOut" ? "ServerTimeoutError" : "ServerOtherError";
}

export function callerOf({ caller }: RequestRecord): (typeof CALLERS)[number] {
  if (caller === "anonymous") return "Anonymous";
  return caller === "account-sas" || caller === "service-sas" ? "SAS" : "";
}
