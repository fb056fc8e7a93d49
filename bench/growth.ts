import { rmSync } from "node:fs";
import type { Bench } from "./harness/bench.ts";
import type { Reach } from "./harness/case.ts";
import type { Contender, Work } from "./harness/contender.ts";
import { folderBytes } from "./harness/folder-bytes.ts";
import type { HttpContender } from "./harness/http-contender.ts";
import type { Measurement } from "./harness/measurement.ts";
import type { Question } from "./harness/question.ts";
import { finding } from "./harness/results.ts";
import { type Dataset, entityJson } from "./load/dataset.ts";
import type { LoadOrder } from "./load/workload.ts";

const SMALL: Dataset = { table: "entities", entities: 10_000 };

const WORKS = [
  { name: "point query", workload: { kind: "point-query" } },
  { name: "range query of 100", workload: { kind: "range-query", rows: 100 } },
  { name: "insert", workload: { kind: "insert" } },
] as const;

/** A growing table is measured next to one that stays small, so that noise affects both. */
export const growth: Question = {
  name: "growth",
  asks: "Do queries, inserts and memory cost the same in a large table as in a small one?",
  async run(bench) {
    for (const order of ["sorted", "scattered"] as const) {
      for (const entities of sizes(bench)) await compareSizes(bench, entities, order);
    }
  },
};

function sizes({ options }: Bench): number[] {
  if (options.short) return [100_000];
  return options.full ? [100_000, 1_000_000, 10_000_000] : [100_000, 1_000_000];
}

async function compareSizes(bench: Bench, entities: number, order: LoadOrder): Promise<void> {
  const dataset = { ...SMALL, entities };
  await load(bench, "small", SMALL, "sorted");
  const seconds = await load(bench, "large", dataset, order);
  bench.record({
    name: `${entities} entities loaded ${order}`,
    contenders: [],
    findings: [
      finding("entities loaded per second", entities / seconds),
      finding(
        "data folder over raw JSON",
        folderBytes(bench.folder("large")) / rawBytes(entities),
        {
          atMost: 1.5,
        },
      ),
    ],
  });
  // Restarted, because the heap that loading leaves behind is not a cost of the data.
  const large = (await bench.startRowhouse("large")).holds(dataset);
  const small = (await bench.startRowhouse("small")).holds(SMALL);
  const reach = (what: string, field: keyof Measurement, atMost: number): Reach => ({
    what: `${what} over that of ${SMALL.entities} entities`,
    value: (comparison) => comparison.ratio(field, large.name, small.name),
    atMost,
  });
  for (const work of WORKS) {
    await bench.compare(
      {
        ...work,
        name: `${work.name}, ${dataset.entities} entities loaded ${order}`,
        dataset,
        connections: 32,
        reaches: [
          reach("CPU", "cpuMicrosPerOperation", 1.3),
          reach("p50", "p50Ms", 1.3),
          reach("private memory", "privateMemoryMb", 1.2),
        ],
      },
      [large, onDataset(small, SMALL)],
    );
  }
  await large.stop();
  await small.stop();
}

/** Loads into a new folder and returns the seconds that took. */
async function load(
  bench: Bench,
  name: string,
  dataset: Dataset,
  order: LoadOrder,
): Promise<number> {
  rmSync(bench.folder(name), { recursive: true });
  const loader = await bench.startRowhouse(name);
  const startedAt = performance.now();
  await loader.fill(dataset, order);
  const seconds = (performance.now() - startedAt) / 1000;
  await loader.stop();
  return seconds;
}

function rawBytes(entities: number): number {
  return entityJson(Math.floor(entities / 2)).length * entities;
}

/** The same contender, with requests for the entities of another dataset. */
function onDataset(contender: HttpContender, dataset: Dataset): Contender {
  const on = (work: Work) => ({ ...work, dataset });
  return {
    name: contender.name,
    prepare: (work) => contender.prepare(on(work)),
    measure: (work, window) => contender.measure(on(work), window),
    pause: () => contender.pause(),
    resume: () => contender.resume(),
    stop: () => contender.stop(),
  };
}
