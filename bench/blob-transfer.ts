import type { Case, Reach } from "./harness/case.ts";
import type { Question } from "./harness/question.ts";
import { cpuOf, throughputOf } from "./harness/reaches.ts";

const bytes = 64 << 20;
const base = { dataset: { table: "blobs", entities: 10_000 }, connections: 1 } as const;

/** An upload is received and written, so it cannot be faster than the slower of the two. */
const ofSlowerLimit: Reach = {
  what: "throughput of the slower of both limits",
  value: (comparison) =>
    Math.max(
      comparison.ratio("operationsPerSecond", "rowhouse", "disk write"),
      comparison.ratio("operationsPerSecond", "rowhouse", "bare node:http"),
    ),
  atLeast: 0.5,
};

/** The ceiling of a single request, however fast the disk is. */
const ofMd5: Reach = {
  what: "throughput of MD5 alone",
  value: (comparison) => comparison.ratio("operationsPerSecond", "rowhouse", "MD5 alone"),
};

const cases: Case[] = [
  {
    ...base,
    name: "upload of 64 MiB in blocks of 8 MiB",
    workload: { kind: "upload", bytes, blockBytes: 8 << 20 },
    against: ["bare node:http", "disk write"],
    reaches: [ofSlowerLimit, cpuOf("bare node:http")],
  },
  {
    ...base,
    // An official client's stream keeps up to five blocks in flight, so no flush is waited for alone.
    name: "uploads of 64 MiB in blocks of 8 MiB, four at a time",
    workload: { kind: "upload", bytes, blockBytes: 8 << 20 },
    connections: 4,
    against: ["bare node:http", "disk write"],
    reaches: [ofSlowerLimit, cpuOf("bare node:http")],
  },
  {
    ...base,
    // The answer carries the MD5 of the whole body, and one MD5 cannot be split among threads.
    name: "upload of 64 MiB in one request",
    workload: { kind: "upload", bytes },
    against: ["bare node:http", "disk write", "MD5 alone"],
    reaches: [ofSlowerLimit, ofMd5, cpuOf("bare node:http")],
  },
  {
    ...base,
    name: "download of 64 MiB",
    workload: { kind: "download", bytes },
    against: ["bare node:http"],
    reaches: [throughputOf("bare node:http", 0.5), cpuOf("bare node:http")],
  },
];

export const blobTransfer: Question = {
  name: "blob-transfer",
  asks: "What share of the disk's and of node:http's own rate do large blobs reach?",
  service: "blob",
  async run(bench) {
    // Checksums are computed in separate threads, which a single core would not show. The load generator only
    // copies and leaves most of the other core free; its share is reported.
    await bench.startRowhouse("rowhouse", { cores: "all" });
    await bench.compareAll(cases);
  },
};
