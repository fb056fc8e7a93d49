import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import type { ConnectionOptions } from "node:tls";

/** Where the database is and how to log in. */
export interface PostgresConfig {
  /** Tried in turn until one answers that accepts writes. */
  readonly hosts: readonly PostgresHost[];
  readonly database: string;
  readonly user: string;
  /** A function is called for each connection, for secrets that change. */
  readonly password?: string | (() => Promise<string>) | undefined;
  /** If absent, decided for each host, see `tlsFor`. */
  readonly tls?: TlsMode | undefined;
  readonly certificateAuthority?: string | undefined;
  readonly clientCertificate?: { readonly cert: string; readonly key: string } | undefined;
  /** Sent to the server unchanged: `-c name=value …`. */
  readonly options?: string | undefined;
}

export interface PostgresHost {
  /** A name, an address, or the directory of a Unix socket. */
  readonly host: string;
  readonly port: number;
}

/**
 * The protection of the connection. "require" encrypts without checking who answers; "verify-ca" requires a
 * certificate of a known authority; "verify-full" also the right host name.
 */
export type TlsMode = "disable" | "require" | "verify-ca" | "verify-full";

const TLS_MODES: readonly string[] = ["disable", "require", "verify-ca", "verify-full"];
const DEFAULT_PORT = 5432;
const KNOWN_PARAMETERS = new Set([
  "sslmode",
  "sslrootcert",
  "sslcert",
  "sslkey",
  "options",
  "application_name",
  "target_session_attrs",
]);

/** A database, by its URL (see `parsePostgresUrl`) or by the configuration that a URL stands for. */
export interface DatabaseOptions {
  readonly url?: string;
  readonly config?: PostgresConfig;
}

export function configOf({ url, config }: DatabaseOptions): PostgresConfig {
  return config ?? parsePostgresUrl(url ?? "postgres://localhost");
}

/**
 * Parses `postgres://user:password@host1:5432,host2:5432/database?sslmode=verify-full&sslrootcert=file`. The
 * standard URL parser accepts one host only, hence this one. Parameters are libpq's; an unknown one is an
 * error, because ignoring a misspelt `sslmode` would mean connecting in plain text.
 * @throws RangeError for anything malformed, without repeating the password.
 */
export function parsePostgresUrl(url: string): PostgresConfig {
  const match =
    /^postgres(?:ql)?:\/\/(?:([^:@/?]*)(?::([^@/?]*))?@)?([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/.exec(
      url,
    );
  if (!match) {
    throw new RangeError("The engine's URL is not of the form postgres://user@host:port/database.");
  }
  const [, user, password, hosts = "", database = "", query = ""] = match;
  // A password that contains "@", "/" or "?" ends too early, and the rest of it must not be reported as a host.
  if ((hosts + database).includes("@")) throw notEncoded();
  const parameters = new URLSearchParams(query);
  for (const name of parameters.keys()) {
    if (KNOWN_PARAMETERS.has(name)) continue;
    // Nor as a parameter: an "@" behind it suggests that a host may follow.
    if (query.includes("@")) throw notEncoded();
    throw new RangeError(
      `Unknown parameter "${name}" in the engine's URL; allowed are ${[...KNOWN_PARAMETERS].join(", ")}.`,
    );
  }
  const target = parameters.get("target_session_attrs") ?? "read-write";
  if (target !== "read-write" && target !== "primary") {
    throw new RangeError(
      `target_session_attrs=${target} is not allowed: Rowhouse writes, so it must be read-write or primary.`,
    );
  }
  const decodedUser = decode(user ?? "") || "postgres";
  return {
    hosts: (hosts || "localhost").split(",").map(parseHost),
    database: decode(database) || decodedUser,
    user: decodedUser,
    password: password === undefined ? undefined : decode(password),
    tls: parseTlsMode(parameters.get("sslmode")),
    certificateAuthority: readParameterFile(parameters, "sslrootcert"),
    clientCertificate: readClientCertificate(parameters),
    options: parameters.get("options") ?? undefined,
  };
}

/** The configuration without its secrets, for logs and errors. */
export function describeConfig({ hosts, user, database }: PostgresConfig): string {
  const list = hosts.map(({ host, port }) => `${host}:${port}`).join(",");
  return `postgres://${user}@${list}/${database}`;
}

/** Beyond this machine the default is full verification, the only mode that stops an impostor. */
export function tlsFor(config: PostgresConfig, { host }: PostgresHost): false | ConnectionOptions {
  const mode = config.tls ?? (isLoopback(host) ? "disable" : "verify-full");
  if (mode === "disable" || host.startsWith("/")) return false;
  return {
    rejectUnauthorized: mode !== "require",
    ...(config.certificateAuthority !== undefined && { ca: config.certificateAuthority }),
    ...config.clientCertificate,
    // "verify-ca" accepts any name: certificates of some clusters name the cluster, not the host.
    ...(mode === "verify-ca" && { checkServerIdentity: () => undefined }),
  };
}

function isLoopback(host: string): boolean {
  if (host.startsWith("/") || host === "localhost" || host === "::1") return true;
  return isIP(host) === 4 && host.startsWith("127.");
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw notEncoded();
  }
}

function notEncoded(): RangeError {
  return new RangeError(
    'The engine\'s URL cannot be parsed: in a user, password or database, write "%", "@", "/" and "?" as %25, %40, %2F and %3F.',
  );
}

function parseHost(text: string): PostgresHost {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]*))(?::(\d{1,5}))?$/.exec(decode(text));
  const host = match?.[1] ?? match?.[2] ?? "";
  const port = match?.[3] === undefined ? DEFAULT_PORT : Number(match[3]);
  if (host === "" || port === 0 || port > 65_535) {
    throw new RangeError(`"${text}" in the engine's URL is not a host with an optional port.`);
  }
  return { host, port };
}

function parseTlsMode(text: string | null): TlsMode | undefined {
  if (text === null) return undefined;
  if (isTlsMode(text)) return text;
  throw new RangeError(
    `sslmode=${text} is not allowed; allowed are ${TLS_MODES.join(", ")}, and no mode that may fall back to plain text.`,
  );
}

function isTlsMode(text: string): text is TlsMode {
  return TLS_MODES.includes(text);
}

function readClientCertificate(parameters: URLSearchParams) {
  const cert = readParameterFile(parameters, "sslcert");
  const key = readParameterFile(parameters, "sslkey");
  if ((cert === undefined) !== (key === undefined)) {
    throw new RangeError("sslcert and sslkey must be given together.");
  }
  return cert !== undefined && key !== undefined ? { cert, key } : undefined;
}

function readParameterFile(parameters: URLSearchParams, name: string): string | undefined {
  const path = parameters.get(name);
  return path === null ? undefined : readFileSync(path, "utf8");
}
