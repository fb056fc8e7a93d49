import { CALL_MS_MAX, EngineError, READ_BY_ALL } from "../engine.ts";
import { OWN_ROW_VERSION } from "./get.ts";
import { REFERENCE_TABLE } from "./placement.ts";
import { type Query, query, queryAll, queryText } from "./query.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import { sessionSettings } from "./session-settings.ts";
import { ServerError } from "./sql-state.ts";
import { BEGIN, COMMIT, textQuery } from "./statements.ts";
import { TYPE } from "./wire-writer.ts";

/** Raised when the meaning of stored bytes changes. A newer format than this one is refused. */
export const FORMAT = 2;
/** Whose values have no checksums. A schema keeps the format it was installed with. */
export const UNSEALED_FORMAT = 1;

/** The key of the format number: a row of the table itself, so that every node of a cluster has it. */
export const FORMAT_ROW = { partition: Buffer.alloc(0), sort: Buffer.from("schema") };

const CITUS_SHARDS = 32;
const INSTALL_TIMEOUT_MS = 60_000;
const INSTALL_ATTEMPTS_MAX = 5;

/*
 * bytea compares bytewise, without a collation. STORAGE PLAIN makes the key limit exact: otherwise it would depend
 * on how well the bytes compress. The fillfactor, and no index on ver or val, keep an update that fits its page out
 * of every index.
 */
export const COLUMNS =
  "pk bytea NOT NULL, sk bytea NOT NULL, ver bigint NOT NULL, val bytea NOT NULL, PRIMARY KEY (pk, sk)";

/** DDL in the order in which to run it, as often as wanted. */
export function schemaStatements(dialect: Dialect, format = FORMAT): readonly string[] {
  const formatRow = (table: string) =>
    `INSERT INTO ${table} (pk, sk, ver, val) ` +
    `VALUES ('', 'schema', ${OWN_ROW_VERSION}, '${format}') ON CONFLICT (pk, sk) DO NOTHING`;
  const create = `CREATE TABLE IF NOT EXISTS rh_kv (${COLUMNS})`;
  if (dialect === "postgres") return [create, ...storageOf("rh_kv"), formatRow("rh_kv")];
  // Rows that are there already were stored when this database was one server, or its rows were all in one table.
  return [
    create,
    `CREATE TABLE IF NOT EXISTS ${REFERENCE_TABLE} (${COLUMNS})`,
    // Otherwise Citus would not create two tables in one transaction.
    "SET LOCAL citus.multi_shard_modify_mode = 'sequential'",
    onlyOnce(REFERENCE_TABLE, `create_reference_table('${REFERENCE_TABLE}')`),
    onlyOnce("rh_kv", `create_distributed_table('rh_kv', 'pk', shard_count := ${CITUS_SHARDS})`),
    // With the format of those rows, which new ones then have too.
    `INSERT INTO ${REFERENCE_TABLE} SELECT * FROM rh_kv WHERE ${IS_READ_BY_ALL} OR (pk = '' AND sk = 'schema') ON CONFLICT DO NOTHING`,
    `DELETE FROM rh_kv WHERE ${IS_READ_BY_ALL}`,
    formatRow(REFERENCE_TABLE),
  ];
}

/** A look-up by ranges of the index: on a large table, a condition on the first byte would read every row. */
const IS_READ_BY_ALL = [...READ_BY_ALL]
  .map((byte = 0) => `(pk >= '\\x${hex(byte)}' AND pk < '\\x${hex(byte + 1)}')`)
  .join(" OR ");

function hex(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}

/** Citus refuses to distribute a table twice, and to change the storage of one that is distributed. */
function onlyOnce(table: string, distribute: string): string {
  const steps = [...storageOf(table), `PERFORM ${distribute}`].join("; ");
  return `DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = '${table}'::regclass) THEN ${steps}; END IF; END $$`;
}

function storageOf(table: string): string[] {
  return STORAGE.map((sql) => sql.replace("rh_kv", table));
}

const STORAGE: readonly string[] = [
  "ALTER TABLE rh_kv SET (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1)",
  "ALTER TABLE rh_kv ALTER COLUMN pk SET STORAGE PLAIN, ALTER COLUMN sk SET STORAGE PLAIN",
];

/**
 * A role with no more rights than Rowhouse needs. The settings serve connections behind a pooler, which
 * cannot set them themselves.
 */
export function roleStatements(dialect: Dialect): readonly string[] {
  const tables = dialect === "citus" ? `rh_kv, ${REFERENCE_TABLE}` : "rh_kv";
  const statements = [
    "CREATE ROLE rowhouse LOGIN PASSWORD '…';",
    `GRANT SELECT, INSERT, UPDATE, DELETE ON ${tables} TO rowhouse;`,
  ];
  for (const [name, value] of sessionSettings(CALL_MS_MAX, dialect)) {
    statements.push(`ALTER ROLE rowhouse SET ${name} = '${value}';`);
  }
  return statements;
}

/** Rarely built in, and worth little: run outside the transaction, and a refusal is ignored. Citus has no such statement. */
const COMPRESSION = "ALTER TABLE rh_kv ALTER COLUMN val SET COMPRESSION lz4";

/** Another front end is creating the same table: the loser gets one of these errors, then finds the table. */
const RIVAL_INSTALL = new Set(["23505", "42P07", "42710", "40001", "40P01"]);
/** Front ends that start together install one after the other; any number that nothing else in the database uses. */
const ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(7236276)";

/** Creates what is missing, in one transaction. Several front ends may do this at the same time. */
export async function installSchema(
  session: Session,
  dialect: Dialect,
  format = FORMAT,
): Promise<void> {
  if (dialect === "citus") await assertClusterReady(session);
  const statements = schemaStatements(dialect, format);
  for (let attempt = 1; ; attempt++) {
    try {
      await runInTransaction(session, [ONE_AT_A_TIME, ...statements]);
      break;
    } catch (error) {
      if (attempt >= INSTALL_ATTEMPTS_MAX || !hasState(error, RIVAL_INSTALL)) throw error;
    }
  }
  if (dialect === "citus") return;
  const compress = [{ statement: textQuery(COMPRESSION) }];
  await queryAll(session, compress, INSTALL_TIMEOUT_MS).catch(() => {});
}

/** @throws EngineError which says what the operator has to do before the tables can be created. */
async function assertClusterReady(session: Session): Promise<void> {
  const sql =
    "SELECT citus_is_coordinator()::text, " +
    "(SELECT count(*)::text FROM pg_dist_node WHERE shouldhaveshards AND isactive), " +
    "(SELECT count(*)::text FROM pg_dist_node WHERE groupid = 0)";
  const [[isCoordinator, workers, self] = []] = await queryText(session, textQuery(sql), 3);
  // One that knows no node yet does not call itself the coordinator either.
  const remedy =
    self === "0"
      ? "The coordinator does not know its own address: run SELECT citus_set_coordinator_host('its host name', 5432) on it."
      : isCoordinator !== "true"
        ? "This node of the cluster is a worker: run `rowhouse engine install` with the coordinator's address."
        : workers === "0"
          ? "The cluster has no worker yet: run SELECT citus_add_node('its host name', 5432) on the coordinator for each."
          : undefined;
  if (remedy !== undefined) throw new EngineError("Unavailable", remedy);
}

/** The format number of the installed schema; undefined if there is no table or no such row. */
export async function readFormat(session: Session, dialect: Dialect): Promise<number | undefined> {
  // On a cluster, every node has it: a front end can start whichever worker is away.
  const table = dialect === "citus" ? REFERENCE_TABLE : "rh_kv";
  const [exists] = await queryText(session, textQuery(`SELECT to_regclass('${table}')::text`), 1);
  if (exists?.[0] === undefined) return undefined;
  let format: number | undefined;
  const statement = textQuery(`SELECT val FROM ${table} WHERE pk = $1 AND sk = $2`, [
    TYPE.bytea,
    TYPE.bytea,
  ]);
  await query(session, statement, [FORMAT_ROW.partition, FORMAT_ROW.sort], (row) => {
    format = Number(row.bytes().toString("latin1"));
  });
  return format;
}

/** @throws EngineError for a format that a newer release installed. */
export function assertKnown(format: number): void {
  if (format <= FORMAT) return;
  throw new EngineError(
    "Unavailable",
    `The table rh_kv has format ${format}; this release cannot read formats above ${FORMAT}. ` +
      "Use the release that installed it, or a newer one.",
  );
}

function runInTransaction(session: Session, statements: readonly string[]): Promise<void> {
  const queries: Query[] = statements.map((sql) => ({ statement: textQuery(sql) }));
  return queryAll(
    session,
    [{ statement: BEGIN }, ...queries, { statement: COMMIT }],
    INSTALL_TIMEOUT_MS,
  );
}

function hasState(error: unknown, states: ReadonlySet<string>): boolean {
  return error instanceof ServerError && states.has(error.sqlState);
}
