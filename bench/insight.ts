import { join } from "node:path";
import type { Reach } from "./harness/case.ts";
import type { Question } from "./harness/question.ts";

const WATCHED = "everything watched";
const UNMEASURED = "2 workers";
const MEASURED = "2 workers, metrics";

export const insight: Question = {
  name: "insight",
  asks: "How much more does a point query cost when everything that can be watched is watched, and how much metrics alone with two workers?",
  async run(bench) {
    const folder = bench.folder("watched");
    const watched = await bench.startRowhouse(WATCHED, {
      flags: [
        "--insight",
        "--metrics",
        ...["--targets", "azure"],
        ...["--scan-budget", "no table scan; density 0.1 from 100"],
        ...["--scan-report", join(folder, "scan-report.json")],
        ...["--slow-query", "100"],
        ...["--record", join(folder, "traffic.jsonl")],
      ],
    });
    // The difference sought is smaller than that between two rounds, so there are many short rounds.
    const rounds = bench.options.short ? 15 : 40;
    const window = { warmUpMs: 100, windowMs: 900 };
    await bench.compare(
      {
        name: "point query",
        workload: { kind: "point-query" },
        dataset: { table: "entities", entities: 10_000 },
        connections: 32,
        rounds,
        reaches: [THROUGHPUT, CPU],
      },
      [await bench.rowhouse(), watched],
      window,
    );
    const pair = { cores: "all", workers: 2 } as const;
    await bench.compare(
      {
        name: "point query, two workers",
        workload: { kind: "point-query" },
        dataset: { table: "entities", entities: 10_000 },
        connections: 32,
        rounds,
        reaches: [METRICS],
      },
      [
        await bench.startRowhouse(UNMEASURED, pair),
        await bench.startRowhouse(MEASURED, { ...pair, flags: ["--metrics"] }),
      ],
      window,
    );
  },
};

const THROUGHPUT: Reach = {
  what: "throughput of a server that watches nothing",
  value: (comparison) => comparison.ratio("operationsPerSecond", WATCHED, "rowhouse"),
  atLeast: 0.92,
};

const CPU: Reach = {
  what: "CPU per operation over a server that watches nothing",
  value: (comparison) => comparison.ratio("cpuMicrosPerOperation", WATCHED, "rowhouse"),
  atMost: 1.08,
};

const METRICS: Reach = {
  what: "CPU per operation over two workers without metrics",
  value: (comparison) => comparison.ratio("cpuMicrosPerOperation", MEASURED, UNMEASURED),
  atMost: 1.03,
};
