import { join } from "node:path";
import type { Reach } from "./harness/case.ts";
import type { Question } from "./harness/question.ts";

const WATCHED = "everything watched";

export const insight: Question = {
  name: "insight",
  asks: "How much more does a point query cost when everything that can be watched is watched?",
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
    await bench.compare(
      {
        name: "point query",
        workload: { kind: "point-query" },
        dataset: { table: "entities", entities: 10_000 },
        connections: 32,
        // The difference sought is smaller than that between two rounds, so there are many short rounds.
        rounds: bench.options.short ? 15 : 40,
        reaches: [THROUGHPUT, CPU],
      },
      [await bench.rowhouse(), watched],
      { warmUpMs: 100, windowMs: 900 },
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
