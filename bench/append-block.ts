import type { Case } from "./harness/case.ts";
import type { Question } from "./harness/question.ts";
import { cpuOf, throughputOf, timesFasterThan } from "./harness/reaches.ts";

const WRITERS = 64;

const cases = [WRITERS, 4].map(
  (blobs): Case => ({
    name: `blocks of 4 KiB, ${WRITERS} writers to ${blobs} blobs`,
    workload: { kind: "append", blobs },
    // The limits need entities to write among; the container starts empty.
    dataset: { table: `logs${blobs}`, entities: 10_000 },
    connections: WRITERS,
    against: ["bare node:http", "raw LMDB", "azurite"],
    reaches: [
      throughputOf("raw LMDB", 0.5),
      cpuOf("bare node:http"),
      timesFasterThan("azurite", 1),
    ],
  }),
);

export const appendBlock: Question = {
  name: "append-block",
  asks: "How many log lines a second can be appended and flushed?",
  service: "blob",
  run: (bench) => bench.compareAll(cases),
};
