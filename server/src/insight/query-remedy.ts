import { printFilter } from "@rowhouse/protocol/filter-printer";
import type { FilterNode } from "@rowhouse/protocol/filter-tree";
import { after, type Plan } from "../query/plan.ts";
import { indexAcrossPartitions, indexInPartition } from "./index-layout.ts";
import type { Remedy } from "./remedy.ts";

/** Undefined: the query is as cheap as it can be. */
export type QueryRemedy = Remedy | undefined;

/**
 * The better query or key for a plan, derived from its class and from the part of its filter that keys cannot
 * answer. Undefined for point and range queries whose filter the keys answer completely.
 */
export function remedyOfQuery(table: string, plan: Plan): QueryRemedy {
  const { class: planClass, residual } = plan;
  if (planClass === "nothing") return undefined;
  const misspelt = residual && misspeltKey(residual);
  if (misspelt !== undefined) return spellKey(misspelt);
  if (planClass === "table scan" || planClass === "partition range") {
    if (residual === undefined) return namePartition(table, plan);
    if (asksRowKeyAlone(residual)) return ROW_KEY_ALONE;
    return indexAcrossPartitions(table, residual) ?? namePartition(table, plan);
  }
  const separate = separateReads(plan);
  if (residual === undefined) return separate > 1 ? queryEach(plan, separate) : undefined;
  if (planClass === "point query") return undefined;
  return indexInPartition(table, residual) ?? askForLess(table);
}

/**
 * The number of a plan's reads that the cloud would connect by scanning what is between them. Two reads with
 * a single key between them, as `ne` produces, count as one.
 */
export function separateReads({ reads }: Plan): number {
  return reads.filter((read, i) => {
    const before = reads[i - 1];
    if (before?.kind !== "range" || read.kind !== "range") return true;
    const { end } = before;
    if (end === undefined || end.partitionKey !== read.start.partitionKey) return true;
    return read.start.rowKey !== after(end.rowKey);
  }).length;
}

/** The cost of each class in words; the plan's own text names the keys. */
const CLASS_READINGS: Readonly<Record<Plan["class"], string>> = {
  nothing: "No entity can match this filter: nothing is read.",
  "point query": "One entity by both of its keys: the cheapest query there is.",
  "range query": "A range of row keys in one partition: only that range is read.",
  "partition scan": "Every entity of one partition is read.",
  "partition range": "Every entity of several partitions is read.",
  "table scan": "Every entity of the table is read: the cost grows with the table.",
};

/** What a plan means in cost. */
export function readingOf({ class: planClass, reads }: Plan): string {
  const reading = CLASS_READINGS[planClass];
  if (reads.length < 2) return reading;
  return `${reads.length} reads. The most expensive is a ${planClass}: ${reading.charAt(0).toLowerCase()}${reading.slice(1)}`;
}

/**
 * The filter without its constants: what queries of one kind have in common. A list of alternatives is
 * reduced to two, however long it is.
 */
export function shapeOf(filter: FilterNode): string {
  return printFilter(shortenLists(filter)).replace(LITERAL, "$1?");
}

/** Reduces consecutive clauses that differ only in constants to the first two. */
function shortenLists(filter: FilterNode): FilterNode {
  if (filter.kind === "not") return { kind: "not", clause: shortenLists(filter.clause) };
  if (filter.kind !== "or" && filter.kind !== "and") return filter;
  const clauses = filter.clauses.map(shortenLists);
  const isRepeated = (i: number) => i > 0 && isAlike(clauses[i - 1]!, clauses[i]!);
  const { kind } = filter;
  return { kind, clauses: clauses.filter((_, i) => !isRepeated(i) || !isRepeated(i - 1)) };
}

/** Whether both differ only in constants. */
function isAlike(a: FilterNode, b: FilterNode): boolean {
  switch (a.kind) {
    case "or":
    case "and":
      return (
        a.kind === b.kind &&
        a.clauses.length === b.clauses.length &&
        a.clauses.every((clause, i) => isAlike(clause, b.clauses[i]!))
      );
    case "not":
      return b.kind === "not" && isAlike(a.clause, b.clause);
    case "comparison":
      return b.kind === "comparison" && a.property === b.property && a.operator === b.operator;
    case "property":
      return b.kind === "property" && a.property === b.property;
    case "constant":
      return b.kind === "constant" && a.value === b.value;
  }
}

/** A literal follows an operator; Boolean and number literals have no quotes. */
const LITERAL =
  /(\b(?:eq|ne|lt|le|gt|ge) )(?:(?:guid|datetime|X|binary)?'(?:[^']|'')*'|-?[\d.][\w.+-]*|true|false|NaN|-?INF(?:inity)?)/g;

/** A property that differs from a key only in case: no entity's keys have that name. */
function misspeltKey(filter: FilterNode): string | undefined {
  switch (filter.kind) {
    case "comparison":
    case "property": {
      const { property } = filter;
      const isKey = KEYS.includes(property);
      return !isKey && keySpelt(property) !== undefined ? property : undefined;
    }
    case "and":
    case "or":
      return filter.clauses.map(misspeltKey).find((found) => found !== undefined);
    case "not":
      return misspeltKey(filter.clause);
    case "constant":
      return undefined;
  }
}

const KEYS = ["PartitionKey", "RowKey"];

function keySpelt(property: string): string | undefined {
  return KEYS.find((key) => key.toLowerCase() === property.toLowerCase());
}

/** Whether every match must have one of certain row keys, in any partition. */
function asksRowKeyAlone(filter: FilterNode): boolean {
  switch (filter.kind) {
    case "comparison":
      return filter.property === "RowKey" && filter.operator === "eq";
    case "and":
      return filter.clauses.some(asksRowKeyAlone);
    case "or":
      return filter.clauses.every(asksRowKeyAlone);
    default:
      return false;
  }
}

function spellKey(property: string): Remedy {
  return {
    pattern: "point query",
    advice: `Property names are case-sensitive: write ${keySpelt(property)}; ${property} is a different property.`,
    layout: [],
  };
}

const ROW_KEY_ALONE: Remedy = {
  pattern: "point query",
  advice:
    "A row key alone does not locate an entity: name its partition key as well, or make this value the partition key.",
  layout: ["query: PartitionKey eq '<its partition>' and RowKey eq '<this value>'"],
};

function namePartition(table: string, plan: Plan): Remedy {
  const residual = plan.residual ? printFilter(plan.residual).slice(0, 200) : "";
  const often = residual ? `query for ${residual} often` : "run this query often";
  return {
    pattern: "partition key for the query",
    advice: `Name one partition in the filter; if you ${often}, store its results under a partition key of their own.`,
    layout: [
      `${table}: PartitionKey = <a value that the query knows>, RowKey = <the order it needs>`,
    ],
  };
}

function askForLess(table: string): Remedy {
  return {
    pattern: "compound key",
    advice:
      "No single index answers this filter: start the row key with a value that narrows the query, and query that range of row keys.",
    layout: [
      `${table}: PartitionKey unchanged, RowKey = <the value that narrows the query>_<RowKey>`,
    ],
  };
}

function queryEach({ class: planClass }: Plan, reads: number): Remedy {
  return {
    pattern: planClass === "point query" ? "point query" : "one partition per query",
    advice: `This server makes ${reads} reads; the cloud scans for an "or" over keys. Send one query per read, in parallel.`,
    layout: [],
  };
}
