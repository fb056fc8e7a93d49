import { createHash } from "node:crypto";
import type { AnyEntity, Index, KeyPart, KeyShape, Segment } from "@rowhouse/patterns";

/** How an entity is stored, in a form that changes only if the stored rows do. */
export interface EntityRecord {
  readonly table: string;
  readonly version: number;
  /** Such as `Int32`, `String?` if optional, `String as EmailAddress` if stored under another name. */
  readonly fields: Readonly<Record<string, string>>;
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly indexes: Readonly<Record<string, IndexRecord>>;
}

export interface IndexRecord {
  readonly kind: string;
  /** Absent for an index without entries of its own. */
  readonly place?: {
    readonly table: string;
    readonly partitionKey: string;
    readonly rowKey: string;
  };
  readonly options: Readonly<Record<string, unknown>>;
}

/** The file next to the definitions that records what was deployed. */
export interface DefinitionsRecord {
  readonly format: 1;
  readonly entities: Readonly<Record<string, EntityRecord>>;
}

export function recordOf(entity: AnyEntity): EntityRecord {
  const { rows, table, indexes } = entity;
  const fields = Object.entries(rows.fields).map(([name, { edm, isOptional, property }]) => {
    const renamed = property === undefined ? "" : ` as ${property}`;
    return [name, `${edm}${isOptional ? "?" : ""}${renamed}`] as const;
  });
  return {
    table,
    version: rows.version,
    fields: Object.fromEntries(fields),
    partitionKey: describeKey(rows.partition),
    rowKey: describeKey(rows.row),
    indexes: Object.fromEntries(
      Object.entries(indexes).map(([name, index]) => [name, indexRecordOf(entity, index)]),
    ),
  };
}

/** Twelve hexadecimal digits that change with anything recorded. */
export function hashOf(record: unknown): string {
  return createHash("sha256").update(JSON.stringify(record)).digest("hex").slice(0, 12);
}

/** The options that determine what entries contain; timing and queues may change at any time. */
const STORED_OPTIONS = ["unique", "copy", "property", "spill", "propertyLengthMax", "missing"];

function indexRecordOf(entity: AnyEntity, index: Index): IndexRecord {
  const place = index.place(entity);
  const given = optionsOf(index);
  const options: Record<string, unknown> = {};
  for (const name of STORED_OPTIONS) if (given[name] !== undefined) options[name] = given[name];
  if (given.when !== undefined) options.when = "some";
  return {
    kind: kindOf(index),
    ...(place && {
      place: {
        table: place.table,
        partitionKey: describeKey(place.partition),
        rowKey: describeKey(place.row),
      },
    }),
    options,
  };
}

export function optionsOf(index: Index): Readonly<Record<string, unknown>> {
  const { options } = index as { readonly options?: unknown };
  return typeof options === "object" && options !== null ? { ...options } : {};
}

/** Such as `sibling`, `remote` or `list`. */
export function kindOf(index: Index): string {
  return index.constructor.name.replace(/Index$/, "").toLowerCase();
}

/** Such as `empid_<id a1b2c3>`: literals unchanged, fields with a fingerprint of their codec. */
export function describeKey(shape: KeyShape): string {
  const describe = (part: KeyPart) =>
    "literal" in part ? part.literal : `<${part.field} ${fingerprint(part)}>`;
  return shape.parts.map(describe).join(shape.layout === "ordered" ? "!" : "_");
}

const VALUES: readonly unknown[] = [
  ...[0, 1, 5, 7, 42, 223, 99_999, -1, 1.5],
  ...[0n, -1n, 42n, true, false],
  ...["", "a", "A b_c", "Zoë/", "223", "jonesj@contoso.com", "0".repeat(300)],
  ...["00000000-0000-4000-8000-00000000000a", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
  new Date("2014-07-31T18:20:30.456Z"),
];
const DIGITS = Array.from("0123456789");

/** Identifies a codec by its results: encoded samples of all types, and decoded digits, for codecs of enumerations. */
function fingerprint(segment: Segment): string {
  const outputs = [
    ...VALUES.map((value) => attempt(() => segment.encode(value, { escapeUnderscore: true }))),
    ...DIGITS.map((digit) => attempt(() => segment.decode(digit))),
  ];
  return hashOf([segment.form, segment.descending, outputs]).slice(0, 6);
}

function attempt(work: () => unknown): string {
  try {
    return String(work());
  } catch {
    return "refused";
  }
}
