import { answerCommands } from "../harness/bench-process.ts";
import type { Figures } from "../harness/figures.ts";
import { cpuMicros, machineCpuMicros } from "../harness/process-figures.ts";
import { Connection } from "./connection.ts";
import type { Dataset } from "./dataset.ts";
import { Histogram } from "./histogram.ts";
import { Pace } from "./pace.ts";
import type { Target } from "./request-writer.ts";
import { Client, type Outcome, type WorkloadKind } from "./workload.ts";
import { createWorkload } from "./workloads.ts";

export interface LoadCommand {
  readonly target: Target;
  readonly workload: WorkloadKind;
  readonly dataset: Dataset;
  /** See `Client`. */
  readonly run: number;
  readonly connections: number;
  /** The rate of all connections together; without it each sends its next request as soon as it is answered. */
  readonly operationsPerSecond?: number | undefined;
  readonly until: Until;
  /** The process whose CPU time is counted. */
  readonly serverPid: number;
  /** Whether the result includes an answer, whole. */
  readonly keepsAnswer?: boolean;
}

/** A window of time after a warm-up, or a number of operations, all of which are counted. */
export type Until =
  | { readonly warmUpMs: number; readonly windowMs: number }
  | { readonly operations: number };

export interface LoadResult extends Figures {
  /** The last answer to the first connection, if it was kept. */
  readonly answer: { readonly head: string; readonly body: Uint8Array };
}

class LoadRun {
  readonly #command: LoadCommand;
  readonly #latencies = new Histogram();
  readonly #pace: Pace | undefined;
  #connections: Connection[] = [];
  #operationsLeft: number;
  #measuring = false;
  #operations = 0;
  #failures = 0;
  #firstFailure = "";

  constructor(command: LoadCommand) {
    this.#command = command;
    const { connections, operationsPerSecond, until } = command;
    this.#pace =
      operationsPerSecond === undefined ? undefined : new Pace(operationsPerSecond, connections);
    this.#operationsLeft = "operations" in until ? until.operations : Number.POSITIVE_INFINITY;
  }

  async run(): Promise<LoadResult> {
    const { connections, dataset, keepsAnswer, run, target, until } = this.#command;
    const workload = createWorkload(this.#command.workload, dataset, target);
    this.#connections = await Promise.all(
      Array.from({ length: connections }, (_, index) =>
        Connection.open(target, new Client(index, run), workload, this),
      ),
    );
    const finished = Promise.all(this.#connections.map((connection) => connection.finished));
    // A connection that closes after all have finished is no failure; before that, `finished` reports it.
    finished.catch(() => {});
    for (const connection of this.#connections) {
      connection.reader.keepsBodies = keepsAnswer === true || workload.readsBodies === true;
      connection.start();
    }
    try {
      if ("windowMs" in until) await Promise.race([sleep(until.warmUpMs), finished]);
      const start = this.#begin();
      if ("windowMs" in until) await this.#window(until.windowMs, finished);
      else await finished;
      return this.#end(start);
    } finally {
      // The next contender must not share the machine with requests that are still in flight here.
      this.#operationsLeft = 0;
      await finished;
    }
  }

  /** Whether a connection may start another operation. */
  next(client: Client, begin: (at: number) => void): boolean {
    if (this.#operationsLeft-- <= 0) return false;
    if (this.#pace) this.#pace.next(client, begin);
    else begin(performance.now());
    return true;
  }

  finish(outcome: Outcome, milliseconds: number, connection: Connection): void {
    if (!this.#measuring) return;
    if (outcome === "done") {
      this.#operations++;
      connection.operations++;
      this.#latencies.record(milliseconds);
    } else {
      this.#failures++;
      this.#firstFailure ||= connection.reader.head + Buffer.concat(connection.reader.body);
    }
  }

  /** Extends the window for slow operations, because a quantile of one value means nothing. */
  async #window(milliseconds: number, finished: Promise<unknown>): Promise<void> {
    for (let windows = 0; windows < 10; windows++) {
      await Promise.race([sleep(milliseconds), finished]);
      if (this.#operations >= OPERATIONS_MIN) return;
    }
  }

  #begin(): Snapshot {
    this.#measuring = true;
    return snapshot(this.#command.serverPid);
  }

  #end(start: Snapshot): LoadResult {
    const end = snapshot(this.#command.serverPid);
    this.#measuring = false;
    const counts = this.#connections.map((connection) => connection.operations);
    const { body, head } = this.#connections[0]!.reader;
    return {
      operations: this.#operations,
      failures: this.#failures,
      firstFailure: this.#firstFailure,
      milliseconds: end.now - start.now,
      serverCpuMicros: end.serverCpu - start.serverCpu,
      clientCpuMicros: end.clientCpu - start.clientCpu,
      machineCpuMicros: end.machineCpu - start.machineCpu,
      latencies: this.#latencies.counts,
      fewest: Math.min(...counts),
      most: Math.max(...counts),
      answer: { head, body: Buffer.concat(body) },
    };
  }
}

const OPERATIONS_MIN = 5;

interface Snapshot {
  readonly now: number;
  readonly serverCpu: number;
  readonly clientCpu: number;
  readonly machineCpu: number;
}

function snapshot(serverPid: number): Snapshot {
  const { system, user } = process.cpuUsage();
  return {
    now: performance.now(),
    serverCpu: cpuMicros(serverPid),
    clientCpu: user + system,
    machineCpu: machineCpuMicros(),
  };
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

answerCommands<LoadCommand, LoadResult>((command) => new LoadRun(command).run());
