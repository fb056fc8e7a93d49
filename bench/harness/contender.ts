import type { Dataset } from "../load/dataset.ts";
import type { WorkloadKind } from "../load/workload.ts";
import type { Measurement } from "./measurement.ts";

/** A measured party: Rowhouse, a limit, or the peer. */
export interface Contender {
  readonly name: string;
  /** Prepares the work: fills a table, records an answer. Costs nothing the second time. */
  prepare(work: Work): Promise<void>;
  measure(work: Work, window: Window): Promise<Measurement>;
  /** Only the contender being measured runs, because another one's background work would spoil its figures. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

export interface Work {
  readonly workload: WorkloadKind;
  readonly dataset: Dataset;
  readonly connections: number;
  /** The rate of all connections together; see `Pace`. Default: each runs in a closed loop. */
  readonly operationsPerSecond?: number;
  readonly auth?: "SharedKeyLite" | "SAS";
}

export interface Window {
  readonly warmUpMs: number;
  readonly windowMs: number;
}
