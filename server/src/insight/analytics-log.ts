import type { RequestRecord } from "../wire/observer.ts";
import type { WireRequest } from "../wire/operation.ts";
import { type LoggedRequest, type LoggedResponse, printLogLine } from "./log-line.ts";

/** What an account wants logged for a service. Its service properties have this shape. */
export interface LogSettings {
  readonly logging: { readonly read: boolean; readonly write: boolean; readonly delete: boolean };
}

export const LOG_KINDS = ["read", "write", "delete"] as const;
export type LogKind = (typeof LOG_KINDS)[number];

export interface LogEntry {
  readonly line: string;
  readonly kind: LogKind;
  /** Arrival of the request, in milliseconds since 1970. */
  readonly at: number;
}

/** Waiting lines of requests that arrived within one hour. */
export interface LogBatch {
  readonly account: string;
  readonly service: RequestRecord["service"];
  /** Beginning of the hour, in milliseconds since 1970. */
  readonly hour: number;
  readonly entries: LogEntry[];
}

const HOUR_MS = 3_600_000;
/** Memory of one waiting line besides its characters. */
const ENTRY_BYTES = 100;
/** How much may be waiting, including what is being written to blobs. */
const WAITING_BYTES_MAX = 16 << 20;
/** From this size on, waiting lines are written without waiting for the minute to end. */
const FILLED_BYTES = 2 << 20;
/** A longer line would fit no blob. The heads of requests are much shorter. */
const LINE_LENGTH_MAX = 40 << 10;

/**
 * Collects the lines of the analytics log for accounts whose service properties enable it. A request waits
 * only for its line to be built; a background writer takes the lines. Lines for which there is no room are
 * dropped and counted.
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

  /** Whether enough is waiting to be written now. */
  get isFilled(): boolean {
    return this.#waitingBytes >= FILLED_BYTES;
  }

  finished(
    record: RequestRecord,
    { logging }: LogSettings,
    request: LoggedRequest & Pick<WireRequest, "method">,
    response: LoggedResponse,
  ): void {
    const kind = kindOf(request.method);
    if (!logging[kind] || isFailedAnonymous(record, request)) return;
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

  /** Takes the waiting lines. They count as waiting until `written` or `giveBack`. */
  take(): LogBatch[] {
    const batches = [...this.#batches.values()];
    this.#batches = new Map();
    return batches;
  }

  written(entries: readonly LogEntry[]): void {
    for (const { line } of entries) this.#waitingBytes -= line.length + ENTRY_BYTES;
  }

  /** Returns lines that could not be written; they wait again. */
  giveBack(batch: LogBatch): void {
    this.#add(batch);
  }

  /** The number of lines dropped since the last call. */
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

/** For anonymous requests the service logs only successes, and server errors. */
function isFailedAnonymous({ caller, status }: RequestRecord, request: LoggedRequest): boolean {
  if (caller !== "anonymous" || status < 400 || status >= 500) return false;
  return request.header("authorization") === undefined && !/(?:^|&)sig=/i.test(request.query.raw);
}
