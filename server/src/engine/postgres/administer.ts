import { configOf, type DatabaseOptions, describeConfig } from "./config.ts";
import { applySettings } from "./connect.ts";
import { Connector } from "./connector.ts";
import { toEngineError } from "./outcome.ts";
import {
  assertKnown,
  installSchema,
  readFormat,
  roleStatements,
  schemaStatements,
} from "./schema.ts";
import { readServerFacts, type ServerFacts } from "./server-facts.ts";
import type { Session } from "./session.ts";
import { sessionSettings } from "./session-settings.ts";

const TIMEOUT_MS = 60_000;

/** Runs `work` over one connection with the settings of the engine's connections. */
export async function withAdministration<T>(
  database: DatabaseOptions,
  work: (session: Session, facts: ServerFacts) => Promise<T>,
): Promise<T> {
  const config = configOf(database);
  let session: Session | undefined;
  try {
    const options = { preparedStatements: true, settings: [], allowUnsafe: true };
    session = await new Connector(config, options).connect();
    const facts = await readServerFacts(session);
    applySettings(session, sessionSettings(TIMEOUT_MS, facts.dialect));
    return await work(session, facts);
  } catch (error) {
    throw toEngineError(error);
  } finally {
    session?.close();
  }
}

export interface InstallReport {
  readonly database: string;
  readonly server: string;
  /** The statements for this server, ready to be run by hand. */
  readonly sql: readonly string[];
  /** The statements that give a role exactly the rights Rowhouse needs, to be run by the table's owner. */
  readonly roleSql: readonly string[];
  /** The format that is installed now; undefined if the table is missing. */
  readonly format: number | undefined;
}

/** `rowhouse engine install`: with `apply` creates what is missing, otherwise only reports how. */
export function installPostgres(
  options: DatabaseOptions & { readonly apply: boolean },
): Promise<InstallReport> {
  return withAdministration(options, async (session, facts) => {
    if (options.apply) {
      assertKnown((await readFormat(session, facts.dialect)) ?? 0);
      await installSchema(session, facts.dialect);
    }
    return {
      database: describeConfig(configOf(options)),
      server: facts.version,
      sql: schemaStatements(facts.dialect).map((sql) => `${sql};`),
      roleSql: roleStatements(facts.dialect),
      format: await readFormat(session, facts.dialect),
    };
  });
}
