import cluster, { type Worker } from "node:cluster";
import { once } from "node:events";
import { isSea } from "node:sea";
import type { Logger } from "pino";
import { DealtConnections } from "./dealt-connections.ts";
import { onSignals } from "./end-signals.ts";
import { PartsExchange } from "./gathered-parts.ts";

/** The message of a worker to the primary once it serves. */
interface Listening {
  readonly lines: readonly string[];
}

export interface WorkersOptions {
  readonly count: number;
  /** Added to the environment of each worker. */
  readonly environment: Readonly<Record<string, string>>;
  /** Called once all of the first workers serve. */
  readonly onListening: (lines: readonly string[]) => void;
  /** Called after the last worker has ended, with what those that closed have left of a subject. */
  readonly onEnded: (lastParts: (subject: string) => readonly unknown[]) => void;
}

/** The pause before the next attempt, after a replacement worker died before it could serve. */
const REPLACE_AGAIN_MS = 1000;

/**
 * Runs the same command in `count` processes that share the ports and the data folder. The primary distributes
 * connections in turn: when workers accept for themselves, one of two took 31 of 32 simultaneous connections.
 * A worker that dies is replaced; its acknowledged writes are on disk. If one of the first workers cannot start
 * serving, all exit, with code 2.
 */
export function runWorkers(
  { count, environment, onListening, onEnded }: WorkersOptions,
  log: Logger,
): void {
  cluster.schedulingPolicy = cluster.SCHED_RR;
  // An executable with Node inside has no script to name: its workers get the arguments alone.
  if (isSea()) {
    const [exec = "serve", ...args] = process.argv.slice(2);
    cluster.setupPrimary({ exec, args });
  }
  let listening = 0;
  let closing = false;
  const exchange = new PartsExchange();
  let running = 0;
  const fork = (): void => {
    const worker = cluster.fork(environment);
    running++;
    // Its last messages have arrived only when the channel is closed as well.
    Promise.all([once(worker, "exit"), once(worker, "disconnect")]).then(() => {
      running--;
      if (closing && running === 0) onEnded((subject) => exchange.lastParts(subject));
    });
    const dealt = new DealtConnections(worker.process);
    // Sending to a worker that has just died fails; its exit event follows.
    worker.on("error", (error) => log.warn({ err: error }, "a worker could not be notified"));
    let hasServed = false;
    worker.on("message", (message) => {
      exchange.receive(worker, message);
      if (!isListening(message)) return;
      hasServed = true;
      listening++;
      // The server is ready when the last of the first workers is.
      if (listening === count) onListening(message.lines);
    });
    worker.once("exit", (code, signal) => {
      dealt.close();
      if (closing) return;
      log.error({ pid: worker.process.pid, code, signal }, "a worker died");
      if (hasServed) return fork();
      // The other workers keep serving, if necessary without this one.
      if (listening >= count) {
        setTimeout(() => closing || fork(), REPLACE_AGAIN_MS);
        return;
      }
      // A replacement would fail for the same reason.
      closing = true;
      process.exitCode = 2;
      for (const other of workers()) other.process.kill("SIGTERM");
    });
  };
  for (let i = 0; i < count; i++) fork();

  onSignals({
    stop(signal) {
      closing = true;
      log.info({ signal }, "stopping all workers");
      for (const worker of workers()) worker.process.kill("SIGTERM");
    },
    reload() {
      for (const worker of workers()) worker.process.kill("SIGHUP");
    },
  });
}

export function isWorker(): boolean {
  return cluster.isWorker;
}

/** Reports to the primary that this worker serves. */
export function reportListening(lines: readonly string[]): void {
  process.send?.({ lines } satisfies Listening);
}

/** Closes the channel to the primary, which would otherwise keep a closed worker running. */
export function disconnectFromPrimary(): void {
  if (cluster.isWorker) process.disconnect?.();
}

function isListening(message: unknown): message is Listening {
  return typeof message === "object" && message !== null && "lines" in message;
}

function workers(): Worker[] {
  return Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined);
}
