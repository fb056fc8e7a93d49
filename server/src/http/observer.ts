import type { Identity } from "../auth/identity.ts";
import type { RefusalInside, RequestHead, WireRequest, WireResponse } from "../operation.ts";
import type { ServiceName } from "./service.ts";

/** What a request says of who sent it: to be read, not to be kept. */
export interface Sender extends Pick<RequestHead, "header"> {
  /** Whether it is the first of its connection. */
  readonly opensConnection: boolean;
}

/** What logs and metrics are told of every request, once its answer is decided. */
export interface Observer {
  /** Whether it is told of refusals alone: of requests, and of what stands in a batch. */
  readonly refusalsOnly?: boolean;
  finished(record: RequestRecord, sender: Sender): void;
}

/** What is told of the exchange itself as well, which holds bodies: to be read, not to be kept. */
export interface ExchangeObserver {
  /** Whether it is told of such a request: what nobody listens to is not put together. */
  listens(service: ServiceName, account: string, isRefused: boolean): boolean;
  finished(record: RequestRecord, request: WireRequest & Sender, response: WireResponse): void;
}

/** Several as one. */
export function joinObservers(observers: readonly Observer[]): Observer {
  const ofAll = observers.filter(({ refusalsOnly }) => !refusalsOnly);
  const ofRefusals = observers.filter(({ refusalsOnly }) => refusalsOnly);
  return {
    refusalsOnly: ofAll.length === 0,
    finished(record, sender) {
      for (let i = 0; i < ofAll.length; i++) ofAll[i]!.finished(record, sender);
      if (record.errorCode === undefined) return;
      for (let i = 0; i < ofRefusals.length; i++) ofRefusals[i]!.finished(record, sender);
    },
  };
}

export interface RequestRecord {
  readonly service: ServiceName;
  /** The operation's name; "" when the request was refused before it was known. */
  readonly operation: string;
  readonly requestId: string;
  readonly clientRequestId: string | undefined;
  readonly account: string;
  readonly verb: string;
  /** Path as sent, without the query: the query may hold a signature. */
  readonly path: string;
  readonly status: number;
  /** Why it was refused; of a batch, whose status is 202 all the same, why what it asked for was. */
  readonly errorCode: string | undefined;
  /** Of a batch that was refused inside an answer that is well: the operation that was. */
  readonly refusedInside: RefusalInside | undefined;
  /** What went wrong below us, for refusals of 5xx. */
  readonly cause: unknown;
  /** With fractions where there is a stopwatch. */
  readonly durationMs: number;
  readonly remoteAddress: string;
  /** How who asks proved who they are. */
  readonly caller: Identity["kind"];
  /** Whom a token names; of other callers nothing is known. */
  readonly subject: string | undefined;
  /** Of the bodies. */
  readonly requestBytes: number;
  readonly responseBytes: number;
}
