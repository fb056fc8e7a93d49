import { availableParallelism } from "node:os";
import { Histogram } from "../load/histogram.ts";
import type { Figures } from "./figures.ts";

/** One run, in the units of the report. */
export interface Measurement {
  readonly operationsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly cpuMicrosPerOperation: number;
  /** Of one core; several threads may use more than one. */
  readonly serverCpuShare: number;
  readonly clientCpuShare: number;
  /** The share of all cores that other processes used: almost none on a quiet machine. */
  readonly othersCpuShare: number;
  readonly privateMemoryMb: number;
  /** Operations of the client served least, divided by those of the client served most. */
  readonly fairness: number;
  readonly failures: number;
}

export function toMeasurement(figures: Figures, privateMemoryMb: number): Measurement {
  const { clientCpuMicros, milliseconds, operations, serverCpuMicros } = figures;
  const othersCpuMicros = figures.machineCpuMicros - serverCpuMicros - clientCpuMicros;
  const micros = milliseconds * 1000;
  const latencies = new Histogram(figures.latencies);
  return {
    operationsPerSecond: (operations / milliseconds) * 1000,
    p50Ms: latencies.quantile(0.5),
    p99Ms: latencies.quantile(0.99),
    p999Ms: latencies.quantile(0.999),
    cpuMicrosPerOperation: serverCpuMicros / operations,
    serverCpuShare: serverCpuMicros / micros,
    clientCpuShare: clientCpuMicros / micros,
    othersCpuShare: Math.max(0, othersCpuMicros) / (micros * availableParallelism()),
    privateMemoryMb,
    fairness: figures.fewest / figures.most,
    failures: figures.failures,
  };
}

/** Takes the median of each field separately. */
export function medianOf(measurements: readonly Measurement[]): Measurement {
  const first = measurements[0];
  if (first === undefined) throw new Error("An empty list has no median.");
  const medians = { ...first };
  for (const field of Object.keys(first) as (keyof Measurement)[]) {
    medians[field] = median(measurements.map((measurement) => measurement[field]));
  }
  return medians;
}

export function median(values: readonly number[]): number {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  const middle = sorted.length / 2;
  if (sorted.length === 0) return Number.NaN;
  return sorted.length % 2 === 1
    ? sorted[Math.floor(middle)]!
    : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
