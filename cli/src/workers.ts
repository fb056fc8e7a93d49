import cluster, { type Worker } from "node:cluster";
import type { Logger } from "pino";

/** What a worker tells the primary once it serves. */
interface Listening {
  readonly lines: readonly string[];
}

/**
 * Runs the same command in `count` processes that share the ports and the data folder. A worker that
 * dies is replaced; what it had acknowledged is on disk. Where one cannot begin to serve, all end, with
 * code 2.
 */
export function runWorkers(count: number, log: Logger, say: (line: string) => void): void {
  // Each accepts for itself. Where the primary deals connections out, one that was dealt to a worker that
  // is dying stays open and is never answered, or the primary dies of the broken channel.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
  let listening = 0;
  let closing = false;
  const fork = (): void => {
    const worker = cluster.fork();
    let hasServed = false;
    worker.once("message", ({ lines }: Listening) => {
      hasServed = true;
      listening++;
      // When the last of the first workers is ready, all of it is.
      if (listening === count) for (const line of lines) say(line);
    });
    worker.once("exit", (code, signal) => {
      if (closing) return;
      log.error({ pid: worker.process.pid, code, signal }, "a worker died");
      if (hasServed) return fork();
      // What it could not do the next one could not do either.
      closing = true;
      process.exitCode = 2;
      for (const other of workers()) other.process.kill("SIGTERM");
    });
  };
  for (let i = 0; i < count; i++) fork();

  const stop = (signal: NodeJS.Signals) => {
    closing = true;
    log.info({ signal }, "closing all workers");
    for (const worker of workers()) worker.process.kill("SIGTERM");
  };
  process.once("SIGINT", stop);
  process.once("SIGTERM", stop);
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
