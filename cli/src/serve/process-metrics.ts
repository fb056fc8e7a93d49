import { type MetricPart, partsOf, single } from "@rowhouse/server/insight/prometheus";
import { collectDefaultMetrics, Registry } from "prom-client";
import { packageVersion } from "../version.ts";

/** Memory, CPU, event-loop lag, sockets and garbage collection of this process, its version and its start. */
export class ProcessMetrics {
  readonly #registry = new Registry();

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
  }

  async parts(): Promise<MetricPart[]> {
    const startedAt = Date.now() / 1000 - process.uptime();
    return [
      ...partsOf([
        {
          name: "rowhouse_build_info",
          type: "gauge",
          help: "The version, as a label.",
          across: "first",
          samples: [{ labels: { version: packageVersion(), node: process.version }, value: 1 }],
        },
        single("rowhouse_processes", "gauge", "Processes that serve.", 1),
        single(
          "rowhouse_start_time_seconds",
          "gauge",
          "When the oldest of these processes started, in seconds since 1970.",
          startedAt,
          "min",
        ),
      ]),
      ...(await this.#registry.getMetricsAsJSON()).map(
        ({ aggregator, help, name, type, values }): MetricPart => ({
          ...{ aggregator, help, name, values },
          type: String(type),
        }),
      ),
    ];
  }
}
