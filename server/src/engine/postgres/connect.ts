import pg from "pg";
import { type BackendKey, requestCancel } from "./cancel.ts";
import { type PostgresConfig, type PostgresHost, tlsFor } from "./config.ts";
import type { Lineage } from "./fence.ts";
import { LentReads } from "./lent-reads.ts";
import { REFERENCE_TABLE } from "./placement.ts";
import { query } from "./query.ts";
import { Session, type SessionControl } from "./session.ts";
import type { Setting } from "./session-settings.ts";
import { ServerError } from "./sql-state.ts";
import { GREETING, LINEAGE, LOCAL_COPY, SET_SESSION } from "./statements.ts";

const CONNECT_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_DELAY_MS = 10_000;

/** Every byte once, and a number that needs more than 32 bits: the greeting sends and expects them. */
const EVERY_BYTE = Buffer.from(Uint8Array.from({ length: 256 }, (_, index) => index));
const LARGE_NUMBER = 2 ** 52 + 1_234_567;

export interface ConnectOptions {
  /** False for a pooler that gives each transaction another session: no names, no settings. */
  readonly preparedStatements: boolean;
  readonly settings: readonly Setting[];
}

export interface Greeting {
  /** The server is a standby. */
  readonly isReadOnly: boolean;
  /** A crash of the server may lose writes that it acknowledged. */
  readonly isUnsafe: boolean;
  /** Undefined if the server does not tell. */
  readonly lineage: Lineage | undefined;
}

interface Connected {
  readonly session: Session;
  readonly greeting: Greeting;
}

/**
 * Opens a connection. `pg` does what is the same for every client: the socket, TLS, authentication. Then the
 * session takes over the socket and speaks the extended query protocol itself, because `pg` reads every field
 * as UTF-8 text (its `binary` option corrupts bytes silently), sends a Sync with each statement, and spends
 * more processor time on a point read than the rest of the engine.
 *
 * @param signal gives the attempt up, whatever it waits for
 * @throws ServerError if the server refuses us, Error if it cannot be reached.
 */
export async function connect(
  config: PostgresConfig,
  host: PostgresHost,
  options: ConnectOptions,
  signal?: AbortSignal,
): Promise<Connected> {
  signal?.throwIfAborted();
  const ssl = tlsFor(config, host);
  const reads = ssl === false ? new LentReads() : undefined;
  const client = new pg.Client({
    host: host.host,
    port: host.port,
    user: config.user,
    database: config.database,
    // Never undefined: `pg` would then look for a password in the environment and the home directory.
    password: config.password ?? "",
    ssl,
    ...(reads && { stream: () => reads.socket }),
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: "rowhouse",
    ...(config.options !== undefined && { options: config.options }),
  });
  // The stream is read late: it is another one once TLS has begun.
  const giveUp = () => client.connection.stream.destroy();
  signal?.addEventListener("abort", giveUp);
  try {
    return await logIn(client, { config, host, options, reads });
  } finally {
    signal?.removeEventListener("abort", giveUp);
  }
}

interface LogIn {
  readonly config: PostgresConfig;
  readonly host: PostgresHost;
  readonly options: ConnectOptions;
  /** Absent where the connection is encrypted. */
  readonly reads: LentReads | undefined;
}

async function logIn(
  client: pg.Client,
  { config, host, options, reads }: LogIn,
): Promise<Connected> {
  let reportLoss: (error: Error) => void = () => {};
  client.on("error", (error) => reportLoss(error));
  client.on("end", () => reportLoss(new Error("The server closed the connection.")));
  const control = controlOf(client, config, host);
  try {
    await client.connect();
  } catch (error) {
    client.connection.stream.destroy();
    throw asServerError(error);
  }

  const begin = async (resultFormat: 0 | 1): Promise<Connected> => {
    const { stream } = client.connection;
    const session = new Session(stream, control, { ...options, resultFormat });
    stream.removeAllListeners("data");
    const receive = (chunk: Buffer) => session.receive(chunk);
    // Also what the stream still holds of the log-in.
    stream.on("data", receive);
    reads?.takeBy(receive);
    reportLoss = (error) => session.destroy(error);
    return { session, greeting: await greet(session, options) };
  };
  try {
    return await begin(1).catch((error: unknown) => {
      if (!(error instanceof MangledBytes)) throw error;
      warnOnce(`${error.message} They travel as text, twice as long.`);
      return begin(0);
    });
  } catch (error) {
    // The server may keep a connection whose first statement it refused, and nothing else knows of it.
    control.end();
    throw error;
  }
}

/** Call it before `client` connects: only then does the server send the key to its process. */
function controlOf(client: pg.Client, config: PostgresConfig, host: PostgresHost): SessionControl {
  let backendKey: BackendKey | undefined;
  client.connection.once("backendKeyData", (key: BackendKey) => {
    backendKey = key;
  });
  return {
    get processId() {
      return backendKey?.processID;
    },
    end() {
      const { stream } = client.connection;
      // Not left to the server: one that hangs would never close its side, and keep this process alive.
      stream.once("finish", () => stream.destroy());
      client.end().catch(() => {});
    },
    cancel() {
      if (backendKey) requestCancel(config, host, backendKey);
    },
  };
}

/** While it connects, `pg` reports an Error of its own class with the fields of the message. */
function asServerError(error: unknown): unknown {
  if (!(error instanceof Error) || !("code" in error) || !("severity" in error)) return error;
  const fields = new Map([
    ["M", error.message],
    ["C", String(error.code)],
    ["S", String(error.severity)],
  ]);
  return new ServerError(fields);
}

/** Settings first, so that they apply whatever the greeting finds; both in one round trip. */
async function greet(session: Session, options: ConnectOptions): Promise<Greeting> {
  if (options.preparedStatements) applySettings(session, options.settings);
  const answered = { isReadOnly: false, isUnsafe: false, isIntact: false };
  const greeted = query(session, GREETING, [EVERY_BYTE, LARGE_NUMBER], (row) => {
    answered.isReadOnly = row.text() === "on";
    const [fsync, synchronousCommit] = [row.text(), row.text()];
    answered.isUnsafe = fsync === "off" || synchronousCommit === "off";
    const bytes = row.bytes();
    answered.isIntact = bytes.equals(EVERY_BYTE) && row.int8() === LARGE_NUMBER;
  });
  const [lineage] = await Promise.all([readLineage(session), greeted]);
  if (!answered.isIntact) throw new MangledBytes();
  if (lineage?.isClusterNode) await findCopyOfNames(session);
  return { ...answered, lineage };
}

async function readLineage(session: Session): Promise<Lineage | undefined> {
  let lineage: Lineage | undefined;
  const reading = query(session, LINEAGE, [], (row) => {
    const systemId = row.text();
    const timeline = row.int8();
    if (systemId !== undefined) lineage = { systemId, timeline, isClusterNode: row.int8() > 0 };
  });
  // A service that hides its files from its users hides these numbers too.
  await reading.catch(() => {});
  return lineage;
}

/**
 * Citus plans and parses a read of names anew each time, though its node has them all: 0.15 ms, of the 0.3 that a read of
 * an entity takes. The copy is a table like any other.
 */
export async function findCopyOfNames(session: Session): Promise<void> {
  const finding = query(session, LOCAL_COPY, [REFERENCE_TABLE], (row) => {
    session.copyOfNames = row.text();
  });
  // Whoever may not see what Citus keeps still reads the names through it.
  await finding.catch(() => {});
}

/** Sends settings ahead of the next exchange. One that the server does not know is ignored. */
export function applySettings(session: Session, settings: readonly Setting[]): void {
  for (const [name, value] of settings) {
    query(session, SET_SESSION, [name, value]).catch(() => {});
  }
}

let hasWarned = false;
/** On standard error, since it concerns the operator and no request. */
function warnOnce(text: string): void {
  if (!hasWarned) process.emitWarning(text, "PostgresWarning");
  hasWarned = true;
}

class MangledBytes extends Error {
  constructor() {
    super("Bytes come back from the database other than they were sent.");
  }
}
