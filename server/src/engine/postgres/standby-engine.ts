import { CALL_MS_MAX } from "../engine.ts";
import { configOf, type DatabaseOptions } from "./config.ts";
import { Connector } from "./connector.ts";
import { PostgresEngine } from "./postgres-engine.ts";
import { sessionSettings } from "./session-settings.ts";

export interface StandbyEngineOptions extends DatabaseOptions {
  /** As for the primary. Default true. */
  readonly preparedStatements?: boolean;
  readonly timeoutMs?: number;
}

/**
 * Reads from standbys of the primary, whose transactions are all read-only. It connects when it is first asked: a standby
 * that is away when the primary is opened is no reason not to serve. `syncedAt` says how far behind it is.
 * @throws Error for a cluster, RangeError for a malformed URL.
 */
export function openStandbyEngine(
  primary: PostgresEngine,
  { preparedStatements = true, timeoutMs = CALL_MS_MAX, ...database }: StandbyEngineOptions,
): PostgresEngine {
  const { facts, fence, isSealed } = primary;
  if (facts.dialect === "citus") {
    throw new Error(
      "A standby of a cluster's coordinator sends its reads to the primary workers: leave --readStandby out.",
    );
  }
  const connector = new Connector(configOf(database), {
    preparedStatements,
    settings: sessionSettings(timeoutMs, facts.dialect),
    // It acknowledges nothing, so it may lose nothing that was.
    allowUnsafe: true,
    fence,
    standbys: true,
  });
  return new PostgresEngine({ connector, fence, session: undefined, facts, isSealed, timeoutMs });
}
