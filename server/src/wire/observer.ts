import type { Identity } from "./identity.ts";
import type { RefusalInside, RequestHead, WireRequest, WireResponse } from "./operation.ts";
import type { ServiceName } from "./service-name.ts";

/** The sender's side of a request: valid during the call, not to be retained. */
export interface Sender extends Pick<RequestHead, "header"> {
  /** Whether this is the first request of its connection. */
  readonly opensConnection: boolean;
}

/** Receives every request, once its answer is decided, for logs and metrics. */
export interface Observer {
  /** Whether it receives refusals only: of requests, and of operations inside a batch. */
  readonly refusalsOnly?: boolean;
  finished(record: RequestRecord, sender: Sender): void;
}

/** Also receives the exchange itself, including bodies: valid during the call, not to be retained. */
export interface ExchangeObserver {
  /** Whether it wants such a request: a record that nothing observes is not built. */
  listens(service: ServiceName, account: string, isRefused: boolean): boolean;
  finished(record: RequestRecord, request: WireRequest & Sender, response: WireResponse): void;
}

/** Joins several observers into one. Each says anew for each request whether it receives refusals only. */
export function joinObservers(observers: readonly Observer[]): Observer {
  return {
    get refusalsOnly() {
      for (let i = 0; i < observers.length; i++) if (!observers[i]!.refusalsOnly) return false;
      return true;
    },
    finished(record, sender) {
      const isRefused = record.errorCode !== undefined;
      for (let i = 0; i < observers.length; i++) {
        const each = observers[i]!;
        if (isRefused || !each.refusalsOnly) each.finished(record, sender);
      }
    },
  };
}

export interface RequestRecord {
  readonly service: ServiceName;
  /** The operation's name; "" when the request was refused before its operation was known. */
  readonly operation: string;
  readonly requestId: string;
  readonly clientRequestId: string | undefined;
  readonly account: string;
  readonly verb: string;
  /** Path as sent, without the query, which may hold a signature. */
  readonly path: string;
  readonly status: number;
  /**
   * Why the request was refused; for a batch, whose status is 202 all the same, why an operation inside it
   * was.
   */
  readonly errorCode: string | undefined;
  /** The operation that was refused inside a batch, whose answer is itself a success. */
  readonly refusedInside: RefusalInside | undefined;
  /** The underlying error, for refusals of 5xx. */
  readonly cause: unknown;
  /** With fractions where there is a stopwatch. */
  readonly durationMs: number;
  readonly remoteAddress: string;
  /** How the caller authenticated. */
  readonly caller: Identity["kind"];
  /** The subject of a bearer token; other callers have none. */
  readonly subject: string | undefined;
  /** Body bytes. */
  readonly requestBytes: number;
  readonly responseBytes: number;
}
