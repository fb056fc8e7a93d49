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

/** Rowhouse's tail divided by the limit's median and, if the limit has a tail too, by that. */
export function tailLatencyOver(limit: Opponent, atMost?: number): Reach[] {
  return [
    {
      what: `p99.9 over the median of ${limit}`,
      value: (comparison) => comparison.median("rowhouse").p999Ms / comparison.median(limit).p50Ms,
      ...(atMost === undefined ? {} : { atMost }),
    },
    {
      what: `p99.9 over that of ${limit}`,
      value: (comparison) => comparison.ratio("p999Ms", "rowhouse", limit),
    },
  ];
}

/**
 * A lower bound of that tail. In a closed loop every client waits while all others are served: on one core
 * the mean latency is at least the CPU of one operation of every client, and no p99.9 is below the mean.
 */
export function roundOfAllOver(limit: Opponent, clients: number): Reach {
  return {
    what: `CPU of one operation of each of the ${clients} clients over the median of ${limit}`,
    value(comparison) {
      const roundMs = (clients * comparison.median("rowhouse").cpuMicrosPerOperation) / 1000;
      return roundMs / comparison.median(limit).p50Ms;
    },
  };
}
