import type { Case, Reach } from "./harness/case.ts";
import type { Question } from "./harness/question.ts";
import { cpuOf, throughputOf, timesFasterThan, timesLessCpuThan } from "./harness/reaches.ts";

const cases: Case[] = [
  page(100, 10_000, [
    throughputOf("bare node:http", 0.5),
    cpuOf("bare node:http"),
    timesFasterThan("azurite", 10),
  ]),
  page(1000, 10_000, [
    throughputOf("bare node:http", 0.6),
    cpuOf("bare node:http"),
    timesFasterThan("azurite", 10),
  ]),
  page(20, 10_000, [throughputOf("bare node:http"), cpuOf("bare node:http")], ["bare node:http"]),
  page(100, 100_000, [timesLessCpuThan("azurite", 15)]),
  page(1000, 100_000, [timesLessCpuThan("azurite", 15)]),
  varied("entities of different lengths"),
  varied("two properties of entities of different lengths", "Name,Email"),
];

function page(
  rows: number,
  entities: number,
  reaches: Reach[],
  against: Case["against"] = ["bare node:http", "raw LMDB", "azurite"],
): Case {
  return {
    name: `${rows} of ${entities} entities`,
    workload: { kind: "range-query", rows },
    dataset: { table: `entities${entities}`, entities },
    connections: 8,
    against,
    rows,
    reaches,
  };
}

/** As in most real tables: neighbors do not have the same lengths. */
function varied(what: string, selected?: string): Case {
  return {
    name: `100 of 10000: ${what}`,
    workload: { kind: "range-query", rows: 100, ...(selected && { selected }) },
    dataset: { table: "varied10000", entities: 10_000, varied: true },
    connections: 8,
    against: ["bare node:http"],
    rows: 100,
    reaches: [throughputOf("bare node:http"), cpuOf("bare node:http")],
  };
}

export const rangeQuery: Question = {
  name: "range-query",
  asks: "What does a page of neighboring entities cost, compared with sending the same bytes?",
  run: (bench) => bench.compareAll(cases),
};
