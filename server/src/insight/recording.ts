import type { PlanClass } from "../query/plan.ts";

/**
 * How a recording is written. Each line is a JSON array:
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
 * "p" is a point query for all of one entity, which was there. The partition key of the query before is left out
 * there, and 0 in "q"; `flags` are 1 for projected, 2 for continued. `ms` is counted from the line before, the
 * first from 1970. A class is its place in `PLAN_CLASSES`, a kind and a condition theirs below.
 */
export const FORMAT = "rowhouse-recording";
export const VERSION = 5;
/** Recordings of version 3 have no "p", those of 4 do not tell what is continued. */
export const VERSIONS_READ = [3, 4, VERSION];
export const RECORDING_BYTES_MAX = 64 * 1024 * 1024;
export const KINDS = ["insert", "replace", "merge", "delete"] as const;
export const CONDITIONS = ["none", "any", "exact"] as const;
export const PROJECTED = 1;
export const CONTINUED = 2;

/** What happened, in order. Keys and filters are data: a recording is as confidential as its tables. */
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
  /** Which `If-Match`: none, any ("*"), or the ETag of what was read. */
  readonly condition: "none" | "any" | "exact";
}

/** A request that was refused. Its query is left out: it may hold a signature. */
export interface Refusal {
  /** When it was answered. */
  readonly at: number;
  readonly client: string;
  readonly account: string;
  readonly verb: string;
  readonly path: string;
  readonly status: number;
  readonly code: string;
  readonly clientRequestId: string | undefined;
}
