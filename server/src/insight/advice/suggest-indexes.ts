import { parseFilter } from "@rowhouse/protocol/filter-parser";
import type { ComparisonNode, FilterNode } from "@rowhouse/protocol/filter-tree";
import { INDEX_PARTS_MAX, parseIndexKey } from "../../query/indexes/index-definition.ts";
import { planIndexes } from "../../query/indexes/index-planner.ts";
import { planQuery } from "../../query/planner.ts";
import { shapeOf } from "../query-remedy.ts";
import type { QueryEvent, WriteEvent } from "../recording.ts";
import { readRecording } from "./read-recording.ts";

/** An index that recorded queries would use, with what it saves and costs. */
export interface IndexSuggestion {
  readonly table: string;
  /** As `rowhouse index create --key` takes it. */
  readonly key: string;
  readonly queries: number;
  readonly read: number;
  readonly returned: number;
  /** Mutations of the table; how many of them change the key is not recorded. */
  readonly writes: number;
  /** Microseconds of the server's CPU that the queries would save, and that writes would cost at most. */
  readonly savedMicros: number;
  readonly costMicros: number;
  /** Why not to declare it; undefined if it pays. */
  readonly refusal: string | undefined;
}

/** Scanning an entity, and changing an entry with a random key; see the manual's table of costs. */
const SCANNED_MICROS = 1.9;
const CHANGED_MICROS = 21;
/** Seldom enough to be a report that somebody ran. */
const QUERIES_MIN = 3;
/** Above this share a scan is as good. */
const SELECTIVITY_MAX = 0.4;

/**
 * The indexes that the queries of a recording ask for, the most useful first: for each, the properties that are compared
 * for equality, then one that is compared for order. A part that no query uses is never added.
 * @param lines those of the recording
 */
export function suggestIndexes(lines: Iterable<string>): readonly IndexSuggestion[] {
  const wanted = new Map<string, Wanted>();
  const writes = new Map<string, number>();
  readRecording(lines, {
    queried(query: QueryEvent) {
      const key = query.filter === undefined ? undefined : keyFor(query.filter);
      if (key === undefined) return;
      const table = `${query.account}/${query.table}`;
      const id = `${table} ${key}`;
      const counts = wanted.get(id) ?? { table, key, queries: 0, read: 0, returned: 0, dense: 0 };
      wanted.set(id, counts);
      if (!query.continued) counts.queries++;
      if (query.returned > SELECTIVITY_MAX * query.read) {
        if (!query.continued) counts.dense++;
        counts.common = query.filter;
      }
      counts.read += query.read;
      counts.returned += query.returned;
    },
    wrote({ account, table, mutations }: WriteEvent) {
      const id = `${account}/${table}`;
      writes.set(id, (writes.get(id) ?? 0) + mutations.length);
    },
  });
  const suggestions = [...wanted.values()].map((counts): IndexSuggestion => {
    const changes = writes.get(counts.table) ?? 0;
    const savedMicros = Math.round((counts.read - counts.returned) * SCANNED_MICROS);
    const costMicros = Math.round(changes * CHANGED_MICROS);
    const { table, key, queries, read, returned } = counts;
    const figures = {
      table,
      key,
      queries,
      read,
      returned,
      writes: changes,
      savedMicros,
      costMicros,
    };
    return { ...figures, refusal: refusalOf(figures, counts) };
  });
  return suggestions.sort(
    (a, b) =>
      Number(a.refusal !== undefined) - Number(b.refusal !== undefined) ||
      b.savedMicros - b.costMicros - (a.savedMicros - a.costMicros),
  );
}

/** The queries that ask for an index. */
interface Wanted {
  readonly table: string;
  readonly key: string;
  queries: number;
  read: number;
  returned: number;
  /** Those for which a scan is as good, and the filter of one. */
  dense: number;
  common?: string | undefined;
}

/** How many shapes of recorded queries an index would serve. */
export interface IndexUses {
  readonly shapes: number;
  readonly used: number;
}

/** @param key as `printIndexKey` prints it */
export function usesOf(lines: Iterable<string>, table: string, key: string): IndexUses {
  const { isLocal, parts } = parseIndexKey(key);
  const index = {
    name: "DryRun",
    isLocal,
    parts: parts.map((part) => ({ ...part, type: part.type ?? ("Edm.String" as const) })),
  };
  const shapes = new Map<string, boolean>();
  readRecording(lines, {
    queried({ filter, table: name }) {
      if (
        filter === undefined ||
        filter.trim() === "" ||
        name.toLowerCase() !== table.toLowerCase()
      )
        return;
      const tree = parseFilter(filter);
      const shape = shapeOf(tree);
      if (!shapes.has(shape))
        shapes.set(shape, planIndexes(planQuery(tree), [index]) !== undefined);
    },
  });
  return { shapes: shapes.size, used: [...shapes.values()].filter((isUsed) => isUsed).length };
}

function refusalOf(
  { queries, read, returned, savedMicros, costMicros }: Omit<IndexSuggestion, "refusal">,
  { dense, common }: Wanted,
): string | undefined {
  if (queries < QUERIES_MIN) return `unused: ${queries} of the recorded queries would use it`;
  if (returned > SELECTIVITY_MAX * read) {
    if (dense < queries) {
      return `skewed: ${dense} of ${queries} queries match so much that a scan is as good, such as ${common}`;
    }
    return `unselective: ${returned} of ${read} entities match, so a scan is as good`;
  }
  if (costMicros > savedMicros) {
    return `volatile: writes could cost ${costMicros} µs, queries would save ${savedMicros}`;
  }
  return undefined;
}

/** The key that would answer a filter best; undefined if the keys of the table do, or no index can. */
function keyFor(filter: string): string | undefined {
  if (filter.trim() === "") return undefined;
  const plan = planQuery(parseFilter(filter));
  if (!plan.residual || plan.class === "point query") return undefined;
  const comparisons = comparisonsOf(plan.residual);
  const equal = [...new Set(comparisons.filter(isEquality).map(printPart))];
  const ordered = comparisons.filter((each) => !isEquality(each) && each.operator !== "ne");
  const range = ordered.map(printPart).find((part) => !equal.includes(part));
  const parts = range === undefined ? equal : [...equal, range];
  if (parts.length === 0) return undefined;
  const isLocal = plan.class === "partition scan" || plan.class === "range query";
  return [...(isLocal ? ["PartitionKey"] : []), ...parts].slice(0, INDEX_PARTS_MAX).join(",");
}

/** The conditions that every match satisfies. */
function comparisonsOf(filter: FilterNode): readonly ComparisonNode[] {
  const clauses = filter.kind === "and" ? filter.clauses : [filter];
  return clauses.filter(
    (clause) =>
      clause.kind === "comparison" &&
      !["PartitionKey", "RowKey", "Timestamp"].includes(clause.property),
  ) as readonly ComparisonNode[];
}

function isEquality({ operator }: ComparisonNode): boolean {
  return operator === "eq";
}

function printPart({ property, literal }: ComparisonNode): string {
  return `${property}:${literal.type.slice("Edm.".length)}`;
}
