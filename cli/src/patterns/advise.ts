import type { AnyEntity, Database, Openable, Row } from "@rowhouse/patterns";
import type { Advice } from "@rowhouse/patterns/advise";
import { alignColumns, countOf, type Outcome } from "./outcome.ts";
import { kindOf, optionsOf } from "./record.ts";
import { listOf, type Schema, type Target, targetOf } from "./schema.ts";

export interface AdviseOptions {
  readonly reads: number;
  readonly writes: number;
  /** The maximum number of entities to read. */
  readonly sample: number;
  /** The number of all entities, if the sample is only a part. */
  readonly total?: number;
  /** Whether the lookups read with consistency "eventual". Default: each entry is checked against its base. */
  readonly eventual?: boolean;
}

/** The maximum number of values to count, so that they fit in memory. */
const COMBINATIONS_MAX = 1_000_000;

interface Scannable {
  scan(): {
    stream(permit: { allow: "table-scan"; because: string }): AsyncIterable<Row>;
  };
}

/** Judges whether an index, or one by a field, pays. Any verdict but "keep" counts as a finding. */
export async function adviseIndex(
  schema: Schema,
  database: Database,
  name: string,
  { reads, writes, sample, total, eventual = false }: AdviseOptions,
): Promise<Outcome> {
  const { advise } = await schema.library.load("@rowhouse/patterns/advise");
  const { entity, isCovering, isUnique, valueIn } = indexedBy(targetOf(schema, name), eventual);
  const entities = database.open(entity as AnyEntity & Openable<Scannable>);
  const rows = entities.scan().stream({ allow: "table-scan", because: "rowhouse patterns advise" });
  const found = await advise(rows, {
    valueIn,
    workload: { reads, writes },
    isCovering,
    sampleMax: sample,
    ...(total !== undefined && { rowsTotal: total }),
  });
  const advice: Advice = isUnique
    ? { ...found, verdict: "keep", reasons: ["it enforces unique values, which no scan does"] }
    : found;
  const { commonest, sampled, distinct, entriesPerValue, lookupRequests, scanRequests } = advice;
  const isPart = sampled === sample && total === undefined;
  const share = commonest && `${Math.round(commonest.share * 1000) / 10} %: "${commonest.value}"`;
  return {
    lines: [
      `${name}: ${advice.verdict}`,
      ...advice.reasons.map((reason) => `  ${reason}`),
      ...alignColumns([
        [
          "  sampled",
          isPart
            ? `the first ${sampled} entities; pass the number of all with --total`
            : `${sampled} entities`,
        ],
        ["  values", `${distinct}, ${Math.round(entriesPerValue * 10) / 10} entities per value`],
        ["  commonest", share ?? "none"],
        ["  a lookup", countOf(lookupRequests, "request")],
        ["  a scan", countOf(scanRequests, "request")],
        ["  workload", `${countOf(reads, "lookup")} for ${countOf(writes, "write")}`],
      ]),
    ],
    json: { index: name, ...advice, workload: { reads, writes } },
    found: advice.verdict !== "keep",
  };
}

/** What to count: a field, or the fields that an index's keys add to those of the entity's own key. */
function indexedBy({ entity, part }: Target, isEventual: boolean) {
  const { rows, indexes, name } = entity;
  const index = part === undefined ? undefined : indexes[part];
  const place = index?.place(entity);
  if (index && place) {
    const { copy = "full", each = {}, when = () => true } = index.options;
    const named = [...place.partition.segments, ...place.row.segments].map(({ field }) => field);
    const added = new Set(named.filter((field) => !rows.keyFields.has(field)));
    const fields = [...(added.size > 0 ? added : named)];
    const combined = combinations(`${name}.${part}`);
    return {
      entity,
      isCovering: copy === "full" && (isEventual || kindOf(index) !== "remote"),
      isUnique: optionsOf(index).unique === true,
      valueIn: (row: Row) =>
        when(row)
          ? combined(fields.map((field) => (each[field] ? each[field](row) : row[field])))
          : undefined,
    };
  }
  const [inPartition, ...more] = rows.partition.segments;
  if (part !== undefined && inPartition?.field === part && more.length === 0) {
    throw new Error(`${name}.${part} is the partition key: queries by it need no index.`);
  }
  if (part !== undefined && part in rows.fields) {
    const combined = combinations(`${name}.${part}`);
    const valueIn = (row: Row) => combined([row[part]]);
    return { entity, isCovering: false, isUnique: false, valueIn };
  }
  const there = new Set([...Object.keys(indexes), ...Object.keys(rows.fields)]);
  const found = part === undefined ? "Name an index or a field" : `${name} has no "${part}"`;
  throw new Error(`${found}; ${name} has ${listOf(there)}.`);
}

/** Counts each member of a list. Several fields count together, in every combination of their values. */
function combinations(index: string): (values: readonly unknown[]) => string[] {
  let entities = 0;
  let left = COMBINATIONS_MAX;
  return (values) => {
    const lists = values.map((value) => membersOf(value));
    entities++;
    // Checked before building them: the combinations of a few lists of thousands would exceed the memory.
    left -= lists.reduce((product, { length }) => product * length, 1);
    if (left < 0) {
      const sampled = countOf(entities, "entity", "entities");
      throw new Error(
        `${index} has more than ${COMBINATIONS_MAX} values in ${sampled}, and would have as many entries: use a smaller --sample.`,
      );
    }
    let rows: readonly (readonly string[])[] = [[]];
    for (const members of lists) {
      rows = rows.flatMap((row) => members.map((member) => [...row, member]));
    }
    return rows.map((row) => row.join(" | "));
  };
}

function membersOf(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value])
    .filter((member) => member !== undefined && member !== null)
    .map((member) => (member instanceof Date ? member.toISOString() : String(member)));
}
