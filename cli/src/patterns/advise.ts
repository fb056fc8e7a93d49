import type { Database } from "@rowhouse/patterns";
import type { AnyEntity } from "@rowhouse/patterns/model/entity";
import type { Row } from "@rowhouse/patterns/model/entity-rows";
import type { Openable } from "@rowhouse/patterns/model/openable";
import { alignColumns, type Outcome } from "./outcome.ts";
import { optionsOf } from "./record.ts";
import { listOf, type Schema, type Target, targetOf } from "./schema.ts";

export interface AdviseOptions {
  readonly reads: number;
  readonly writes: number;
  /** Entities looked at. */
  readonly sample: number;
  /** Entities there are, where the sample is not all. */
  readonly total?: number;
}

interface Scannable {
  scan(): {
    stream(permit: { allow: "table-scan"; because: string }): AsyncIterable<Row>;
  };
}

/** Whether an index there is, or one by a field, pays. Anything but "keep" is found. */
export async function adviseIndex(
  schema: Schema,
  database: Database,
  name: string,
  { reads, writes, sample, total }: AdviseOptions,
): Promise<Outcome> {
  const { advise } = await schema.library.load("@rowhouse/patterns/advise");
  const { entity, fields, isCovering } = indexedBy(targetOf(schema, name));
  const entities = database.open(entity as AnyEntity & Openable<Scannable>);
  const rows = entities.scan().stream({ allow: "table-scan", because: "rowhouse patterns advise" });
  const advice = await advise(rows, {
    valueIn: (row) => valueIn(row, fields),
    workload: { reads, writes },
    isCovering,
    sampleMax: sample,
    ...(total !== undefined && { rowsTotal: total }),
  });
  const { commonest, sampled, distinct, entriesPerValue, lookupRequests, scanRequests } = advice;
  const share = commonest && `${Math.round(commonest.share * 1000) / 10} %: "${commonest.value}"`;
  return {
    lines: [
      `${name}: ${advice.verdict}`,
      ...advice.reasons.map((reason) => `  ${reason}`),
      ...alignColumns([
        ["  sampled", `${sampled} entities`],
        ["  values", `${distinct}, ${Math.round(entriesPerValue * 10) / 10} entities each`],
        ["  commonest", share ?? "none"],
        ["  a lookup", `${lookupRequests} requests`],
        ["  a scan", `${scanRequests} requests`],
        ["  workload", `${reads} lookups for ${writes} writes`],
      ]),
    ],
    json: { index: name, ...advice, workload: { reads, writes } },
    found: advice.verdict !== "keep",
  };
}

/** Of an index, the fields that its keys add to those of the entity's own key. */
function indexedBy({ entity, part }: Target) {
  const { rows, indexes, name } = entity;
  const index = part === undefined ? undefined : indexes[part];
  const place = index?.place(entity);
  if (index && place) {
    const named = [...place.partition.segments, ...place.row.segments].map(({ field }) => field);
    const added = new Set(named.filter((field) => !rows.keyFields.has(field)));
    const isCovering = (optionsOf(index).copy ?? "full") === "full";
    return { entity, fields: [...(added.size > 0 ? added : named)], isCovering };
  }
  if (part !== undefined && part in rows.fields) {
    return { entity, fields: [part], isCovering: false };
  }
  const there = [...Object.keys(indexes), ...Object.keys(rows.fields)];
  throw new Error(`${name} has no index or field "${part ?? ""}"; it has ${listOf(there)}.`);
}

/** A list counts each member; several fields count together. */
function valueIn(row: Row, fields: readonly string[]): string | readonly string[] | undefined {
  const values = fields.map((field) => row[field]);
  if (values.some((value) => value === undefined || value === null)) return undefined;
  const [only] = values;
  if (values.length === 1 && Array.isArray(only)) return only.map(String);
  return values
    .map((value) => (value instanceof Date ? value.toISOString() : String(value)))
    .join(" | ");
}
