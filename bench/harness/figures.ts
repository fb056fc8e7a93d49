/** What one run of one contender measured, as the measuring process reports it. */
export interface Figures {
  readonly operations: number;
  readonly failures: number;
  /** The first unexpected answer, whole; "" if there was none. */
  readonly firstFailure: string;
  readonly milliseconds: number;
  readonly serverCpuMicros: number;
  /** CPU of the load generator; 0 for a contender that needs none. */
  readonly clientCpuMicros: number;
  /** CPU of everything on the machine, on all cores. */
  readonly machineCpuMicros: number;
  /** Counts of latencies, in the buckets of `Histogram`. */
  readonly latencies: Uint32Array;
  /** Operations of the client that finished fewest, and of the one that finished most. */
  readonly fewest: number;
  readonly most: number;
}
