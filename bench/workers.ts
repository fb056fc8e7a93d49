import { availableParallelism } from "node:os";
import type { Reach } from "./harness/case.ts";
import type { Question } from "./harness/question.ts";

const ONE = "1 worker";
const TWO = "2 workers";

/**
 * Two workers and the load generator need a core each; with fewer cores the rate is reported but not judged.
 */
const enoughCores = availableParallelism() >= 3;

const works = [
  { name: "point query", workload: { kind: "point-query" }, throughputAtLeast: 1.6 },
  { name: "upsert", workload: { kind: "upsert" }, throughputAtLeast: 1 },
] as const;

export const workers: Question = {
  name: "workers",
  asks: "What does a second process over the same data add?",
  async run(bench) {
    const one = await bench.startRowhouse(ONE, { cores: "all", workers: 1 });
    const two = await bench.startRowhouse(TWO, { cores: "all", workers: 2 });
    for (const { name, throughputAtLeast, workload } of works) {
      await bench.compare(
        {
          name: enoughCores ? name : `${name} (the load generator shares both cores)`,
          workload,
          dataset: { table: "entities", entities: 10_000 },
          connections: 64,
          reaches: [
            {
              what: "throughput over one worker",
              value: (comparison) => comparison.ratio("operationsPerSecond", TWO, ONE),
              ...(enoughCores ? { atLeast: throughputAtLeast } : {}),
            },
            CPU_RATIO,
          ],
        },
        [one, two],
      );
    }
  },
};

const CPU_RATIO: Reach = {
  what: "CPU per operation over one worker",
  value: (comparison) => comparison.ratio("cpuMicrosPerOperation", TWO, ONE),
  atMost: 1.15,
};
