import { parseCsv } from "./csv.ts";

/** One entity of a file, as the Table service's JSON, and the line where it begins, from 1. */
export interface EntityRow {
  readonly line: number;
  readonly json: string;
}

/** One entity per line, as the service's JSON, with the types that JSON cannot express in annotations. */
export function* jsonLines(text: string): Generator<EntityRow> {
  for (const [i, line] of text.split("\n").entries()) {
    const json = line.trim();
    if (json !== "") yield { line: i + 1, json };
  }
}

/** Types that the service's JSON writes as they are. */
const BARE = new Set(["Edm.Int32", "Edm.Boolean"]);
const TYPES = new Set(
  ["Binary", "Boolean", "DateTime", "Double", "Guid", "Int32", "Int64", "String"].map(
    (name) => `Edm.${name}`,
  ),
);
const TYPE_SUFFIX = "@type";

/**
 * Entities from typed CSV, as the desktop explorer exports them: after the column of each property there may be one
 * called `NAME@type`. Without a type a value is text; a property with neither value nor type is absent.
 * @throws Error that names the line and the column
 */
export function* csvRows(text: string): Generator<EntityRow> {
  let names: readonly string[] | undefined;
  for (const { fields, line } of parseCsv(text)) {
    if (names === undefined) {
      names = fields;
      continue;
    }
    if (fields.length !== names.length)
      throw new Error(
        `line ${line} has ${fields.length} fields; the first line has ${names.length}`,
      );
    yield { line, json: JSON.stringify(entityOf(names, fields, line)) };
  }
}

function entityOf(names: readonly string[], fields: readonly string[], line: number): object {
  const entity: Record<string, unknown> = {};
  for (const [i, name] of names.entries()) {
    if (name.endsWith(TYPE_SUFFIX) || name === "Timestamp") continue;
    const value = fields[i]!;
    const typeAt = names.indexOf(`${name}${TYPE_SUFFIX}`);
    const sent = typeAt < 0 ? "" : fields[typeAt]!;
    const isKey = name === "PartitionKey" || name === "RowKey";
    if (value === "" && sent === "" && !isKey) continue;
    const type = sent === "" ? "Edm.String" : sent.startsWith("Edm.") ? sent : `Edm.${sent}`;
    if (!TYPES.has(type)) {
      const known = [...TYPES].join(", ");
      throw new Error(`line ${line}: "${sent}" in ${name}${TYPE_SUFFIX} is no type; ${known} are`);
    }
    if (BARE.has(type)) entity[name] = bare(value, type, `line ${line}: ${name}`);
    else {
      entity[name] = value;
      if (type !== "Edm.String") entity[`${name}@odata.type`] = type;
    }
  }
  return entity;
}

function bare(value: string, type: string, where: string): number | boolean {
  if (type === "Edm.Boolean" && /^(true|false)$/i.test(value))
    return value.toLowerCase() === "true";
  if (type === "Edm.Int32" && /^-?\d+$/.test(value)) return Number(value);
  throw new Error(`${where} is not of its type ${type}`);
}
