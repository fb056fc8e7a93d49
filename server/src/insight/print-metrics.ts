import { AggregatorRegistry, type PrometheusContentType, Registry } from "prom-client";
import type { MetricPart } from "./prometheus.ts";

export const PROMETHEUS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

/** Prints the metrics of all processes as one page. */
export function printMetrics(processes: readonly (readonly MetricPart[])[]): Promise<string> {
  return AggregatorRegistry.aggregate<PrometheusContentType>([...processes]).metrics();
}
