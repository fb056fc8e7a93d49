import { printFilter } from "@rowhouse/protocol/filter-printer";
import type { KeyRead, Plan, PlanClass } from "@rowhouse/server/query/plan";
import type { ReadEstimate } from "@rowhouse/server/query/table-sketch";
import { count } from "./text.ts";

/** A class in the page's three signs: a word, a colour (by `tone`) and a shape. */
export interface Sign {
  readonly word: string;
  readonly shape: string;
  readonly tone: "free" | "cheap" | "fair" | "dear";
}

const SIGNS: Readonly<Record<PlanClass, Sign>> = {
  nothing: { word: "Nothing", shape: "○", tone: "free" },
  "point query": { word: "Point query", shape: "●", tone: "free" },
  "range query": { word: "Row range", shape: "◧", tone: "cheap" },
  "partition scan": { word: "Partition scan", shape: "▤", tone: "fair" },
  "partition range": { word: "Partition range", shape: "▦", tone: "dear" },
  "table scan": { word: "Table scan", shape: "▥", tone: "dear" },
};

const MANY: Partial<Record<PlanClass, string>> = {
  "point query": "Point queries",
  "range query": "Row ranges",
  "partition scan": "Partition scans",
  "partition range": "Partition ranges",
};

export function signOf({ class: planClass, reads }: Plan): Sign {
  const sign = SIGNS[planClass];
  if (reads.length < 2) return sign;
  return {
    ...sign,
    word: `${count(reads.length)} ${(MANY[planClass] ?? sign.word).toLowerCase()}`,
  };
}

/** `≈ 312`, `312` where the sketch is exact, `at least 312` where it did not reach. */
export function estimated({ least, likely, most }: ReadEstimate): string {
  if (most === undefined) return `at least ${count(least)}`;
  return least === most ? count(likely) : `≈ ${count(likely)}`;
}

/** The cloud answers at most 1,000 entities at a time, and stops at the end of what one of its servers holds. */
const CLOUD_PAGE = 1000;

/** Round trips that the cloud needs at least, without knowing where its servers part the table. */
export function roundTrips({ reads }: Plan, { likely }: ReadEstimate): number {
  if (reads.length === 0) return 0;
  return Math.max(1, Math.ceil(likely / CLOUD_PAGE));
}

/** What happens, step by step. */
export function stepsOf(plan: Plan): string[] {
  const { reads, residual } = plan;
  if (reads.length === 0) return ["No entity can match: nothing is read."];
  const shown = reads.slice(0, STEPS_MAX).map(readStep);
  if (reads.length > STEPS_MAX)
    shown.push(`and ${count(reads.length - STEPS_MAX)} more like these`);
  const test = residual
    ? `test each entity: ${shorten(printFilter(residual))}`
    : "every entity read is returned: the keys answer the whole filter";
  return [...shown, test];
}

const STEPS_MAX = 6;

function readStep(read: KeyRead): string {
  if (read.kind === "point") return `look up (${key(read.partitionKey)}, ${key(read.rowKey)})`;
  const { start, end } = read;
  switch (read.class) {
    case "table scan":
      return "read every partition from its first entity to its last";
    case "partition scan":
      return `read the whole partition ${key(start.partitionKey)}`;
    case "range query": {
      const isOpen = end === undefined || end.partitionKey !== start.partitionKey;
      return `in partition ${key(start.partitionKey)}, read ${interval(start.rowKey, isOpen ? undefined : end.rowKey, "rows")}`;
    }
    case "partition range":
      return `read all rows of ${interval(start.partitionKey, end?.partitionKey, "partitions")}`;
  }
}

/** Bounds that end in NUL are the position just behind a key. */
function interval(from: string, to: string | undefined, what: string): string {
  const start = from.endsWith("\0") ? `after ${key(from.slice(0, -1))}` : `from ${key(from)}`;
  if (to === undefined) return from === "" ? `all ${what}` : `${what} ${start} on`;
  const end = to.endsWith("\0")
    ? `to ${key(to.slice(0, -1))}`
    : `up to ${key(to)}, which is not read`;
  return from === "" ? `${what} ${end}` : `${what} ${start} ${end}`;
}

function key(text: string): string {
  return `“${shorten(text)}”`;
}

function shorten(text: string): string {
  return text.length <= 120 ? text : `${text.slice(0, 120)}…`;
}
