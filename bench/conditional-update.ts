import type { Case, Question } from "./harness/question.ts";
import { throughputOf } from "./harness/reaches.ts";

const base = {
  dataset: { table: "entities", entities: 10_000 },
  connections: 64,
} as const;

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
    name: "If-Match, 64 clients contending for one entity",
    workload: { kind: "contended-update" },
    against: ["disk flush", "azurite"],
    reaches: [
      {
        what: "wins per second",
        value: (comparison) => comparison.median("rowhouse").operationsPerSecond,
        atLeast: 2000,
      },
      {
        what: "wins per flush of the disk",
        value: (comparison) => comparison.ratio("operationsPerSecond", "rowhouse", "disk flush"),
      },
      {
        what: "wins of the unluckiest client, of the luckiest one's",
        value: (comparison) => comparison.median("rowhouse").fairness,
        atLeast: 0.1,
      },
    ],
  },
];

export const conditionalUpdate: Question = {
  name: "conditional-update",
  asks: "What does optimistic concurrency cost, and does it make progress under contention?",
  run: (bench) => bench.compareAll(cases),
};
