/**
 * The meaning of a server's error for a request. After "retry", "check", "forget", "busy", "unavailable" and
 * "standby" nothing has happened. "retry": the engine runs the request again. "check": an assertion of the
 * engine stopped the group. "forget": a prepared statement is not the one we expected. "busy": the client
 * should retry later. "unavailable": the store cannot be reached or used now. "unknown": a write may or may
 * not have happened. "standby": this server does not accept writes. "keyTooLong", "corrupt": as named.
 * "config": the operator must act. "bug": an error of ours.
 */
export type Fault =
  | "retry"
  | "check"
  | "forget"
  | "busy"
  | "unavailable"
  | "unknown"
  | "standby"
  | "keyTooLong"
  | "corrupt"
  | "config"
  | "bug";

/** Source: "PostgreSQL Error Codes"; the mapping is ours. */
const FAULTS: Readonly<Record<string, Fault>> = {
  "40001": "retry", // serialization_failure.
  "40P01": "retry", // deadlock_detected.
  "40003": "unknown", // statement_completion_unknown.

  "23505": "check", // unique_violation: a key that must be absent exists.
  "22012": "check", // division_by_zero: an assertion stops its group with it.

  "26000": "forget", // invalid_sql_statement_name: a pooler gave us another session.
  "42P05": "forget", // duplicate_prepared_statement.
  "0A000": "forget", // "cached plan must not change result type": the table was altered.

  "55P03": "busy", // lock_not_available: lock_timeout passed.
  "57014": "busy", // query_canceled: statement_timeout passed, or the query was canceled.
  "53300": "busy", // too_many_connections.
  "53200": "busy", // out_of_memory.
  "53000": "busy",
  "53400": "busy",
  "53100": "unavailable", // disk_full.

  "57P01": "unknown", // admin_shutdown.
  "57P02": "unknown", // crash_shutdown.
  "57P03": "unavailable", // cannot_connect_now: starting up or recovering.
  "57P05": "unknown", // idle_session_timeout.
  "25P03": "unknown", // idle_in_transaction_session_timeout.
  "25P04": "unknown", // transaction_timeout.
  "25006": "standby", // read_only_sql_transaction.

  "54000": "keyTooLong", // program_limit_exceeded: an index row too long.

  "3D000": "config", // No such database.
  "3F000": "config", // No such schema.
  "42P01": "config", // No such table.
  "42703": "config", // No such column.
  "42501": "config", // Not permitted.
  "28000": "config",
  "28P01": "config", // Wrong password.
  "55000": "config", // object_not_in_prerequisite_state: Citus without max_prepared_transactions.
  "23514": "config", // An operator added constraints to the table.
  "23502": "config",
  "23503": "config",

  "58030": "unavailable", // io_error.
  "58P01": "unavailable",
  "58P02": "unavailable",

  XX001: "corrupt", // data_corrupted.
  XX002: "corrupt", // index_corrupted.
  XX000: "unknown", // internal_error; Citus wraps errors of its workers in it.
};

const FAULTS_BY_CLASS: Readonly<Record<string, Fault>> = {
  // Connection trouble. Citus reports 08006 as an ordinary error when a worker is gone.
  "08": "unknown",
  "57": "unknown",
  "58": "unknown",
  XX: "unknown",
};

export function faultOf(sqlState: string): Fault {
  return FAULTS[sqlState] ?? FAULTS_BY_CLASS[sqlState.slice(0, 2)] ?? "bug";
}

/** An ErrorResponse of the server. */
export class ServerError extends Error {
  readonly sqlState: string;
  /** The server closes the connection after this error. */
  readonly isFatal: boolean;
  /**
   * PostgreSQL itself reported the error, about its own work: it names the routine, which poolers never do. A
   * connection error does not count: it may be about a Citus worker.
   */
  readonly isOfServer: boolean;

  constructor(fields: ReadonlyMap<string, string>) {
    const detail = fields.get("D");
    super((fields.get("M") ?? "Unknown error") + (detail === undefined ? "" : ` (${detail})`));
    this.name = "ServerError";
    this.sqlState = fields.get("C") ?? "XX000";
    const severity = fields.get("V") ?? fields.get("S");
    this.isFatal = severity === "FATAL" || severity === "PANIC";
    this.isOfServer = fields.has("R") && !this.sqlState.startsWith("08");
  }

  /**
   * A node of a cluster could not connect to another, so it sent it nothing: while it was asking one worker only,
   * nothing has happened. The message of the client library is all that tells this from a connection that broke.
   */
  get isOfWorkerAway(): boolean {
    return this.sqlState === "08006" && NEVER_CONNECTED.test(this.message);
  }

  get fault(): Fault {
    return faultOf(this.sqlState);
  }
}

const NEVER_CONNECTED =
  /^connection to the remote node .*(Connection refused|No route to host|Network is unreachable|could not translate host name|the database system is (starting up|shutting down|in recovery mode))/s;

/** The fields of an ErrorResponse or NoticeResponse by their one-letter names. */
export function readFields(bytes: Buffer, start: number, end: number): Map<string, string> {
  const fields = new Map<string, string>();
  for (let at = start; at < end && bytes[at] !== 0; ) {
    const valueEnd = bytes.indexOf(0, at + 1);
    if (valueEnd < 0 || valueEnd >= end) break;
    fields.set(String.fromCharCode(bytes[at]!), bytes.toString("utf8", at + 1, valueEnd));
    at = valueEnd + 1;
  }
  return fields;
}
