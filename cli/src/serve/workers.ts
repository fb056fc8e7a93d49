import cluster, { type Worker } from "node:cluster";
import type { Logger } from "pino";
import { DealtConnections } from "./dealt-connections.ts";
import { onEndSignal } from "./end-signals.ts";

/** What a worker tells the primary once it serves. */
interface Listening {
  readonly lines: readonly string[];
}

/** Between a worker that was to replace one that died, and died itself, and the next. */
const REPLACE_AGAIN_MS = 1000;

/**
 * Runs the same command in `count` processes that share the ports and the data folder. Connections
 * are dealt out in turn: where workers accept for themselves, one of two took 31 of 32 that came at once.
 * A worker that dies is replaced; what it had acknowledged is on disk. Where one of the first cannot begin to
 * serve, all end, with code 2.
 */
export function runWorkers(count: number, log: Logger, say: (line: string) => void): void {
  cluster.schedulingPolicy = cluster.SCHED_RR;
  let listening = 0;
  let closing = false;
  const fork = (): void => {
    const worker = cluster.fork();
    const dealt = new DealtConnections(worker.process);
    // A worker that died a moment ago can be told nothing; its exit follows.
    worker.on("error", (error) => log.warn({ err: error }, "a worker could not be notified"));
    let hasServed = false;
    worker.once("message", ({ lines }: Listening) => {
      hasServed = true;
      listening++;
      // When the last of the first workers is ready, all of it is.
      if (listening === count) for (const line of lines) say(line);
    });
    worker.once("exit", (code, signal) => {
      dealt.close();
      if (closing) return;
      log.error({ pid: worker.process.pid, code, signal }, "a worker died");
      if (hasServed) return fork();
      // The others serve on, without it if need be.
      if (listening >= count) {
        setTimeout(() => closing || fork(), REPLACE_AGAIN_MS);
        return;
      }
      // What it could not do the next one could not do either.
      closing = true;
      process.exitCode = 2;
      for (const other of workers()) other.process.kill("SIGTERM");
    });
  };
  for (let i = 0; i < count; i++) fork();

  onEndSignal((signal) => {
    closing = true;
    log.info({ signal }, "stopping all workers");
    for (const worker of workers()) worker.process.kill("SIGTERM");
  });
}

export function isWorker(): boolean {
  return cluster.isWorker;
}

/** Tells the primary that this worker serves. */
export function reportListening(lines: readonly string[]): void {
  process.send?.({ lines } satisfies Listening);
}

/** Ends the channel to the primary, which would keep a worker running that has nothing left to do. */
export function disconnectFromPrimary(): void {
  if (cluster.isWorker) process.disconnect?.();
}

function workers(): Worker[] {
  return Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined);
}
