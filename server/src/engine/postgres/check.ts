import { systemClock } from "../../clock.ts";
import { withAdministration } from "./administer.ts";
import { CLOCK_SKEW_MS_MAX, clockAheadMs } from "./clock-skew.ts";
import type { DatabaseOptions } from "./config.ts";
import { durabilityOf } from "./durability.ts";
import { REFERENCE_TABLE } from "./placement.ts";
import { CONNECTIONS_MAX } from "./postgres-engine.ts";
import { queryText } from "./query.ts";
import { FORMAT, readFormat } from "./schema.ts";
import type { ServerFacts } from "./server-facts.ts";
import type { Session } from "./session.ts";
import { textQuery } from "./statements.ts";

/** One check's result. A "problem" keeps Rowhouse from working, or from keeping its promises. */
export interface CheckResult {
  readonly level: "ok" | "warning" | "problem";
  readonly topic: string;
  readonly text: string;
}

/** Synchronized clocks differ by less. */
const CLOCK_SKEW_MS_USUAL = 1_000;
const DEADLOCK_TIMEOUT_MS_MAX = 500;
const CONNECTIONS_MIN = 50;

/** `rowhouse engine check`: everything an operator should know before clients come. */
export function checkPostgres(database: DatabaseOptions): Promise<readonly CheckResult[]> {
  return withAdministration(database, async (session, facts) => [
    ok("server", facts.version),
    await checkTls(session),
    checkDurability(facts),
    await checkFormat(session, facts),
    ...(await checkColumns(session)),
    await checkExtras(session),
    await checkRights(session),
    checkClock(facts),
    ...checkSettings(facts),
    await checkPrepared(session),
    await checkSnapshots(session),
    ...(facts.dialect === "citus" ? await checkCitus(session) : []),
  ]);
}

async function checkTls(session: Session): Promise<CheckResult> {
  const sql = "SELECT ssl::text, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
  const [row] = await queryText(session, textQuery(sql), 2).catch(() => []);
  return row?.[0] === "true"
    ? ok("encryption", `${row[1]}`)
    : ok("encryption", "None. Use TLS for a connection that leaves this machine.");
}

function checkDurability(facts: ServerFacts): CheckResult {
  const { class: durabilityClass, detail } = durabilityOf(facts);
  const text = `Class "${durabilityClass}". ${detail}`;
  return durabilityClass === "none" ? problem("durability", text) : ok("durability", text);
}

async function checkFormat(session: Session, facts: ServerFacts): Promise<CheckResult> {
  let format: number | undefined;
  try {
    format = await readFormat(session, facts.dialect);
  } catch (error) {
    return problem(
      "schema",
      `The table rh_kv cannot be read: ${error instanceof Error ? error.message : error}.`,
    );
  }
  if (format === undefined)
    return problem(
      "schema",
      "The table rh_kv or its format row is missing. Run rowhouse engine install to create them.",
    );
  if (format > FORMAT) {
    const remedy = "Use the release that installed it, or a newer one.";
    return problem(
      "schema",
      `Format ${format}; this release cannot read formats above ${FORMAT}. ${remedy}`,
    );
  }
  return ok("schema", `Format ${format}.`);
}

async function checkColumns(session: Session): Promise<CheckResult[]> {
  const sql =
    "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull::text, a.attstorage::text " +
    "FROM pg_attribute a WHERE a.attrelid = to_regclass('rh_kv') AND a.attnum > 0 AND NOT a.attisdropped " +
    "ORDER BY a.attnum";
  const rows = await queryText(session, textQuery(sql), 4);
  const found = rows.map(
    ([name, type, notNull]) => `${name} ${type}${notNull === "true" ? "" : "?"}`,
  );
  const expected = ["pk bytea", "sk bytea", "ver bigint", "val bytea"];
  if (found.join() !== expected.join()) {
    return [
      problem("columns", `Found ${found.join(", ") || "none"}; expected ${expected.join(", ")}.`),
    ];
  }
  const results = [ok("columns", expected.join(", "))];
  const isPlain = rows.slice(0, 2).every(([, , , storage]) => storage === "p");
  if (!isPlain) {
    results.push(
      warning(
        "columns",
        "pk and sk are not STORAGE PLAIN, so the longest possible key depends on its bytes. Run rowhouse engine install to change that.",
      ),
    );
  }
  results.push(await checkPrimaryKey(session));
  return results;
}

async function checkPrimaryKey(session: Session): Promise<CheckResult> {
  const sql =
    "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = to_regclass('rh_kv') AND indisprimary";
  const [row] = await queryText(session, textQuery(sql), 1);
  const definition = row?.[0] ?? "";
  return definition.endsWith("(pk, sk)")
    ? ok("primary key", "(pk, sk)")
    : problem("primary key", `Found ${definition || "none"}; expected (pk, sk).`);
}

/** Objects added to the table: they slow every write, or fail writes that must not fail. */
async function checkExtras(session: Session): Promise<CheckResult> {
  const sql =
    "SELECT 'trigger ' || tgname FROM pg_trigger WHERE tgrelid = to_regclass('rh_kv') AND NOT tgisinternal " +
    "UNION ALL SELECT 'constraint ' || conname FROM pg_constraint WHERE conrelid = to_regclass('rh_kv') AND contype NOT IN ('p', 'n') " +
    "UNION ALL SELECT 'index ' || c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid " +
    "WHERE i.indrelid = to_regclass('rh_kv') AND NOT i.indisprimary";
  const rows = await queryText(session, textQuery(sql), 1);
  if (rows.length === 0) return ok("additions", "None.");
  const list = rows.map(([name]) => name).join(", ");
  return warning(
    "additions",
    `Not created by Rowhouse: ${list}. They slow down writes, or make them fail.`,
  );
}

async function checkRights(session: Session): Promise<CheckResult> {
  const rights = ["SELECT", "INSERT", "UPDATE", "DELETE"];
  const sql = `SELECT ${rights
    .map((right) => `has_table_privilege(to_regclass('rh_kv'), '${right}')::text`)
    .join(", ")}`;
  const [row = []] = await queryText(session, textQuery(sql), rights.length);
  const missing = rights.filter((_, index) => row[index] !== "true");
  return missing.length === 0
    ? ok("rights", rights.join(", "))
    : problem("rights", `Missing on rh_kv: ${missing.join(", ")}. Grant them to this role.`);
}

function checkClock(facts: ServerFacts): CheckResult {
  const aheadMs = clockAheadMs(facts, systemClock);
  const skewMs = Math.abs(aheadMs);
  const text = `This machine's clock is ${skewMs} ms ${aheadMs < 0 ? "behind" : "ahead of"} the server's.`;
  if (skewMs <= CLOCK_SKEW_MS_USUAL) return ok("clock", text);
  return skewMs > CLOCK_SKEW_MS_MAX
    ? problem(
        "clock",
        `${text} Rowhouse refuses to serve above ${CLOCK_SKEW_MS_MAX} ms: run NTP on both.`,
      )
    : warning("clock", `${text} Messages, leases and ETags depend on the clocks: run NTP on both.`);
}

function checkSettings({ settings }: ServerFacts): CheckResult[] {
  const results: CheckResult[] = [];
  const deadlockMs = milliseconds(settings.deadlock_timeout);
  if (deadlockMs !== undefined && deadlockMs > DEADLOCK_TIMEOUT_MS_MAX) {
    results.push(
      warning(
        "deadlock_timeout",
        `${settings.deadlock_timeout}; with 100ms, commits that deadlock are retried sooner.`,
      ),
    );
  }
  const connections = Number(settings.max_connections ?? CONNECTIONS_MIN);
  results.push(
    connections < CONNECTIONS_MIN
      ? warning(
          "max_connections",
          `${connections}; at least ${CONNECTIONS_MIN} are recommended: each front end opens up to ${CONNECTIONS_MAX}.`,
        )
      : ok("max_connections", `${connections}; each front end opens up to ${CONNECTIONS_MAX}.`),
  );
  const isolation = settings.default_transaction_isolation ?? "unknown";
  results.push(
    isolation === "read committed"
      ? ok("isolation", isolation)
      : ok(
          "isolation",
          `${isolation}; correct, but conflicting commits are retried more often than with read committed.`,
        ),
  );
  return results;
}

/** An abandoned prepared transaction stops vacuum from cleaning and holds its locks for ever. */
async function checkPrepared(session: Session): Promise<CheckResult> {
  const sql =
    "SELECT count(*)::text FROM pg_prepared_xacts WHERE database = current_database() AND prepared < now() - interval '5 minutes'";
  const [row] = await queryText(session, textQuery(sql), 1);
  return row?.[0] === "0"
    ? ok("prepared transactions", "None is older than 5 minutes.")
    : problem(
        "prepared transactions",
        `${row?.[0]} older than 5 minutes hold their locks: commit or roll back those in pg_prepared_xacts.`,
      );
}

/** Whoever holds an old snapshot keeps vacuum from removing what was deleted since, of every queue and table. */
async function checkSnapshots(session: Session): Promise<CheckResult> {
  const sql =
    "SELECT pid::text, usename::text, application_name, (extract(epoch FROM now() - xact_start) / 60)::int::text " +
    "FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND xact_start < now() - interval '5 minutes' " +
    "ORDER BY xact_start LIMIT 3";
  const rows = await queryText(session, textQuery(sql), 4);
  if (rows.length === 0) return ok("snapshots", "None is older than 5 minutes.");
  const list = rows.map(
    ([pid, user, program, minutes]) =>
      `process ${pid} of ${user} (${program || "unnamed"}) for ${minutes} minutes`,
  );
  return warning(
    "snapshots",
    `Held by ${list.join(", ")}. Until they end, deleted rows stay and slow down reading: end what is forgotten with SELECT pg_terminate_backend(pid).`,
  );
}

async function checkCitus(session: Session): Promise<CheckResult[]> {
  const [table] = await queryText(
    session,
    textQuery(
      "SELECT distribution_column, shard_count::text FROM citus_tables WHERE table_name = to_regclass('rh_kv')",
    ),
    2,
  );
  if (table?.[0] !== "pk") {
    return [problem("shards", `Distributed by ${table?.[0] ?? "no column"}; expected pk.`)];
  }
  const placements = await queryText(
    session,
    textQuery(
      "SELECT nodename || ':' || nodeport, count(*)::text FROM pg_dist_shard JOIN pg_dist_shard_placement USING (shardid) " +
        "WHERE logicalrelid = to_regclass('rh_kv') GROUP BY 1 ORDER BY 1",
    ),
    2,
  );
  const list = placements.map(([node, count]) => `${node} holds ${count}`).join(", ");
  const results = [ok("shards", `${table[1]} shards by pk: ${list}.`)];
  const [reference] = await queryText(
    session,
    textQuery(
      `SELECT citus_table_type FROM citus_tables WHERE table_name = to_regclass('${REFERENCE_TABLE}')`,
    ),
    1,
  );
  results.push(
    reference?.[0] === "reference"
      ? ok("names", "Every node holds the names of tables, queues and containers.")
      : problem(
          "names",
          `${REFERENCE_TABLE} is not a reference table: run rowhouse engine install.`,
        ),
  );
  for (const [node, count] of await onWorkers(session, "SHOW max_prepared_transactions")) {
    if (Number(count) > 0) continue;
    const text = `max_prepared_transactions is ${count} on ${node}, so commits across nodes fail: raise it.`;
    results.push(problem("two-phase commit", text));
  }
  // A session's own setting stays on its node.
  for (const [node, timeout] of await onWorkers(session, "SHOW lock_timeout")) {
    if (timeout !== "0") continue;
    const text =
      `None on ${node}, so a write that waits for a row there ends late, and perhaps with an unknown outcome. ` +
      "Run, for the role that serves, ALTER ROLE … SET lock_timeout = '5s' on the coordinator.";
    results.push(warning("lock_timeout", text));
  }
  return results;
}

/** Each worker with its answer. */
function onWorkers(session: Session, sql: string): Promise<(string | undefined)[][]> {
  const asked =
    `SELECT nodename || ':' || nodeport, result FROM run_command_on_workers('${sql}') ` +
    "JOIN pg_dist_node USING (nodename, nodeport)";
  return queryText(session, textQuery(asked), 2);
}

const UNITS_MS = new Map([
  ["ms", 1],
  ["s", 1000],
  ["min", 60_000],
]);

/** The milliseconds of a setting as `SHOW` prints it: "1s", "100ms", "2min". */
function milliseconds(text: string | undefined): number | undefined {
  const [, count, unit = ""] = /^(\d+)(\D+)$/.exec(text ?? "") ?? [];
  const unitMs = UNITS_MS.get(unit);
  return unitMs && Number(count) * unitMs;
}

function ok(topic: string, text: string): CheckResult {
  return { level: "ok", topic, text };
}

function warning(topic: string, text: string): CheckResult {
  return { level: "warning", topic, text };
}

function problem(topic: string, text: string): CheckResult {
  return { level: "problem", topic, text };
}
