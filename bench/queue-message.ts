import type { Case } from "./harness/case.ts";
import type { Question } from "./harness/question.ts";
import { cpuOf, throughputOf, timesFasterThan } from "./harness/reaches.ts";

const base = {
  // The limits need entities to write among; the queue starts empty.
  dataset: { table: "messages", entities: 10_000 },
  connections: 64,
} as const;

const cases: Case[] = [
  {
    ...base,
    name: "Put Message, 64 clients",
    workload: { kind: "put-message" },
    against: ["bare node:http", "raw LMDB", "azurite"],
    reaches: [
      throughputOf("raw LMDB", 0.5),
      throughputOf("bare node:http", 0.35),
      cpuOf("bare node:http"),
      timesFasterThan("azurite", 1),
    ],
  },
  {
    ...base,
    // Receives the messages that the case before has put, mostly more than it can receive in the same time.
    name: "Get and Delete Message, 64 clients",
    workload: { kind: "receive-message" },
    against: ["raw LMDB", "azurite"],
    // Both sides commit twice: hide and delete, put and remove.
    reaches: [throughputOf("raw LMDB", 0.5), timesFasterThan("azurite", 1)],
  },
];

export const queueMessage: Question = {
  name: "queue-message",
  asks: "How many messages a second pass through a queue that flushes before it answers?",
  service: "queue",
  run: (bench) => bench.compareAll(cases),
};
