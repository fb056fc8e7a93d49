import { BenchProcess } from "../harness/bench-process.ts";
import type { Contender, Window, Work } from "../harness/contender.ts";
import { CpuQuota } from "../harness/cpu-quota.ts";
import type { Figures } from "../harness/figures.ts";
import type { LoadGenerator } from "../harness/http-contender.ts";
import { type Measurement, toMeasurement } from "../harness/measurement.ts";
import { cpuMicros, privateMemoryMb } from "../harness/process-figures.ts";
import type { ServerProcess } from "../harness/server-process.ts";
import type { LoadCommand, LoadResult } from "../load/load-process.ts";

export interface FrontEndsOptions {
  readonly name: string;
  readonly servers: readonly ServerProcess[];
  readonly databasePid: number;
  /** The share of a core that each front end is held to; undefined: no limit. */
  readonly share?: number | undefined;
}

/** RequestPipeline ends over one database that already holds the data, each with its own load generator. */
export class FrontEnds implements Contender {
  readonly name: string;
  /** CPU microseconds of the database per operation, for the rounds measured last. */
  databaseMicros: readonly number[] = [];
  readonly #options: FrontEndsOptions;
  readonly #loads: readonly LoadGenerator[];

  private constructor(options: FrontEndsOptions, loads: readonly LoadGenerator[]) {
    this.name = options.name;
    this.#options = options;
    this.#loads = loads;
  }

  static async start(options: FrontEndsOptions): Promise<FrontEnds> {
    const module = new URL("../load/load-process.ts", import.meta.url);
    const loads = await Promise.all(
      options.servers.map(() => BenchProcess.start<LoadCommand, LoadResult>(module, "client")),
    );
    return new FrontEnds(options, loads);
  }

  async prepare(): Promise<void> {}

  /** Opens `connections` connections to each front end. */
  async measure({ connections, dataset, workload }: Work, window: Window): Promise<Measurement> {
    const { databasePid, servers, share } = this.#options;
    const quota = share === undefined ? undefined : new CpuQuota(pidsOf(servers), share);
    // Without a warm-up, so that the database's CPU and the operations are counted over the same time.
    const until = { warmUpMs: 0, windowMs: window.warmUpMs + window.windowMs };
    const before = cpuMicros(databasePid);
    try {
      const results = await Promise.all(
        servers.map((server, index) =>
          this.#loads[index]!.ask({
            connections,
            dataset,
            workload,
            target: server.target,
            run: nextRun++,
            until,
            serverPid: server.pid,
          }),
        ),
      );
      const figures = together(results);
      const micros = (cpuMicros(databasePid) - before) / figures.operations;
      this.databaseMicros = [...this.databaseMicros, micros];
      const memoryMb = pidsOf(servers).reduce((sum, pid) => sum + privateMemoryMb(pid), 0);
      return toMeasurement(figures, memoryMb);
    } finally {
      quota?.end();
    }
  }

  pause(): void {
    for (const server of this.#options.servers) server.pause();
  }

  resume(): void {
    for (const server of this.#options.servers) server.resume();
  }

  /** The servers end with the bench. */
  async stop(): Promise<void> {
    await Promise.all(this.#loads.map((load) => load.stop()));
  }
}

let nextRun = 1;

function pidsOf(servers: readonly ServerProcess[]): number[] {
  return servers.map(({ pid }) => pid);
}

/** Combines the figures of load generators that ran at the same time. */
function together(results: readonly LoadResult[]): Figures {
  const sum = (field: "operations" | "failures" | "serverCpuMicros" | "clientCpuMicros") =>
    results.reduce((total, result) => total + result[field], 0);
  const first = results[0]!;
  return {
    operations: sum("operations"),
    failures: sum("failures"),
    firstFailure: results.find(({ firstFailure }) => firstFailure !== "")?.firstFailure ?? "",
    milliseconds: Math.max(...results.map(({ milliseconds }) => milliseconds)),
    serverCpuMicros: sum("serverCpuMicros"),
    clientCpuMicros: sum("clientCpuMicros"),
    machineCpuMicros: Math.max(...results.map(({ machineCpuMicros }) => machineCpuMicros)),
    latencies: first.latencies.map((_, bucket) =>
      results.reduce((total, { latencies }) => total + latencies[bucket]!, 0),
    ),
    fewest: Math.min(...results.map(({ fewest }) => fewest)),
    most: Math.max(...results.map(({ most }) => most)),
  };
}
