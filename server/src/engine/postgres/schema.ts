import { CALL_MS_MAX, EngineError } from "../engine.ts";
import { OWN_ROW_VERSION } from "./get.ts";
import { type Query, query, queryAll, queryText } from "./query.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import { sessionSettings } from "./session-settings.ts";
import { ServerError } from "./sql-state.ts";
import { BEGIN, COMMIT, textQuery } from "./statements.ts";
import { TYPE } from "./wire-writer.ts";

/** Raised when the meaning of stored bytes changes. A newer format than this one is refused. */
export const FORMAT = 1;

/** The key of the format number: a row of the table itself, so that every node of a cluster has it. */
export const FORMAT_ROW = { partition: Buffer.alloc(0), sort: Buffer.from("schema") };

const CITUS_SHARDS = 32;
const INSTALL_TIMEOUT_MS = 60_000;
const INSTALL_ATTEMPTS_MAX = 5;

/*
 * bytea compares bytewise, without a collation. STORAGE PLAIN makes the key limit exact: otherwise it would depend on how well the bytes compress. The fillfactor,
 * and no index on ver or val, keep an update that fits its page out of every index.
 */
const COLUMNS = "pk bytea NOT NULL, sk bytea NOT NULL, ver bigint NOT NULL, val bytea NOT NULL";

export function schemaStatements(dialect: Dialect): readonly string[] {
  const distribute = [
    `SET citus.shard_count = ${CITUS_SHARDS}`,
    "SELECT create_distributed_table('rh_kv', 'pk')",
  ];
  return [
    `CREATE TABLE IF NOT EXISTS rh_kv (${COLUMNS}, PRIMARY KEY (pk, sk))`,
    ...STORAGE,
    ...(dialect === "citus" ? distribute : []),
    "INSERT INTO rh_kv (pk, sk, ver, val) " +
      `VALUES ('', 'schema', ${OWN_ROW_VERSION}, '${FORMAT}') ON CONFLICT (pk, sk) DO NOTHING`,
  ];
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
  const statements = [
    "CREATE ROLE rowhouse LOGIN PASSWORD '…';",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON rh_kv TO rowhouse;",
  ];
  for (const [name, value] of sessionSettings(CALL_MS_MAX, dialect)) {
    statements.push(`ALTER ROLE rowhouse SET ${name} = '${value}';`);
  }
  return statements;
}

/** Rarely built in, and worth little: run outside the transaction, and a refusal is ignored. */
const COMPRESSION = "ALTER TABLE rh_kv ALTER COLUMN val SET COMPRESSION lz4";

/** Another front end is creating the same table: the loser gets one of these errors, then finds the table. */
const RIVAL_INSTALL = new Set(["23505", "42P07", "42710", "40001", "40P01"]);

/** Creates what is missing, in one transaction. Several front ends may do this at the same time. */
export async function installSchema(session: Session, dialect: Dialect): Promise<void> {
  const statements = schemaStatements(dialect);
  for (let attempt = 1; ; attempt++) {
    try {
      await runInTransaction(session, statements);
      break;
    } catch (error) {
      if (attempt >= INSTALL_ATTEMPTS_MAX || !hasState(error, RIVAL_INSTALL)) throw error;
    }
  }
  const compress = [{ statement: textQuery(COMPRESSION) }];
  await queryAll(session, compress, INSTALL_TIMEOUT_MS).catch(() => {});
}

/** The format number of the installed schema; undefined if there is no table or no such row. */
export async function readFormat(session: Session): Promise<number | undefined> {
  const [exists] = await queryText(session, textQuery("SELECT to_regclass('rh_kv')::text"), 1);
  if (exists?.[0] === undefined) return undefined;
  let format: number | undefined;
  const statement = textQuery("SELECT val FROM rh_kv WHERE pk = $1 AND sk = $2", [
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
