import type { Dialect } from "./server-facts.ts";

export type Setting = readonly [name: string, value: string];

/**
 * Of the time of a call: the server ends a statement shortly before its connection is given up, and so
 * says that nothing was committed, where the front end could only call the outcome unknown.
 */
const STATEMENT_SHARE = 0.96;

/**
 * What every connection sets for itself. Behind a pooler in transaction mode it cannot: there the
 * operator gives them to the role, see `rowhouse engine install`. `synchronous_commit` is left as the
 * server has it.
 */
export function sessionSettings(timeoutMs: number, dialect: Dialect | undefined): Setting[] {
  const settings: Setting[] = [
    ["statement_timeout", `${Math.floor(timeoutMs * STATEMENT_SHARE)}`],
    ["lock_timeout", "5000"],
    ["idle_in_transaction_session_timeout", "60000"],
    ["client_min_messages", "warning"],
  ];
  return dialect === "postgres" ? [...settings, ...PLANNER_SETTINGS] : settings;
}

/**
 * Every statement goes by the key, through one index, and its plan is known. The planner would find
 * it too, but anew for each execution where a parameter is an array or a LIMIT (measured: 225 µs
 * instead of 22 µs for two keys of two partitions), and another one where its statistics are old:
 * a partition that was small when it was counted is then read whole.
 *
 * For PostgreSQL itself only: Citus must plan with the values to know the shard.
 */
const PLANNER_SETTINGS: readonly Setting[] = [
  ["plan_cache_mode", "force_generic_plan"],
  ["enable_seqscan", "off"],
  ["enable_bitmapscan", "off"],
  // For two keys of a table that grew and was not counted yet it would start processes to help:
  // 2,300 µs of the server instead of 36.
  ["max_parallel_workers_per_gather", "0"],
  // Compiling a plan costs more than any of ours; only their guessed row counts look expensive.
  ["jit", "off"],
];
