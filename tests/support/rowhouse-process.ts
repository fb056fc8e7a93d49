import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { ROWHOUSE } from "./rowhouse-command.ts";
import { runsOverPostgres } from "./test-engine.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** A server in its own process, on free ports. */
export interface RowhouseProcess {
  readonly tableUrl: string;
  readonly queueUrl: string;
  readonly blobUrl: string;
  /** The connection string for official clients, with the development account. */
  readonly connectionString: string;
  readonly pid: number;
  /** Its output, line by line. */
  readonly lines: readonly string[];
  /** The worker processes of `--workers` that still run. */
  workerPids(): number[];
  /** Ends it as an operator would; returns the exit code. */
  stop(): Promise<number | null>;
  /** Ends it and its workers as a power failure would: none of its processes run afterwards. */
  kill(): Promise<void>;
  /** Resolves when none of its processes run any more. */
  readonly ended: Promise<void>;
}

/** With `TEST_ENGINE=postgres` a front end over the database that replaces the folder. */
export async function startRowhouse(
  location: string,
  flags: readonly string[] = [],
): Promise<RowhouseProcess> {
  const placeFlags = flags.includes("--engine") ? [] : await placeFlagsOf(location);
  const hasWorkers = flags.includes("--workers");
  const child = spawn(
    process.execPath,
    [
      ...ROWHOUSE,
      "serve",
      "--tablePort",
      "0",
      "--queuePort",
      "0",
      "--blobPort",
      "0",
      ...placeFlags,
      ...flags,
    ],
    {
      cwd: root,
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, AZURITE_ACCOUNTS: "" },
      // Its own process group, which can be killed as one.
      detached: hasWorkers,
    },
  );
  const exited = new Promise<number | null>((resolve) =>
    child.once("exit", (code) => resolve(code)),
  );
  let hasEnded = false;
  const ended = exited.then(async () => {
    while (hasWorkers && isThere(-child.pid!)) await new Promise((next) => setImmediate(next));
    hasEnded = true;
  });
  const lines: string[] = [];
  const urls = await listeningUrls(child, exited, lines);
  return {
    tableUrl: urls.table,
    queueUrl: urls.queue,
    blobUrl: urls.blob,
    connectionString: `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};TableEndpoint=${urls.table}/devstoreaccount1;QueueEndpoint=${urls.queue}/devstoreaccount1;BlobEndpoint=${urls.blob}/devstoreaccount1`,
    pid: child.pid!,
    lines,
    workerPids: () => workersOf(child.pid!),
    ended,
    stop() {
      child.kill("SIGTERM");
      return exited;
    },
    async kill() {
      if (!hasEnded) process.kill(hasWorkers ? -child.pid! : child.pid!, "SIGKILL");
      await ended;
    },
  };
}

/**
 * Whether the process exists, or, for a negative id, any process of that group. A process that ended exists
 * until it was waited for.
 */
function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function workersOf(pid: number): number[] {
  const children = `/proc/${pid}/task/${pid}/children`;
  // Small Linux images have no ps; other systems have no such file.
  if (existsSync(children)) {
    const pids = readFileSync(children, "utf8").trim().split(" ").map(Number);
    return pids.filter((child) => WORKER.test(commandOf(child)));
  }
  const processes = execFileSync("ps", ["-A", "-o", "pid=,ppid=,args="], { encoding: "utf8" });
  return [...processes.matchAll(/^ *(\d+) +(\d+) (.*)$/gm)].flatMap(([, child, parent, command]) =>
    Number(parent) === pid && WORKER.test(command!) ? [Number(child)] : [],
  );
}

/** The compiler of the sources may run as another child. */
const WORKER = /main\.[jt]s serve /;

/** Empty if the process has ended. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}

async function placeFlagsOf(folder: string): Promise<readonly string[]> {
  if (!runsOverPostgres()) return ["--location", folder];
  const { databaseOfFolder } = await import("./database-engine.ts");
  return ["--engine", (await databaseOfFolder(folder)).url, "--allowUnsafeEngine"];
}

type Urls = Readonly<Record<"table" | "queue" | "blob", string>>;

function listeningUrls(
  child: ChildProcess,
  exited: Promise<number | null>,
  lines: string[],
): Promise<Urls> {
  return new Promise((resolve, reject) => {
    const urls: Record<string, string> = {};
    exited.then((code) =>
      reject(new Error(`The server ended with code ${code} before it listened.`)),
    );
    createInterface({ input: child.stdout! }).on("line", (line) => {
      lines.push(line);
      const found = /(Table|Queue|Blob) service is successfully listening at (\S+)/.exec(line);
      if (!found) return;
      urls[found[1]!.toLowerCase()] = found[2]!;
      const { table, queue, blob } = urls;
      if (table && queue && blob) resolve({ table, queue, blob });
    });
  });
}

/** A folder that is removed after the work, with the database that replaces it. */
export async function withFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-"));
  try {
    return await work(folder);
  } finally {
    if (runsOverPostgres()) {
      const { dropDatabaseOfFolder } = await import("./database-engine.ts");
      await dropDatabaseOfFolder(folder);
    }
    rmSync(folder, { recursive: true, force: true });
  }
}
