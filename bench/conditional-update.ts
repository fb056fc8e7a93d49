import type { Case, Reach } from "./harness/case.ts";
import type { Question } from "./harness/question.ts";
import { throughputOf } from "./harness/reaches.ts";

const base = {
  dataset: { table: "entities", entities: 10_000 },
  connections: 64,
} as const;

const WINS: Reach = {
  what: "wins per second",
  value: (comparison) => comparison.median("rowhouse").operationsPerSecond,
};

const FAIRNESS: Reach = {
  what: "wins of the unluckiest client over the luckiest one's",
  value: (comparison) => comparison.median("rowhouse").fairness,
};

/** Every win waits for its flush, and the next writer must have read it, so one win per flush is the most. */
const WINS_PER_FLUSH: Reach = {
  what: "wins per flush of the disk",
  value: (comparison) => comparison.ratio("operationsPerSecond", "rowhouse", "disk flush"),
};

/**
 * A commit flushes twice: its pages, then the page that publishes them. Here no client reads between the two.
 */
const WINS_PER_COMMIT: Reach = {
  what: "wins per commit of raw LMDB, one after the other",
  value: (comparison) => comparison.ratio("operationsPerSecond", "rowhouse", "raw LMDB"),
};

const cases: Case[] = [
  {
    ...base,
    name: "If-Match, 64 clients with an entity each",
    workload: { kind: "conditional-update" },
    against: ["bare node:http", "raw LMDB", "azurite"],
    reaches: [throughputOf("bare node:http", 0.35)],
  },
  {
    ...base,
    name: "64 clients contending for one entity, backing off when they lose",
    workload: { kind: "contended-update", backsOff: true },
    against: ["disk flush", "raw LMDB", "azurite"],
    reaches: [
      { ...WINS, atLeast: 2000 },
      { ...FAIRNESS, atLeast: 0.1 },
      WINS_PER_FLUSH,
      WINS_PER_COMMIT,
    ],
  },
  {
    ...base,
    name: "the same, retrying immediately",
    workload: { kind: "contended-update", backsOff: false },
    against: ["disk flush", "raw LMDB", "azurite"],
    reaches: [WINS, FAIRNESS, WINS_PER_FLUSH, WINS_PER_COMMIT],
  },
];

export const conditionalUpdate: Question = {
  name: "conditional-update",
  asks: "What does optimistic concurrency cost, and does it make progress under contention?",
  run: (bench) => bench.compareAll(cases),
};
