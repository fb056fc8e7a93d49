import type { Case } from "./harness/case.ts";
import type { Question } from "./harness/question.ts";
import { cpuOf, throughputOf, timesLessCpuThan } from "./harness/reaches.ts";

const base = {
  workload: { kind: "point-query" },
  dataset: { table: "entities", entities: 10_000 },
  connections: 32,
  against: ["bare node:http", "raw LMDB", "azurite"],
} as const;

const cases: Case[] = [
  {
    ...base,
    name: "SharedKeyLite",
    auth: "SharedKeyLite",
    reaches: [
      throughputOf("bare node:http", 0.8),
      cpuOf("bare node:http"),
      timesLessCpuThan("azurite", 15),
    ],
  },
  {
    ...base,
    name: "SAS",
    auth: "SAS",
    reaches: [throughputOf("bare node:http", 0.8), cpuOf("bare node:http")],
  },
];

export const pointQuery: Question = {
  name: "point-query",
  asks: "What share of node:http's own throughput is left when a point query is served through it?",
  run: (bench) => bench.compareAll(cases),
};
