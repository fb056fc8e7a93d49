import cluster, { type Worker } from "node:cluster";
import type { Logger } from "pino";

/** What a worker tells the primary once it serves. */
interface Listening {
  readonly lines: readonly string[];
}

/** A worker that dies this soon after it began would die again: then nothing is served. */
const EARLY_MS = 2_000;

/**
 * Runs the same command in `count` processes that share the ports and the data folder. Connections
 * are dealt out in turn. A worker that dies is replaced; what it had acknowledged is on disk.
 */
export function runWorkers(count: number, log: Logger, say: (line: string) => void): void {
  let listening = 0;
  let closing = false;
  const fork = () => {
    const beganAt = Date.now();
    const worker = cluster.fork();
    worker.once("message", ({ lines }: Listening) => {
      listening++;
      // When the last of the first workers is ready, all of it is.
      if (listening === count) for (const line of lines) say(line);
    });
    worker.once("exit", (code, signal) => {
      if (closing) return;
      log.error({ pid: worker.process.pid, code, signal }, "a worker died");
      if (Date.now() - beganAt < EARLY_MS) {
        closing = true;
        process.exitCode = 1;
        for (const other of workers()) other.process.kill("SIGTERM");
      } else fork();
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
