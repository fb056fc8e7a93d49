import type { Identity } from "../auth/identity.ts";
import type { WireRequest, WireResponse } from "../operation.ts";

/** What logs and metrics are told of every request, once its answer is decided. */
export interface Observer {
  finished(record: RequestRecord): void;
}

/** What is told of the exchange itself as well, which holds bodies: to be read, not to be kept. */
export interface ExchangeObserver {
  finished(record: RequestRecord, request: WireRequest, response: WireResponse): void;
}

/** Several as one. */
export function joinObservers(observers: readonly Observer[]): Observer {
  if (observers.length === 1) return observers[0]!;
  // Bound once: a property looked up on many kinds of objects is a search each time.
  const finished = observers.map((observer) => observer.finished.bind(observer));
  return {
    finished(record) {
      for (let i = 0; i < finished.length; i++) finished[i]!(record);
    },
  };
}

export interface RequestRecord {
  readonly service: "table" | "queue" | "blob";
  /** The operation's name; "" when the request was refused before it was known. */
  readonly operation: string;
  readonly requestId: string;
  readonly clientRequestId: string | undefined;
  readonly account: string;
  readonly verb: string;
  /** Path as sent, without the query: the query may hold a signature. */
  readonly path: string;
  readonly status: number;
  readonly errorCode: string | undefined;
  /** What went wrong below us, for answers of 5xx. */
  readonly cause: unknown;
  /** With fractions where there is a stopwatch. */
  readonly durationMs: number;
  readonly remoteAddress: string;
  /** How who asks proved who they are. */
  readonly caller: Identity["kind"];
  /** Of the bodies. */
  readonly requestBytes: number;
  readonly responseBytes: number;
}
