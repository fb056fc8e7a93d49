import { printFilter } from "@rowhouse/protocol/filter-printer";
import type { FilterNode } from "@rowhouse/protocol/filter-tree";
import type { Plan } from "../query/plan.ts";

/** What would make a query cheap, or a design right. */
export interface Cure {
  /** Name of the published pattern. */
  readonly pattern: string;
  /** One sentence: what to do. */
  readonly advice: string;
  /** Keys written out for this table; empty when no key changes. */
  readonly layout: readonly string[];
  /** Whether the cure works on the cloud's Table service as well. */
  readonly portable: boolean;
}

/** The query itself is right: nothing dearer than it must be. */
export type QueryCure = Cure | undefined;

/**
 * The better query or key for a plan, from its class and from what its filter asks that keys cannot
 * answer. Undefined for point and range queries whose filter the keys answer whole.
 */
export function cureOfQuery(table: string, plan: Plan): QueryCure {
  if (plan.class === "nothing") return undefined;
  const property = equalProperty(plan.residual);
  if (plan.class === "table scan" || plan.class === "partition range") {
    if (property?.name === "RowKey") return rowKeyAlone(table);
    // An index of two partition keys would be two hot partitions.
    if (property === undefined || property.isBoolean) return namePartition(table, plan);
    return indexAcrossPartitions(table, property.name);
  }
  if (plan.residual === undefined) return plan.reads.length > 1 ? separateReads(plan) : undefined;
  if (plan.class === "point query") return undefined;
  return property === undefined || property.name === "RowKey"
    ? orderByRowKey(table, plan)
    : indexInPartition(table, property.name);
}

/** Cost of each class in words; the plan's own text says which keys. */
const CLASS_READINGS: Readonly<Record<Plan["class"], string>> = {
  nothing: "No entity can pass this filter: nothing is read.",
  "point query": "One entity by both its keys: the cheapest query there is.",
  "range query": "A range of row keys inside one partition: only that range is read.",
  "partition scan": "One whole partition is read, entity by entity.",
  "partition range": "Several partitions are read whole, entity by entity.",
  "table scan": "The whole table is read, entity by entity; it costs more with every entity added.",
};

/** What a plan means for whoever pays for it. */
export function readingOf({ class: dearest, reads }: Plan): string {
  const reading = CLASS_READINGS[dearest];
  return reads.length < 2 ? reading : `${reads.length} reads, the dearest of this kind: ${reading}`;
}

/**
 * The filter with its constants taken out: what queries of one kind have in common. Of a list of alternatives,
 * however long, two are left.
 */
export function shapeOf(filter: FilterNode): string {
  return printFilter(shortenLists(filter)).replace(LITERAL, "$1?");
}

/** Of clauses in a row that only differ in constants, the first two. */
function shortenLists(filter: FilterNode): FilterNode {
  if (filter.kind === "not") return { kind: "not", clause: shortenLists(filter.clause) };
  if (filter.kind !== "or" && filter.kind !== "and") return filter;
  const clauses = filter.clauses.map(shortenLists);
  const isRepeated = (i: number) => i > 0 && isAlike(clauses[i - 1]!, clauses[i]!);
  const { kind } = filter;
  return { kind, clauses: clauses.filter((_, i) => !isRepeated(i) || !isRepeated(i - 1)) };
}

/** Whether constants are all that differs. */
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

/** A literal stands behind an operator; Boolean and number literals have no quotes. */
const LITERAL =
  /(\b(?:eq|ne|lt|le|gt|ge) )(?:(?:guid|datetime|X|binary)?'(?:[^']|'')*'|-?[\d.][\w.+-]*|true|false|NaN|-?INF(?:inity)?)/g;

interface EqualProperty {
  readonly name: string;
  readonly isBoolean: boolean;
}

/** The property of an equality that every match must fulfil, and that no key answers: one of many values first. */
function equalProperty(filter: FilterNode | undefined): EqualProperty | undefined {
  if (filter?.kind === "comparison" && filter.operator === "eq") {
    return { name: filter.property, isBoolean: filter.literal.type === "Edm.Boolean" };
  }
  if (filter?.kind !== "and") return undefined;
  const found = filter.clauses.flatMap((clause) => equalProperty(clause) ?? []);
  return found.find(({ isBoolean }) => !isBoolean) ?? found[0];
}

function rowKeyAlone(table: string): Cure {
  return {
    pattern: "point query",
    advice:
      "A row key without its partition key finds nothing by itself: ask with both, or make this value the partition key.",
    layout: [`${table}: PartitionKey = <the partition>, RowKey = <the value asked for>`],
    portable: true,
  };
}

function indexAcrossPartitions(table: string, property: string): Cure {
  return {
    pattern: "inter-partition secondary index",
    advice: `Keep a second entity for each, found by ${property}, that holds the two keys or a copy of what is read.`,
    layout: [
      `${table}By${capital(property)}: PartitionKey = <${property}>, RowKey = <PartitionKey>_<RowKey> of ${table}`,
      `query: PartitionKey eq '<${property}>'`,
    ],
    portable: true,
  };
}

function indexInPartition(table: string, property: string): Cure {
  return {
    pattern: "intra-partition secondary index",
    advice: `Write a second copy of each entity in the same partition, in the same transaction, with ${property} in its row key.`,
    layout: [
      `${table}: PartitionKey as it is, RowKey = ${property.toLowerCase()}_<${property}>_<RowKey>`,
      `query: PartitionKey eq '<PartitionKey>' and RowKey ge '${property.toLowerCase()}_<${property}>_' and RowKey lt '${property.toLowerCase()}_<${property}>\`'`,
    ],
    portable: true,
  };
}

function namePartition(table: string, plan: Plan): Cure {
  const asks = plan.residual ? ` for ${printFilter(plan.residual).slice(0, 200)}` : "";
  return {
    pattern: "partition key for the query",
    advice: `Name one partition in the filter; if this question${asks} is asked often, store the answer under a partition key of its own.`,
    layout: [`${table}: PartitionKey = <what this query knows>, RowKey = <the order it wants>`],
    portable: true,
  };
}

function orderByRowKey(table: string, plan: Plan): Cure {
  return {
    pattern: "compound key",
    advice:
      "Put what the filter compares at the front of the row key, so that the partition is entered where the answer begins.",
    layout: [
      `${table}: PartitionKey as it is, RowKey = <value compared in ${printFilter(plan.residual!).slice(0, 200)}>_<RowKey>`,
    ],
    portable: true,
  };
}

function separateReads(plan: Plan): Cure {
  return {
    pattern: plan.class === "point query" ? "point query" : "one partition a query",
    advice: `These are ${plan.reads.length} reads here; the cloud scans for an "or" over keys. Send one query for each, several at a time.`,
    layout: [],
    portable: true,
  };
}

function capital(name: string): string {
  return name.slice(0, 1).toUpperCase() + name.slice(1);
}
