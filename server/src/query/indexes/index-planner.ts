import { printFilter } from "@rowhouse/protocol/filter-printer";
import type { ComparisonNode, FilterNode, OrNode } from "@rowhouse/protocol/filter-tree";
import { isBefore, type KeyPosition, type KeyRead, type Plan, type PlanClass } from "../plan.ts";
import type { IndexDefinition } from "./index-definition.ts";
import {
  type CodeRange,
  codesEqualTo,
  type EntryRange,
  entriesBetween,
  intersectRanges,
  partitionsBetween,
  rangesWhere,
  rowPrefixOf,
} from "./index-key.ts";

/**
 * How indexes find the entities of a query in place of the reads of `plan`. The entities found are then fetched and
 * tested as if they had been scanned, so an index decides only which entities are looked at: everything that matches is
 * among them.
 *
 * "runs": equality on every part of each key, so entries are in the order of their entities, and are merged.
 * "collect": the keys of intervals are collected, and the smallest ones kept.
 */
export interface IndexPlan {
  readonly shape: "runs" | "collect";
  /** One for each alternative of the filter. */
  readonly branches: readonly IndexBranch[];
  /** What would be read without indexes. No entity outside its reads is returned. */
  readonly plan: Plan;
  /** Of the reads in the tables of the indexes. */
  readonly class: PlanClass;
}

export interface IndexBranch {
  readonly index: IndexDefinition;
  /** The conditions that the key of the index answers. */
  readonly conditions: readonly ComparisonNode[];
  readonly scans: readonly IndexScan[];
}

/** Entries to read: those of a run, if their RowKeys begin with `rowPrefix` and go on with the keys of their entities. */
export interface IndexScan {
  readonly entries: EntryRange;
  readonly run: IndexRun | undefined;
}

export interface IndexRun {
  readonly partitionKey: string;
  readonly rowPrefix: string;
  /** The entities that matter, from `from` up to `to` (excluded); undefined: to the last. */
  readonly from: KeyPosition;
  readonly to: KeyPosition | undefined;
}

/** Each costs a look-up for every page. */
const SCANS_MAX = 32;

/**
 * Finds indexes for a plan that leaves conditions to test; undefined if none helps. Conditions that no index can answer
 * (`ne`, `not`, a missing property, any other property) stay to be tested, which they are in any case; but each
 * alternative of an `or` needs an index.
 */
export function planIndexes(
  plan: Plan,
  indexes: readonly IndexDefinition[],
): IndexPlan | undefined {
  const { reads, residual } = plan;
  if (residual === undefined || indexes.length === 0 || plan.class === "point query")
    return undefined;
  const branches = new Search(reads, indexes).solve([residual]);
  if (!branches) return undefined;
  const scans = branches.flatMap((branch) => branch.scans);
  const isRuns = scans.every(({ run }) => run !== undefined);
  const isWide = scans.some(
    ({ entries: { start, end } }) => start.partitionKey !== end.partitionKey,
  );
  return {
    shape: isRuns ? "runs" : "collect",
    branches,
    plan,
    class: isWide ? "partition range" : "range query",
  };
}

/**
 * The plan in one line of text:
 *
 *     index runs ByLastName (LastName eq 'Jones') instead of …
 *     index collect ByYear (Year ge 1990 and Year lt 2000) + ByTitle (Title eq 'Alien') instead of …
 */
export function explainIndexes({ shape, branches }: IndexPlan, planText: string): string {
  const shown = branches.slice(0, BRANCHES_SHOWN).map(({ index, conditions }) => {
    const text = printFilter(conditionsOf(conditions)).replace(/[^ -~]/g, "?");
    return `${index.name} (${text.length > 300 ? `${text.slice(0, 300)}...` : text})`;
  });
  const more = branches.length - shown.length;
  return `index ${shape} ${shown.join(" + ")}${more > 0 ? `, and ${more} more` : ""} instead of ${planText}`;
}

const BRANCHES_SHOWN = 4;

function conditionsOf(conditions: readonly ComparisonNode[]): FilterNode {
  return conditions.length === 1 ? conditions[0]! : { kind: "and", clauses: conditions };
}

/** Whether an entity is among the reads, which are disjoint and in key order. */
export function isAmong(reads: readonly KeyRead[], position: KeyPosition): boolean {
  let low = 0;
  let high = reads.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const read = reads[middle]!;
    if (isBefore(position, startOf(read))) high = middle;
    else low = middle + 1;
  }
  const read = reads[low - 1];
  if (read === undefined) return false;
  if (read.kind === "range") return isBefore(position, read.end);
  return read.partitionKey === position.partitionKey && read.rowKey === position.rowKey;
}

function startOf(read: KeyRead): KeyPosition {
  return read.kind === "range" ? read.start : read;
}

/** Exclusive; undefined for the end of the table. */
function endOf(read: KeyRead): KeyPosition | undefined {
  if (read.kind === "range") return read.end;
  return { partitionKey: read.partitionKey, rowKey: `${read.rowKey}\0` };
}

/** A part of the table that local indexes hold together. */
interface Partition {
  readonly partitionKey: string;
  readonly from: KeyPosition;
  readonly to: KeyPosition | undefined;
}

class Search {
  readonly #indexes: readonly IndexDefinition[];
  readonly #from: KeyPosition;
  readonly #to: KeyPosition | undefined;
  /** Undefined if the reads are not each within one partition, of few. */
  readonly #partitions: readonly Partition[] | undefined;
  #scansLeft = SCANS_MAX;

  constructor(reads: readonly KeyRead[], indexes: readonly IndexDefinition[]) {
    this.#indexes = indexes;
    this.#from = startOf(reads[0]!);
    this.#to = endOf(reads.at(-1)!);
    this.#partitions = partitionsOf(reads);
  }

  /** Branches that together find whatever satisfies all of the filters. */
  solve(filters: readonly FilterNode[]): readonly IndexBranch[] | undefined {
    const comparisons: ComparisonNode[] = [];
    const alternatives: OrNode[] = [];
    for (const filter of filters) {
      for (const clause of filter.kind === "and" ? filter.clauses : [filter]) {
        if (clause.kind === "comparison") comparisons.push(clause);
        else if (clause.kind === "or") alternatives.push(clause);
        else if (clause.kind === "property") comparisons.push(isTrue(clause.property));
      }
    }
    const best = this.#best(comparisons);
    if (best && isRun(best)) return this.#afford([best]);
    for (const { clauses } of alternatives) {
      const branches = this.#union(clauses, comparisons);
      if (branches && (!best || branches.every(isRun))) return branches;
    }
    return best && this.#afford([best]);
  }

  #union(
    clauses: readonly FilterNode[],
    comparisons: readonly ComparisonNode[],
  ): readonly IndexBranch[] | undefined {
    if (clauses.length > SCANS_MAX) return undefined;
    const scansLeft = this.#scansLeft;
    const branches: IndexBranch[] = [];
    for (const clause of clauses) {
      const found = this.solve([clause, ...comparisons]);
      if (!found) {
        this.#scansLeft = scansLeft;
        return undefined;
      }
      branches.push(...found);
    }
    return branches;
  }

  #afford(branches: readonly IndexBranch[]): readonly IndexBranch[] | undefined {
    const scans = branches.reduce((count, branch) => count + branch.scans.length, 0);
    if (scans > this.#scansLeft) return undefined;
    this.#scansLeft -= scans;
    return branches;
  }

  #best(comparisons: readonly ComparisonNode[]): IndexBranch | undefined {
    let best: IndexBranch | undefined;
    let bestRank = 0;
    for (const index of this.#indexes) {
      const found = this.#through(index, comparisons);
      if (found && found.rank > bestRank) {
        best = found.branch;
        bestRank = found.rank;
      }
    }
    return best;
  }

  /** Equality on the first parts of the key, then a range or nothing. */
  #through(
    index: IndexDefinition,
    comparisons: readonly ComparisonNode[],
  ): { readonly branch: IndexBranch; readonly rank: number } | undefined {
    const partitions = index.isLocal ? this.#partitions : undefined;
    if (index.isLocal && !partitions) return undefined;
    const conditions: ComparisonNode[] = [];
    let pinned: readonly (readonly string[])[] = [[]];
    let count = 0;
    for (; count < index.parts.length; count++) {
      const { property } = index.parts[count]!;
      const equality = comparisons.find(
        (each) => each.property === property && each.operator === "eq",
      );
      if (!equality) break;
      const codes = codesEqualTo(index, count, equality.literal);
      const next = pinned.flatMap((before) => codes.map((code) => [...before, code]));
      if (next.length > SCANS_MAX) break;
      pinned = next;
      conditions.push(equality);
    }
    if (count === index.parts.length) {
      const scans = pinned.flatMap((codes) => this.#runs(codes, partitions));
      return { branch: { index, conditions, scans }, rank: 100 + count };
    }
    const range = this.#rangeOf(index, count, comparisons, conditions);
    if (count === 0 && !range) return undefined;
    const scans = pinned.flatMap((codes) => intervals(index, codes, range, partitions));
    if (scans.length > SCANS_MAX) return undefined;
    return { branch: { index, conditions, scans }, rank: 2 * count + (range ? 1 : 0) };
  }

  #rangeOf(
    index: IndexDefinition,
    at: number,
    comparisons: readonly ComparisonNode[],
    conditions: ComparisonNode[],
  ): readonly CodeRange[] | undefined {
    const { property } = index.parts[at]!;
    let range: readonly CodeRange[] | undefined;
    for (const comparison of comparisons) {
      if (comparison.property !== property) continue;
      const ranges = rangesWhere(index, at, comparison.operator, comparison.literal);
      if (!ranges) continue;
      range = range ? intersectRanges(range, ranges) : ranges;
      conditions.push(comparison);
    }
    return range;
  }

  #runs(codes: readonly string[], partitions: readonly Partition[] | undefined): IndexScan[] {
    if (!partitions) {
      const partitionKey = codes[0]!;
      const rowPrefix = rowPrefixOf(codes.slice(1));
      const run = { partitionKey, rowPrefix, from: this.#from, to: this.#to };
      return [{ entries: entriesBetween(partitionKey, rowPrefix), run }];
    }
    const rowPrefix = rowPrefixOf(codes);
    return partitions.map(({ partitionKey, from, to }) => ({
      entries: entriesBetween(partitionKey, rowPrefix),
      run: { partitionKey, rowPrefix, from, to },
    }));
  }
}

function intervals(
  index: IndexDefinition,
  codes: readonly string[],
  range: readonly CodeRange[] | undefined,
  partitions: readonly Partition[] | undefined,
): IndexScan[] {
  const scan = (entries: EntryRange): IndexScan => ({ entries, run: undefined });
  const between = (partitionKey: string, rowPrefix: string) =>
    range
      ? range.map((each) => scan(entriesBetween(partitionKey, rowPrefix, each)))
      : [scan(entriesBetween(partitionKey, rowPrefix))];
  if (partitions) {
    return partitions.flatMap(({ partitionKey }) => between(partitionKey, rowPrefixOf(codes)));
  }
  if (codes.length === 0 && !index.isLocal) {
    return range!.map((each) => scan(partitionsBetween(each)));
  }
  return between(codes[0]!, rowPrefixOf(codes.slice(1)));
}

function isRun({ scans }: IndexBranch): boolean {
  return scans.every(({ run }) => run !== undefined);
}

function isTrue(property: string): ComparisonNode {
  const literal = { type: "Edm.Boolean", value: true } as const;
  return { kind: "comparison", property, operator: "eq", literal };
}

/** The partitions that the reads are in; undefined if a read spans several, or there are many. */
function partitionsOf(reads: readonly KeyRead[]): readonly Partition[] | undefined {
  const partitions: { partitionKey: string; from: KeyPosition; to: KeyPosition | undefined }[] = [];
  for (const read of reads) {
    if (read.class === "partition range" || read.class === "table scan") return undefined;
    const from = startOf(read);
    const end = endOf(read);
    const to = end?.partitionKey === from.partitionKey ? end : undefined;
    const last = partitions.at(-1);
    if (last?.partitionKey === from.partitionKey) last.to = to;
    else partitions.push({ partitionKey: from.partitionKey, from, to });
    if (partitions.length > SCANS_MAX) return undefined;
  }
  return partitions;
}
