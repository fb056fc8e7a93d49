import type { RequestRecord } from "../http/observer.ts";
import type { WireRequest } from "../operation.ts";
import type { AnalyticsSettings } from "./analytics-metrics.ts";
import { type LoggedRequest, type LoggedResponse, printLogLine } from "./log-line.ts";

export const LOG_KINDS = ["read", "write", "delete"] as const;
export type LogKind = (typeof LOG_KINDS)[number];

export interface LogEntry {
  readonly line: string;
  readonly kind: LogKind;
  /** When the request arrived, in milliseconds since 1970. */
  readonly at: number;
}

/** Lines that wait, of requests that arrived in one hour. */
export interface LogBatch {
  readonly account: string;
  readonly service: RequestRecord["service"];
  /** Its beginning, in milliseconds since 1970. */
  readonly hour: number;
  readonly entries: LogEntry[];
}

const HOUR_MS = 3_600_000;
/** What one waiting line takes beside its characters. */
const ENTRY_BYTES = 100;
/** So much may wait, or be on its way into blobs. */
const WAITING_BYTES_MAX = 16 << 20;
/** From here on it is not left to wait for its minute. */
const FILLED_BYTES = 2 << 20;
/** Longer lines fit no blob. Heads of requests are much shorter. */
const LINE_LENGTH_MAX = 40 << 10;

/**
 * Gathers the lines of the analytics log, of accounts whose service properties say so. Making the line
 * is all that a request waits for; whoever writes takes what is there. What there is no room for is
 * dropped, and counted.
 */
export class AnalyticsLog {
  readonly #onFilled: () => void;
  #batches = new Map<string, LogBatch>();
  #waitingBytes = 0;
  #dropped = 0;

  /** @param onFilled called when lines should be written before their minute is over */
  constructor(onFilled: () => void) {
    this.#onFilled = onFilled;
  }

  /** Whether more waits than should. */
  get isFilled(): boolean {
    return this.#waitingBytes >= FILLED_BYTES;
  }

  finished(
    record: RequestRecord,
    { logging }: AnalyticsSettings,
    request: LoggedRequest & Pick<WireRequest, "method">,
    response: LoggedResponse,
  ): void {
    const kind = kindOf(request.method);
    if (!logging[kind] || isFailedStranger(record, request)) return;
    const line = printLogLine(record, request, response);
    const bytes = line.length + ENTRY_BYTES;
    if (line.length > LINE_LENGTH_MAX || this.#waitingBytes + bytes > WAITING_BYTES_MAX) {
      this.#dropped++;
      return;
    }
    const { account, service } = record;
    const at = request.arrivedAt;
    this.#add({ account, service, hour: at - (at % HOUR_MS), entries: [{ line, kind, at }] });
    const wasFilled = this.isFilled;
    this.#waitingBytes += bytes;
    if (this.isFilled && !wasFilled) this.#onFilled();
  }

  /** What waits. It counts as waiting until it is told to be written. */
  take(): LogBatch[] {
    const batches = [...this.#batches.values()];
    this.#batches = new Map();
    return batches;
  }

  written(entries: readonly LogEntry[]): void {
    for (const { line } of entries) this.#waitingBytes -= line.length + ENTRY_BYTES;
  }

  /** Waits again with what could not be written. */
  giveBack(batch: LogBatch): void {
    this.#add(batch);
  }

  /** How many lines were dropped since this was asked last. */
  takeDropped(): number {
    const dropped = this.#dropped;
    this.#dropped = 0;
    return dropped;
  }

  #add(batch: LogBatch): void {
    const key = `${batch.account}/${batch.service}/${batch.hour}`;
    const known = this.#batches.get(key);
    if (known === undefined) this.#batches.set(key, batch);
    else for (const entry of batch.entries) known.entries.push(entry);
  }
}

function kindOf(method: string): LogKind {
  switch (method) {
    case "GET":
    case "HEAD":
    case "OPTIONS":
      return "read";
    case "DELETE":
      return "delete";
    default:
      return "write";
  }
}

/** The service logs what strangers were given, and not how they failed. */
function isFailedStranger({ caller, status }: RequestRecord, request: LoggedRequest): boolean {
  if (caller !== "anonymous" || status < 400 || status >= 500) return false;
  return request.header("authorization") === undefined && !/(?:^|&)sig=/i.test(request.query.raw);
}
