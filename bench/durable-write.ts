import type { Bench } from "./harness/bench.ts";
import type { Case, Reach } from "./harness/case.ts";
import type { Question } from "./harness/question.ts";
import {
  medianLatencyOver,
  tailLatencyOver,
  throughputOf,
  timesFasterThan,
} from "./harness/reaches.ts";
import type { InsertForm } from "./load/workload.ts";

const KINDS = ["upsert", "merge", "insert"] as const;
const CLIENTS = [1, 64, 256];
const FORMS: readonly InsertForm[] = ["rows of 200 bytes", "growing keys"];

// Inserts come last, because they make the tables larger than the other kinds do.
const cases = [
  ...KINDS.flatMap((kind) => CLIENTS.map((clients) => writes(kind, clients))),
  ...FORMS.map(inserts),
];

/** What a row's size and the order of keys are worth, beside 1 KB at random keys. */
function inserts(form: InsertForm): Case {
  return {
    name: `insert, 64 clients, ${form}`,
    workload: { kind: "insert", form },
    dataset: { table: form === "growing keys" ? "growing" : "small", entities: 10_000 },
    connections: 64,
    longOnly: true,
    against: ["bare node:http", "disk flush"],
  };
}

function writes(kind: (typeof KINDS)[number], clients: number): Case {
  return {
    name: `${kind}, ${clients} ${clients === 1 ? "client" : "clients"}`,
    workload: { kind },
    // Each case of inserts has its own table, so that all start at the same size.
    dataset: { table: kind === "insert" ? `insert${clients}` : "entities", entities: 10_000 },
    connections: clients,
    longOnly: kind === "merge" || clients === 256,
    against: ["bare node:http", "raw LMDB", "disk flush", "azurite"],
    reaches: reachesOf(kind, clients),
  };
}

function reachesOf(kind: (typeof KINDS)[number], clients: number): Reach[] {
  if (clients === 1) return [medianLatencyOver("raw LMDB", 2)];
  if (clients === 256) return [];
  return [
    // No share of a bare POST: that one never touches a disk, and the flush alone sets the distance.
    throughputOf("raw LMDB", 0.7),
    // Not with a median flush: in a closed loop every client waits while all others are served, so no tail of 64
    // clients is near that, whatever the engine. Raw LMDB serves as many, on the same disk in the same run.
    tailLatencyOver("raw LMDB", 2),
    timesFasterThan("azurite", kind === "insert" ? 7 : 15),
  ];
}

/**
 * In a closed loop every client waits while all others are served, so the tail is that of a queue. Here the
 * server has time for all of them: what remains is the wait for a client's own group commit and the one in
 * flight before it.
 */
async function compareAtHalfPace(bench: Bench): Promise<void> {
  const { contenders } = bench.results.find(({ name }) => name === CLOSED_LOOP)!;
  const rowhouse = contenders.find(({ name }) => name === "rowhouse")!;
  const half = writes("upsert", 64);
  await bench.compareAll([
    {
      ...half,
      name: `${half.name}, at half their highest rate`,
      operationsPerSecond: rowhouse.median.operationsPerSecond / 2,
      against: ["disk flush"],
      // Raw LMDB has no such pace. Ten median flushes were asked of this tail once: on a shared disk, flushes
      // themselves have longer ones.
      reaches: [tailLatencyOver("disk flush")],
    },
  ]);
}

const CLOSED_LOOP = writes("upsert", 64).name;

export const durableWrite: Question = {
  name: "durable-write",
  asks: "What does it cost to flush every write before acknowledging it?",
  async run(bench) {
    await bench.compareAll(cases);
    await compareAtHalfPace(bench);
  },
};
