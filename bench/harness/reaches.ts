import type { Opponent, Reach } from "./case.ts";

// The kinds of reaches that most questions use.

export function throughputOf(limit: Opponent, atLeast?: number): Reach {
  return {
    what: `throughput of ${limit}`,
    value: (comparison) => comparison.ratio("operationsPerSecond", "rowhouse", limit),
    ...(atLeast !== undefined && { atLeast }),
  };
}

/** More telling than throughput where the load generator is the bottleneck. */
export function cpuOf(limit: Opponent): Reach {
  return {
    what: `CPU of ${limit} over ours`,
    value: (comparison) => comparison.ratio("cpuMicrosPerOperation", limit, "rowhouse"),
  };
}

export function timesFasterThan(peer: Opponent, atLeast: number): Reach {
  return { ...throughputOf(peer, atLeast), what: `times the throughput of ${peer}` };
}

export function timesLessCpuThan(peer: Opponent, atLeast: number): Reach {
  return {
    what: `times less CPU than ${peer}`,
    value: (comparison) => comparison.ratio("cpuMicrosPerOperation", peer, "rowhouse"),
    atLeast,
  };
}

export function medianLatencyOver(limit: Opponent, atMost: number): Reach {
  return {
    what: `p50 over that of ${limit}`,
    value: (comparison) => comparison.ratio("p50Ms", "rowhouse", limit),
    atMost,
  };
}

/** Rowhouse's tail divided by the limit's own, which the same run has measured. */
export function tailLatencyOver(limit: Opponent, atMost?: number): Reach {
  return {
    what: `p99.9 over that of ${limit}`,
    value: (comparison) => comparison.ratio("p999Ms", "rowhouse", limit),
    ...(atMost === undefined ? {} : { atMost }),
  };
}
