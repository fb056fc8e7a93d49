import type { Dialect } from "./server-facts.ts";

export type Setting = readonly [name: string, value: string];

/**
 * The share of a call's time after which the server ends a statement: shortly before its connection is given up.
 * The server thereby reports that nothing was committed, where the front end could only call the outcome unknown.
 */
const STATEMENT_SHARE = 0.96;

/**
 * The settings that every connection makes for itself. Behind a pooler in transaction mode it cannot: there the
 * operator sets them for the role, see `rowhouse engine install`. `synchronous_commit` is left as the server has it.
 */
export function sessionSettings(timeoutMs: number, dialect: Dialect | undefined): Setting[] {
  const settings: Setting[] = [
    ["statement_timeout", `${Math.floor(timeoutMs * STATEMENT_SHARE)}`],
    ["lock_timeout", "5000"],
    ["idle_in_transaction_session_timeout", "60000"],
    ["client_min_messages", "warning"],
  ];
  return [...settings, ...(dialect === "citus" ? CLUSTER_SETTINGS : PLANNER_SETTINGS)];
}

/**
 * Between a session and each worker Citus keeps this many connections. By default it keeps one, and opens up to fifteen
 * more for a statement over many shards, which takes longer than most of ours.
 */
export const WORKER_CONNECTIONS = 2;
const CLUSTER_SETTINGS: readonly Setting[] = [
  ["citus.max_adaptive_executor_pool_size", `${WORKER_CONNECTIONS}`],
  ["citus.max_cached_conns_per_worker", `${WORKER_CONNECTIONS}`],
];

/**
 * Every statement looks rows up by key, through one index, so its plan is known. The planner would find the
 * same plan, but again for each execution if a parameter is an array or a LIMIT (measured: 225 µs instead of
 * 22 µs for two keys of two partitions), and would choose another one if its statistics are old: it then
 * reads a whole partition that was small when it was counted.
 *
 * For PostgreSQL itself only: Citus must plan with the values to know the shard.
 */
const PLANNER_SETTINGS: readonly Setting[] = [
  ["plan_cache_mode", "force_generic_plan"],
  ["enable_seqscan", "off"],
  ["enable_bitmapscan", "off"],
  // For two keys of a table that has grown since it was last counted it would start parallel workers: 2,300
  // µs of the server instead of 36.
  ["max_parallel_workers_per_gather", "0"],
  // Compiling a plan costs more than any of our plans; only their estimated row counts look expensive.
  ["jit", "off"],
];
