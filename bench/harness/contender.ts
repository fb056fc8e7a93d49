import type { Dataset } from "../load/dataset.ts";
import type { WorkloadKind } from "../load/workload.ts";
import type { Measurement } from "./measurement.ts";

/** Whoever is measured: Rowhouse, a limit, or the peer. */
export interface Contender {
  readonly name: string;
  /** Whatever the work needs: a table filled, an answer recorded. Costs nothing the second time. */
  prepare(work: Work): Promise<void>;
  measure(work: Work, window: Window): Promise<Measurement>;
  /** Only the contender being measured runs: another one's after-work must not spoil its figures. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

export interface Work {
  readonly workload: WorkloadKind;
  readonly dataset: Dataset;
  readonly connections: number;
  /** Of all connections together; see `Pace`. Default: each in a closed loop. */
  readonly operationsPerSecond?: number;
  readonly auth?: "SharedKeyLite" | "SAS";
}

export interface Window {
  readonly warmUpMs: number;
  readonly windowMs: number;
}
