import type { PlanClass } from "../query/plan.ts";

/**
 * The format of a recording. Each line is a JSON array:
 *
 *     ["rowhouse-recording", 5]
 *     ["o", client, account, table]         of the lines that follow
 *     ["p", ms, row key, bytes, partition key]
 *     ["q", ms, class, partition key, row key, filter, flags, read, returned, bytes]
 *     ["w", ms, partition key, [[kind, row key, condition], …]]
 *     ["r", ms, client, account, verb, path, status, error code, client's request id]
 *     ["c", client, account, caller, requests, connections, preflights, scripted]   at the end
 *     ["a", user agent, connections]                                                at the end
 *     ["end", ms, whether it was full]
 *
 * "p" is a point query for one whole entity, which existed. A partition key equal to the previous query's is
 * omitted in "p", and 0 in "q". `flags` are 1 for projected, 2 for continued. `ms` is relative to the
 * previous line, in the first line to 1970. A class is an index into `PLAN_CLASSES`, a kind or condition one
 * into the lists below.
 */
export const FORMAT = "rowhouse-recording";
export const VERSION = 5;
/** Version 3 has no "p"; version 4 does not record what is continued. */
export const VERSIONS_READ = [3, 4, VERSION];
export const RECORDING_BYTES_MAX = 64 * 1024 * 1024;
export const KINDS = ["insert", "replace", "merge", "delete"] as const;
export const CONDITIONS = ["none", "any", "exact"] as const;
export const PROJECTED = 1;
export const CONTINUED = 2;

/**
 * An operation, in the order of events. Keys and filters are data: a recording is as confidential as its
 * tables.
 */
export type TrafficEvent = QueryEvent | WriteEvent;

export interface EventBase {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly client: string;
  readonly account: string;
  readonly table: string;
}

export interface QueryEvent extends EventBase {
  readonly kind: "query";
  readonly class: PlanClass;
  /** Of the one partition read. */
  readonly partitionKey: string | undefined;
  /** Of a point query. */
  readonly rowKey: string | undefined;
  readonly filter: string | undefined;
  readonly projected: boolean;
  readonly continued: boolean;
  readonly read: number;
  readonly returned: number;
  readonly bytes: number;
}

export interface WriteEvent extends EventBase {
  readonly kind: "write";
  readonly partitionKey: string;
  readonly mutations: readonly RecordedMutation[];
}

export interface RecordedMutation {
  readonly kind: "insert" | "replace" | "merge" | "delete";
  readonly rowKey: string;
  /** The `If-Match` sent: none, any ("*"), or the ETag that was read. */
  readonly condition: "none" | "any" | "exact";
}

/** A refused request. Its query is left out, because it may contain a signature. */
export interface Refusal {
  /** Time of the answer. */
  readonly at: number;
  readonly client: string;
  readonly account: string;
  readonly verb: string;
  readonly path: string;
  readonly status: number;
  readonly code: string;
  readonly clientRequestId: string | undefined;
}
