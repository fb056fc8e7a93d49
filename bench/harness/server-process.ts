import type { ChildProcess, StdioOptions } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import type { ServiceName, Target } from "../load/request-writer.ts";
import { type Cores, spawnNode } from "./cores.ts";
import { isReady } from "./exchange.ts";
import type { RunningServer } from "./http-contender.ts";
import { family } from "./process-figures.ts";

/** The account that every emulator of the service accepts. */
const ACCOUNT = "devstoreaccount1";
const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

export interface ServerOptions {
  /** The service that the port serves. */
  readonly service: ServiceName;
  /** Arguments of Node, for the chosen port. */
  readonly args: (port: number) => readonly string[];
  readonly cores: Cores;
  /** The executable of Node; default: the one that runs this. */
  readonly node?: string | undefined;
  /** The server's whole output; shown if it does not start. */
  readonly logFile: string;
}

/** A server in its own process. */
export class ServerProcess implements RunningServer {
  readonly pid: number;
  readonly target: Target;
  /** From the start of the process to the first correct answer. */
  readonly startMs: number;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, pid: number, target: Target, startMs: number) {
    this.#child = child;
    this.pid = pid;
    this.target = target;
    this.startMs = startMs;
  }

  static async start(options: ServerOptions): Promise<ServerProcess> {
    const port = await freePort();
    const { cores, node, service } = options;
    const target: Target = { service, host: "127.0.0.1", port, account: ACCOUNT, keyBase64: KEY };
    const log = openSync(options.logFile, "a");
    const startedAt = performance.now();
    const stdio: StdioOptions = ["ignore", log, log];
    const child = spawnNode(cores, options.args(port), { stdio }, node);
    closeSync(log);
    while (!(await isReady(target))) {
      if (child.exitCode !== null || performance.now() - startedAt > START_MS_MAX) {
        child.kill("SIGKILL");
        throw new Error(`A server did not start:\n${readFileSync(options.logFile, "utf8")}`);
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    if (child.pid === undefined) throw new Error("A server that was never started answers.");
    return new ServerProcess(child, child.pid, target, performance.now() - startedAt);
  }

  pause(): void {
    this.#signalAll("SIGSTOP");
  }

  resume(): void {
    this.#signalAll("SIGCONT");
  }

  async stop(): Promise<void> {
    if (this.#hasEnded()) return;
    const exited = once(this.#child, "exit");
    this.resume();
    this.#child.kill("SIGTERM");
    const impatience = setTimeout(() => this.#child.kill("SIGKILL"), STOP_MS_MAX);
    await exited;
    clearTimeout(impatience);
  }

  #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Includes workers, which are processes that the server started. */
  #signalAll(signal: NodeJS.Signals): void {
    if (this.#hasEnded()) return;
    for (const pid of family(this.pid)) process.kill(pid, signal);
  }
}

const POLL_MS = 5;
const START_MS_MAX = 60_000;
const STOP_MS_MAX = 20_000;

/** Free a moment ago; no other program is expected to use it before the server does. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("No port is free.");
  return address.port;
}
