import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { planQuery } from "../../query/planner.ts";
import { AZURE_TARGETS } from "../azure-targets.ts";
import type { QueryEvent, WriteEvent } from "../recording.ts";
import { counted, type Finding, getOrMake, nameOf, type Rule, tableOf } from "./rule.ts";

const RANGES_MIN = 10;
const PARTITIONS_MIN = 50;
/** Partitions that begin with one prefix, on average: fewer are hardly worth a range. */
const PARTITIONS_EACH_MIN = 5;
const PREFIXES_MAX = 10_000;
const PARTITIONS_MAX = 10_000;

interface Seen {
  ranges: number;
  readonly prefixes: Set<string>;
  /** The partitions that were written, and the entities written to them. */
  readonly partitions: Map<string, number>;
  /** The first range. */
  example?: QueryEvent;
}

/**
 * Finds partition keys that are too fine: what belongs together is spread over many partitions with an entity or two
 * each, so that it is written one by one and read by ranges over a prefix of the partition key.
 */
export class ManyPartitions implements Rule {
  readonly #tables = new Map<string, Seen>();

  queried(query: QueryEvent): void {
    if (query.class !== "partition range" || query.continued) return;
    const prefix = prefixOf(query.filter ?? "");
    if (prefix === undefined) return;
    const table = this.#tableOf(query);
    table.ranges++;
    table.example ??= query;
    if (table.prefixes.size < PREFIXES_MAX) table.prefixes.add(prefix);
  }

  wrote(write: WriteEvent): void {
    const { partitions } = this.#tableOf(write);
    const before = partitions.get(write.partitionKey);
    if (before === undefined && partitions.size === PARTITIONS_MAX) return;
    partitions.set(write.partitionKey, (before ?? 0) + write.mutations.length);
  }

  #tableOf(event: QueryEvent | WriteEvent): Seen {
    const none = (): Seen => ({ ranges: 0, prefixes: new Set(), partitions: new Map() });
    return getOrMake(this.#tables, tableOf(event), none);
  }

  findings(): Finding[] {
    return [...this.#tables].flatMap(([table, { example, partitions, prefixes, ranges }]) => {
      if (example === undefined || ranges < RANGES_MIN) return [];
      return judge(table, { example, partitions, prefixes, ranges });
    });
  }
}

function judge(
  table: string,
  { example, partitions, prefixes, ranges }: Required<Seen>,
): Finding | [] {
  const related = [...partitions].filter(([key]) => hasPrefix(key, prefixes));
  const entities = related.reduce((sum, [, count]) => sum + count, 0);
  if (related.length < Math.max(PARTITIONS_MIN, PARTITIONS_EACH_MIN * prefixes.size)) return [];
  if (entities > 2 * related.length) return [];
  return {
    ...{ rule: "many-partitions", table, subject: "" },
    title: `${counted(related.length, "partition")} of an entity or two are read by ${counted(ranges, "range")} over a prefix of their keys`,
    evidence: [
      `for example ${example.filter}`,
      `keys such as ${related
        .slice(0, 3)
        .map(([key]) => key)
        .join(", ")}`,
    ],
    cost: `${counted(entities, "write")} that no transaction can join, and ranges that go through many partitions: in the cloud often to several servers, with continuations in between.`,
    remedy: {
      pattern: "partition key for the query",
      advice: `Make the prefix the partition key. What has the same prefix is then read by one query of one partition and changed in transactions of up to 100; all of it together is limited to ${AZURE_TARGETS.partition} entities a second, which the finer key was not.`,
      layout: [
        `${nameOf(table)}: PartitionKey = <the prefix that the ranges read>, RowKey = <the rest of the PartitionKey>_<current RowKey>`,
      ],
    },
  };
}

function hasPrefix(key: string, prefixes: ReadonlySet<string>): boolean {
  for (let end = 1; end <= key.length; end++) if (prefixes.has(key.slice(0, end))) return true;
  return false;
}

/** What all partition keys of the range that a filter reads begin with; undefined where it is nothing. */
function prefixOf(filter: string): string | undefined {
  const { reads } = planQuery(filter.trim() === "" ? undefined : parseFilter(filter));
  const [only] = reads;
  if (only?.kind !== "range" || reads.length > 1 || only.end === undefined) return undefined;
  const start = only.start.partitionKey;
  const end = only.end.partitionKey;
  let common = 0;
  while (common < start.length && start[common] === end[common]) common++;
  // From "a_" to "a`" is everything that begins with "a_".
  const isNext =
    common === start.length - 1 &&
    end.length === start.length &&
    end.charCodeAt(common) === start.charCodeAt(common) + 1;
  const prefix = isNext ? start : start.slice(0, common);
  return prefix === "" ? undefined : prefix;
}
