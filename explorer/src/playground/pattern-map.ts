import type { PatternId } from "./patterns.ts";

export interface Mapped {
  /** As the guides call it. */
  readonly name: string;
  readonly when: string;
  /** The entry points of the library that are it. */
  readonly entries: readonly string[];
  readonly tried?: PatternId;
}

/** The published patterns, in the order of the guides. */
export const PATTERN_MAP: readonly Mapped[] = [
  {
    name: "Intra-partition secondary index",
    when: "entities of a partition are looked up by another value",
    entries: ["sibling-index"],
    tried: "sibling-index",
  },
  {
    name: "Inter-partition secondary index",
    when: "the lookup spans partitions, or a value is unique everywhere",
    entries: ["remote-index"],
    tried: "remote-index",
  },
  {
    name: "Eventually consistent transactions",
    when: "several writes must all happen, and no transaction spans them",
    entries: ["saga", "outbox", "queue-worker"],
    tried: "archive",
  },
  {
    name: "Index entities",
    when: "small sets of entities share a value",
    entries: ["list-index", "remote-list", "blob-list"],
  },
  {
    name: "Index table",
    when: "entities have several values each, or an index is added to existing data",
    entries: ["remote-index", "index-life-cycle", "server-index"],
  },
  {
    name: "Denormalization",
    when: "fields of another entity are read with a reference to it",
    entries: ["copies"],
  },
  { name: "Compound key", when: "a parent is read with its children", entries: ["children"] },
  {
    name: "Log tail",
    when: "the newest entries are read first",
    entries: ["log-tail"],
    tried: "log-tail",
  },
  {
    name: "High-volume delete",
    when: "many rows must go at once",
    entries: ["rotation", "bulk-delete"],
    tried: "bulk-delete",
  },
  { name: "Data series", when: "many numbers are read together", entries: ["series"] },
  {
    name: "Wide entities",
    when: "an entity has more than 248 fields",
    entries: ["wide"],
    tried: "wide",
  },
  {
    name: "Large entities",
    when: "a value takes more than 64 KiB",
    entries: ["large-value", "long-text"],
  },
  {
    name: "Prepend and append anti-pattern",
    when: "keys grow with time, and one partition takes all writes",
    entries: ["spread"],
  },
  { name: "Log data anti-pattern", when: "logs are only ever read by time", entries: ["logs"] },
  {
    name: "Heterogeneous entity types",
    when: "several kinds of entities are in one table",
    entries: ["union"],
  },
  {
    name: "Materialized view",
    when: "summaries of data must be quick to read",
    entries: ["view", "view-rebuild"],
  },
];

/** Where a pattern can be tried that the advisor proposes; undefined for what cannot. */
export function triedAs(pattern: string): PatternId | undefined {
  return PATTERN_MAP.find(({ name }) => name.toLowerCase() === pattern)?.tried;
}
