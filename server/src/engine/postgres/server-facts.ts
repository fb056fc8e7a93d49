import { queryText } from "./query.ts";
import type { Session } from "./session.ts";
import { textQuery } from "./statements.ts";

/**
 * Whether one PostgreSQL answers or a cluster of them. The schema, some statements and what an error proves
 * differ.
 */
export type Dialect = "postgres" | "citus";

/** What a server reports about itself. Settings that it does not know are undefined. */
export interface ServerFacts {
  readonly dialect: Dialect;
  readonly version: string;
  readonly settings: Readonly<Partial<Record<SettingName, string | undefined>>>;
  /** The server's clock, in microseconds since 1970. */
  readonly clockMicroseconds: number;
  /** If true, a crash of the server empties the table. */
  readonly isTableUnlogged: boolean;
}

const SETTING_NAMES = [
  "fsync",
  "full_page_writes",
  "synchronous_commit",
  "synchronous_standby_names",
  "default_transaction_isolation",
  "max_connections",
  "deadlock_timeout",
] as const;

export type SettingName = (typeof SETTING_NAMES)[number];

const FACTS = textQuery(
  "SELECT version(), (SELECT extversion::text FROM pg_extension WHERE extname = 'citus'), " +
    "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text, " +
    "(SELECT relpersistence::text FROM pg_class WHERE oid = to_regclass('rh_kv')), " +
    SETTING_NAMES.map((name) => `current_setting('${name}', true)`).join(", "),
);

export async function readServerFacts(session: Session): Promise<ServerFacts> {
  const [row = []] = await queryText(session, FACTS, 4 + SETTING_NAMES.length);
  const [version = "", citusVersion, clock, persistence, ...values] = row;
  const settings: Partial<Record<SettingName, string | undefined>> = {};
  for (const [index, name] of SETTING_NAMES.entries()) settings[name] = values[index];
  return {
    dialect: citusVersion === undefined ? "postgres" : "citus",
    version: citusVersion === undefined ? version : `${version}, Citus ${citusVersion}`,
    settings,
    clockMicroseconds: Number(clock ?? 0),
    isTableUnlogged: persistence === "u",
  };
}
