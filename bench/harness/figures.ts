/** What one run of one contender measured, as the measuring process hands it over. */
export interface Figures {
  readonly operations: number;
  readonly failures: number;
  /** The first answer nobody expected, whole; "" if there was none. */
  readonly firstFailure: string;
  readonly milliseconds: number;
  readonly serverCpuMicros: number;
  /** Of the load generator; 0 where a contender needs none. */
  readonly clientCpuMicros: number;
  /** Of everything on the machine, on all cores. */
  readonly machineCpuMicros: number;
  /** Counts of latencies, in the buckets of `Histogram`. */
  readonly latencies: Uint32Array;
  /** Operations of the client that finished fewest, and of the one that finished most. */
  readonly fewest: number;
  readonly most: number;
}
