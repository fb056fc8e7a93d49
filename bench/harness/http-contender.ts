import { type Dataset, PARTITION_ENTITIES } from "../load/dataset.ts";
import { fillTransactions } from "../load/fill.ts";
import type { LoadCommand, LoadResult, Until } from "../load/load-process.ts";
import type { Target } from "../load/request-writer.ts";
import type { LoadOrder, WorkloadKind } from "../load/workload.ts";
import type { BenchProcess } from "./bench-process.ts";
import type { Contender, Window, Work } from "./contender.ts";
import { create, tableSas } from "./exchange.ts";
import { type Measurement, toMeasurement } from "./measurement.ts";
import { privateMemoryMb } from "./process-figures.ts";
import type { Progress } from "./progress.ts";

export type LoadGenerator = BenchProcess<LoadCommand, LoadResult>;

export interface RunningServer {
  readonly pid: number;
  readonly target: Target;
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

/** A server that receives requests from the load generator. */
export class HttpContender implements Contender {
  readonly name: string;
  readonly server: RunningServer;
  readonly #load: LoadGenerator;
  readonly #progress: Progress;
  readonly #filled = new Set<string>();

  constructor(name: string, server: RunningServer, load: LoadGenerator, progress: Progress) {
    this.name = name;
    this.server = server;
    this.#load = load;
    this.#progress = progress;
  }

  async prepare({ dataset }: Work): Promise<void> {
    if (this.server.target.service === "table") return this.fill(dataset, "sorted");
    if (this.#filled.has(dataset.table)) return;
    await create(this.server.target, dataset.table);
    this.#filled.add(dataset.table);
  }

  async measure(work: Work, window: Window): Promise<Measurement> {
    const result = await this.#ask(work, window);
    if (result.failures > 0) {
      const first = result.firstFailure.slice(0, 1000);
      this.#progress.say(
        `${this.name}: ${result.failures} operations failed, the first with\n${first}`,
      );
    }
    return toMeasurement(result, privateMemoryMb(this.server.pid));
  }

  /** Runs one operation and returns the last answer to it. */
  async sample(work: Work): Promise<LoadResult["answer"]> {
    const { answer, failures, firstFailure } = await this.#ask(
      { ...work, connections: 1 },
      { operations: 1 },
      true,
    );
    if (failures > 0) throw new Error(`${this.name} answered\n${firstFailure}`);
    return answer;
  }

  /** Assumes that the table exists: the server was opened on a folder that contains it. */
  holds({ table }: Dataset): this {
    this.#filled.add(table);
    return this;
  }

  /** Creates the dataset's table and all its entities, unless they exist. */
  async fill({ entities, table }: Dataset, order: LoadOrder): Promise<void> {
    if (this.#filled.has(table)) return;
    if (entities % PARTITION_ENTITIES !== 0) {
      throw new Error(`Tables hold a multiple of ${PARTITION_ENTITIES} entities, not ${entities}.`);
    }
    await create(this.server.target, table);
    const transactions = fillTransactions(entities);
    for (let first = 0; first < transactions; first += SLICE_TRANSACTIONS) {
      this.#progress.show(
        `filling ${table} of ${this.name}: ${Math.round((first / transactions) * 100)} % of ${entities}`,
      );
      const workload: WorkloadKind = { kind: "fill", order, firstTransaction: first };
      const { failures, firstFailure } = await this.#ask(
        { workload, dataset: { table, entities }, connections: 8 },
        { operations: Math.min(SLICE_TRANSACTIONS, transactions - first) },
      );
      if (failures > 0) throw new Error(`${this.name} answered\n${firstFailure}`);
    }
    this.#filled.add(table);
  }

  pause(): void {
    this.server.pause();
  }

  resume(): void {
    this.server.resume();
  }

  stop(): Promise<void> {
    return this.server.stop();
  }

  async #ask(work: Work, until: Until, keepsAnswer = false): Promise<LoadResult> {
    const { target } = this.server;
    const sas = work.auth === "SAS" ? tableSas(target, work.dataset.table) : undefined;
    return this.#load.ask({
      target: { ...target, sas },
      workload: work.workload,
      dataset: work.dataset,
      run: nextRun++,
      connections: work.connections,
      operationsPerSecond: work.operationsPerSecond,
      until,
      serverPid: this.server.pid,
      keepsAnswer,
    });
  }
}

/** Progress is shown between two slices. */
const SLICE_TRANSACTIONS = 500;

let nextRun = 1;
