import { printFilter } from "@rowhouse/protocol/filter-printer";
import type { ComparisonNode, FilterNode, Literal } from "@rowhouse/protocol/filter-tree";
import { LIMITS } from "@rowhouse/protocol/limits";
import { INDEX_PARTS_MAX } from "../query/indexes/index-definition.ts";
import type { Remedy } from "./remedy.ts";

/** The conditions that every match of a filter meets and no key answers, sorted by their use for an index. */
interface Wanted {
  /** Equalities on properties with many values, one per property: an index is looked up by them. */
  readonly equal: readonly ComparisonNode[];
  /** Bounds of one property: an index is ordered by it. */
  readonly range: readonly ComparisonNode[];
  /** Conditions without an order: Booleans, `ne`, `not`. The entities that meet them can be stored separately. */
  readonly picks: readonly FilterNode[];
  /** Whether the filter asks for times of writing, which no index can contain. */
  readonly timestamps: boolean;
  /** Alternatives with different properties. */
  readonly alternatives: readonly FilterNode[];
  /** Conditions that an index on `equal` and `range` does not answer. */
  readonly rest: readonly FilterNode[];
}

/**
 * The index that answers what keys leave open, with its keys written out for a table; undefined where none
 * does.
 */
export function indexAcrossPartitions(table: string, filter: FilterNode): Remedy | undefined {
  const wanted = wantedOf(filter);
  const { alternatives, equal, picks, range, timestamps } = wanted;
  if (equal.length > 0 || range.length > 0) return tableByColumns(table, wanted);
  if (timestamps) {
    return {
      ...OWN_TIME,
      layout: [
        `${tableName(table, "ByTime")}: PartitionKey = ${BUCKET}, RowKey = ${TICKS}_<PartitionKey>_<RowKey> of ${table}`,
        `query: PartitionKey eq '<bucket>' and RowKey lt '${OLDEST}'${EACH_BUCKET}`,
      ],
    };
  }
  if (picks.length > 0) {
    const index = tableName(table, nameOfPicks(picks));
    return {
      pattern: "inter-partition secondary index",
      advice:
        "Store a second entity for each match, and only for matches: a value that most entities share makes a poor partition key.",
      layout: [
        `${index}: PartitionKey and RowKey as in ${table}; exists only while ${conditionOf(picks)}`,
        `query: all of ${index}`,
      ],
    };
  }
  const open = alternatives.filter((each) => !isOfKey(each, "PartitionKey"));
  return remedyOfAlternatives(open, (each) => indexAcrossPartitions(table, each));
}

/** A table whose partition key is the first value asked for, or a bucket if only a range is. */
function tableByColumns(table: string, { equal, range, rest }: Wanted): Remedy {
  const [first, ...others] = equal;
  const columns = [...equal, ...range.slice(0, 1)];
  const rows = new RowOrder("", others, range);
  const index = tableName(
    table,
    `By${columns.map(({ property }) => capital(property)).join("And")}`,
  );
  const tail = columns.some(({ property }) => property === "RowKey")
    ? "<PartitionKey>"
    : "<PartitionKey>_<RowKey>";
  const found = columns.map(({ property }) => property).join(" and ");
  return {
    pattern: "inter-partition secondary index",
    advice: `Maintain an index table keyed by ${found}, whose entities hold the original keys or a copy of the properties you read.`,
    layout: [
      `${index}: PartitionKey = ${first ? slotOf(first) : BUCKET}, RowKey = ${rows.key(tail)} of ${table}`,
      `query: PartitionKey eq '${first ? slotOf(first) : "<bucket>"}'${rows.condition()}${first ? "" : EACH_BUCKET}`,
      ...escapes(equal),
      ...filters(rest),
    ],
    kept: keptIndex(index, table, columns, false),
  };
}

/** Undefined where the key would have to name what no index can be sorted by. */
function keptIndex(
  index: string,
  table: string,
  columns: readonly ComparisonNode[],
  isLocal: boolean,
): string | undefined {
  const sortable = columns.slice(0, INDEX_PARTS_MAX - (isLocal ? 1 : 0));
  if (sortable.some(({ property }) => property === "PartitionKey" || property === "RowKey")) {
    return undefined;
  }
  const parts = sortable.map(({ property, literal }) => `${property}:${literal.type.slice(4)}`);
  const key = (isLocal ? ["PartitionKey", ...parts] : parts).join(",");
  return `rowhouse index create ${index} --table ${table} --key ${key}`;
}

/** The same inside a partition, where a transaction keeps entity and index consistent. */
export function indexInPartition(table: string, filter: FilterNode): Remedy | undefined {
  const { alternatives, equal, picks, range, rest, timestamps } = wantedOf(filter);
  const columns = [...equal, ...range.slice(0, 1)];
  const [first] = columns;
  if (first !== undefined) {
    const rows = new RowOrder(`${first.property.toLowerCase()}_`, equal, range);
    const named = columns.map(({ property }) => property).join(" and ");
    const remedy = siblings("each entity", `with ${named} in its row key`, [
      `${table}: PartitionKey unchanged, RowKey = ${rows.key("<RowKey>")}`,
      `query: PartitionKey eq '<PartitionKey>'${rows.condition()}`,
      ...escapes(equal),
      ...filters(rest),
    ]);
    const index = tableName(
      table,
      `By${columns.map(({ property }) => capital(property)).join("And")}`,
    );
    return { ...remedy, kept: keptIndex(index, table, columns, true) };
  }
  if (timestamps) {
    return {
      ...OWN_TIME,
      layout: [
        `${table}: PartitionKey unchanged, RowKey = ${TICKS}_<RowKey>`,
        `query: PartitionKey eq '<PartitionKey>' and RowKey lt '${OLDEST}'`,
      ],
    };
  }
  if (picks.length > 0) {
    const prefix = `${nameOfPicks(picks)
      .replace(/(?!^)(?=[A-Z])/, "_")
      .toLowerCase()}_`;
    return siblings("each matching entity", "under its own row key", [
      `${table}: PartitionKey unchanged, RowKey = ${prefix}<RowKey>; exists only while ${conditionOf(picks)}`,
      `query: PartitionKey eq '<PartitionKey>' and RowKey ge '${prefix}' and RowKey lt '${after(prefix)}'`,
    ]);
  }
  const open = alternatives.filter((each) => !isOfKey(each, "RowKey"));
  return remedyOfAlternatives(open, (each) => indexInPartition(table, each));
}

function siblings(whose: string, how: string, layout: readonly string[]): Remedy {
  return {
    pattern: "intra-partition secondary index",
    advice: `Write a copy of ${whose} ${how}, in the same partition and transaction; queries of the whole partition must then exclude the copies by row key.`,
    layout,
  };
}

/** Remedies an "or" of different properties: each alternative by itself. */
function remedyOfAlternatives(
  alternatives: readonly FilterNode[],
  remedyOf: (alternative: FilterNode) => Remedy | undefined,
): Remedy | undefined {
  const remedies = alternatives.flatMap((each) => remedyOf(each) ?? []);
  if (remedies.length === 0 || remedies.length < alternatives.length) return undefined;
  return {
    pattern: remedies[0]!.pattern,
    advice: `No single key answers an "or" of different properties: send a query for each alternative, in parallel, and drop duplicates.`,
    layout: [...new Set(remedies.flatMap(({ layout }) => layout))],
  };
}

function wantedOf(filter: FilterNode): Wanted {
  const equal = new Map<string, ComparisonNode>();
  const range: ComparisonNode[] = [];
  const picks: FilterNode[] = [];
  const alternatives: FilterNode[] = [];
  const rest: FilterNode[] = [];
  let timestamps = false;
  for (const clause of filter.kind === "and" ? filter.clauses : [filter]) {
    const known = clause.kind === "or" ? sameEquality(clause.clauses) : clause;
    if (known === undefined) {
      if (clause.kind === "or") alternatives.push(...clause.clauses);
    } else if (known.kind !== "comparison") {
      if (known.kind === "constant") continue;
      picks.push(known);
    } else if (known.property === "Timestamp") timestamps = true;
    else if (known.literal.type === "Edm.Boolean" || known.operator === "ne") picks.push(known);
    else if (known.operator === "eq") {
      if (!equal.has(known.property)) equal.set(known.property, known);
      continue;
    } else if (known.property === (range[0]?.property ?? known.property)) {
      range.push(known);
      continue;
    }
    rest.push(clause);
  }
  const isFound = range.some(({ property }) => equal.has(property));
  return {
    ...{ equal: [...equal.values()], picks, timestamps, alternatives },
    range: isFound ? [] : range,
    rest: isFound ? [...rest, ...range] : rest,
  };
}

/**
 * The first of several equalities on one property, which are as many queries of one index; undefined for
 * other alternatives.
 */
function sameEquality(clauses: readonly FilterNode[]): ComparisonNode | undefined {
  const [first] = clauses;
  const isSame = (each: FilterNode) =>
    each.kind === "comparison" &&
    first?.kind === "comparison" &&
    each.operator === "eq" &&
    each.property === first.property;
  return first?.kind === "comparison" && clauses.every(isSame) ? first : undefined;
}

/** Whether a key answers the condition or narrows it down. */
function isOfKey(filter: FilterNode, key: "PartitionKey" | "RowKey"): boolean {
  if (filter.kind === "and") return filter.clauses.some((clause) => isOfKey(clause, key));
  return filter.kind === "comparison" && filter.property === key;
}

/** Builds a row key, and the condition that selects a range of such row keys. */
class RowOrder {
  readonly #prefix: string;
  readonly #range: readonly ComparisonNode[];

  constructor(prefix: string, equal: readonly ComparisonNode[], range: readonly ComparisonNode[]) {
    this.#prefix = prefix + equal.map((each) => `${slotOf(each)}_`).join("");
    this.#range = range;
  }

  key(tail: string): string {
    const [first] = this.#range;
    return `${this.#prefix}${first ? `${orderedSlotOf(first)}_` : ""}${tail}`;
  }

  condition(): string {
    const prefix = this.#prefix;
    const bound = (operators: readonly string[]) =>
      this.#range.find(({ operator }) => operators.includes(operator));
    const [lower, upper] = [bound(["ge", "gt"]), bound(["le", "lt"])];
    const from = lower && `${prefix}<from>${lower.operator === "gt" ? END : ""}`;
    const to = upper && `${prefix}<to>${upper.operator === "le" ? END : ""}`;
    const [start, end] = [from ?? prefix, to ?? (prefix && after(prefix))];
    return `${start && ` and RowKey ge '${start}'`}${end && ` and RowKey lt '${end}'`}`;
  }
}

/** The character after "_", which follows a value. */
const END = "`";
const BUCKET = "<hash of PartitionKey and RowKey modulo 16, two digits>";
const EACH_BUCKET = ", one query per bucket, in parallel, merged by row key";
const TICKS = "<maximum ticks minus ticks of the write, 19 digits>";
const OLDEST = "<maximum ticks minus ticks of the oldest write wanted>";

const OWN_TIME = {
  pattern: "log tail",
  advice:
    "The service sets Timestamp but sorts nothing by it: put the time of the write into a row key, newest first.",
} as const;

function after(prefix: string): string {
  return prefix.slice(0, -1) + END;
}

function slotOf({ property }: ComparisonNode): string {
  return `<${property}>`;
}

/** How to write values as text that sorts as they do. */
const SORTABLE: Readonly<Record<Literal["type"], string>> = {
  "Edm.String": "",
  "Edm.Guid": "",
  "Edm.Boolean": "",
  "Edm.Binary": " as hexadecimal digits",
  "Edm.DateTime": " as yyyyMMddHHmmss",
  "Edm.Double": " as fixed-width digits",
  "Edm.Int32": " as fixed-width digits",
  "Edm.Int64": " as fixed-width digits",
};

function orderedSlotOf({ literal, property }: ComparisonNode): string {
  return `<${property}${SORTABLE[literal.type]}>`;
}

/** Advice for values that contain characters not allowed in keys. */
function escapes(equal: readonly ComparisonNode[]): string[] {
  return equal.flatMap(({ literal, property }) =>
    literal.type === "Edm.String" && /[/\\#?\p{Cc}]/u.test(literal.value)
      ? [`keys: encode the characters that keys cannot contain (/ \\ # ?) in <${property}>`]
      : [],
  );
}

/** An index has only one order: other conditions remain a filter on its results. */
function filters(rest: readonly FilterNode[]): string[] {
  return rest.length > 0
    ? [`then filter the results by ${conditionOf(rest)}: copy those properties, too`]
    : [];
}

function conditionOf(clauses: readonly FilterNode[]): string {
  const [only] = clauses;
  const all: FilterNode = clauses.length > 1 ? { kind: "and", clauses } : only!;
  return printFilter(all).slice(0, 200);
}

/** `OpenTrue` for `Open eq true`. */
function nameOfPicks([first]: readonly FilterNode[]): string {
  if (first?.kind === "property") return `${capital(first.property)}True`;
  if (first?.kind !== "comparison" || first.literal.type !== "Edm.Boolean") return "Selected";
  const { literal, operator, property } = first;
  const value = operator === "ne" ? !literal.value : literal.value;
  return `${capital(property)}${value ? "True" : "False"}`;
}

/** Table names contain only letters and digits, and their length is limited. */
function tableName(table: string, suffix: string): string {
  return (table + suffix).replace(/[^A-Za-z0-9]/g, "").slice(0, LIMITS.tableNameLengthMax);
}

function capital(name: string): string {
  return name.slice(0, 1).toUpperCase() + name.slice(1);
}
