import { spawnSync } from "node:child_process";
import type { Reach } from "./harness/case.ts";
import type { Contender, Work } from "./harness/contender.ts";
import type { Question } from "./harness/question.ts";
import { nodeOf } from "./harness/runtimes.ts";

/** The newest version of each of these lines is compared with the Node that runs this. */
const LINES = ["22", "24", "26"];

const dataset = { table: "entities", entities: 10_000 };
const WORKS: readonly (Work & { readonly name: string; readonly service: "table" | "blob" })[] = [
  {
    name: "point query",
    service: "table",
    workload: { kind: "point-query" },
    dataset,
    connections: 32,
  },
  {
    name: "100 entities",
    service: "table",
    workload: { kind: "range-query", rows: 100 },
    dataset,
    connections: 8,
  },
  { name: "upsert", service: "table", workload: { kind: "upsert" }, dataset, connections: 64 },
  {
    name: "append of 4 KiB",
    service: "blob",
    workload: { kind: "append", blobs: 64 },
    dataset,
    connections: 64,
  },
];

export const nodeVersions: Question = {
  name: "node-versions",
  asks: "How much does a newer Node save?",
  async run(bench) {
    const executables = [process.execPath, ...LINES.map((version) => nodeOf(version))];
    const nodes = new Map(executables.map((node) => [nameOf(node), node]));
    for (const { service, ...work } of WORKS) {
      const contenders: Contender[] = [];
      // Each case gets a new server, because earlier requests influence how its code is compiled.
      for (const [name, node] of nodes) {
        const data = `${work.name}, ${name}`;
        contenders.push(await bench.startRowhouse(name, { data, node, service }));
      }
      const names = contenders.map(({ name }) => name);
      await bench.compare(
        {
          ...work,
          rounds: bench.options.short ? 3 : 15,
          reaches: names.slice(1).flatMap((name) => over(names[0]!, name)),
        },
        contenders,
        { warmUpMs: 150, windowMs: 900 },
      );
      for (const contender of contenders) await contender.stop();
    }
  },
};

function over(first: string, name: string): Reach[] {
  return [
    {
      what: `throughput of ${name} over ${first}`,
      value: (comparison) => comparison.ratio("operationsPerSecond", name, first),
    },
    {
      what: `CPU per operation of ${name} over ${first}`,
      value: (comparison) => comparison.ratio("cpuMicrosPerOperation", name, first),
    },
  ];
}

function nameOf(node: string): string {
  const { stdout } = spawnSync(node, ["--version"], { encoding: "utf8" });
  return `Node ${stdout.trim().slice(1)}`;
}
