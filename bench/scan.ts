import type { Case, Reach } from "./harness/case.ts";
import type { Question } from "./harness/question.ts";
import { throughputOf } from "./harness/reaches.ts";
import { PARTITION_ENTITIES } from "./load/dataset.ts";

const ENTITIES = 100_000;

/** The engine lends values instead of copying them, and a range read without a server can do the same. */
const NO_COPIES: Reach = {
  what: "throughput of raw LMDB, no copies",
  value: (comparison) => comparison.ratio("operationsPerSecond", "rowhouse", "raw LMDB, no copies"),
};

const base = {
  dataset: { table: "entities", entities: ENTITIES },
  connections: 1,
  against: ["raw LMDB", "raw LMDB, no copies", "azurite"],
  reaches: [throughputOf("raw LMDB", 0.8), NO_COPIES],
} as const;

const cases: Case[] = [
  { ...base, name: "partition", workload: { kind: "partition-scan" }, rows: PARTITION_ENTITIES },
  { ...base, name: "table", workload: { kind: "table-scan" }, rows: ENTITIES },
];

export const scan: Question = {
  name: "scan",
  asks: "How fast does a filter on a property find the one entity in a hundred that matches?",
  run: (bench) => bench.compareAll(cases),
};
