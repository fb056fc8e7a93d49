import type { EdmType } from "@rowhouse/protocol/edm";
import type { Finding } from "@rowhouse/server/insight/advice/rule";
import type { Row } from "./entities.ts";

/**
 * Code for the pattern library with the table's own names and types; undefined where no pattern of it is the cure.
 * @param rows of the table: its properties are those of the first
 */
export function codeOf({ table, remedy }: Finding, rows: readonly Row[] = []): string | undefined {
  const name = table.slice(table.indexOf("/") + 1);
  const write = WRITERS[remedy.pattern];
  if (!write || !table.includes("/")) return undefined;
  const [, key = ""] = /--key (\S+)/.exec(remedy.kept ?? "") ?? [];
  const wanted = key
    .split(",")
    .map((part) => part.split(":")[0]!)
    .filter((part) => part !== "" && part !== "PartitionKey" && part !== "RowKey");
  return write(new Shape(name, wanted, rows[0])).join("\n");
}

/** Of a declaration, at most: enough to go on from. */
const FIELDS_MAX = 12;

const FIELDS: Readonly<Record<EdmType, string>> = {
  "Edm.String": "f.string()",
  "Edm.Int32": "f.int32()",
  "Edm.Int64": "f.int64()",
  "Edm.Double": "f.double()",
  "Edm.Boolean": "f.bool()",
  "Edm.DateTime": "f.date()",
  "Edm.Guid": "f.guid()",
  "Edm.Binary": "f.bytes()",
};

/** Bytes are in no key. */
const SEGMENTS: Readonly<Record<Exclude<EdmType, "Edm.Binary">, string>> = {
  "Edm.String": "str",
  "Edm.Int32": "int32",
  "Edm.Int64": "int64",
  "Edm.Double": "double",
  "Edm.Boolean": "bool",
  "Edm.DateTime": "date",
  "Edm.Guid": "guid",
};

/** What a table's entities look like, as a declaration says it. */
class Shape {
  readonly table: string;
  /** A constant's name: tables may be called as words of the language are. */
  readonly constant: string;
  readonly #types: Map<string, EdmType>;
  /** What the query asks for, or the first property. */
  readonly wanted: readonly string[];
  /** Of the keys, which must not be called as a property is. */
  readonly partition: string;
  readonly row: string;

  constructor(table: string, wanted: readonly string[], row: Row | undefined) {
    this.table = table;
    this.constant = table[0]!.toUpperCase() + table.slice(1);
    const own = [...(row?.cells ?? [])].filter(([name]) => !isReserved(name));
    this.#types = new Map<string, EdmType>(wanted.map((name) => [name, "Edm.String"]));
    for (const [name, { type }] of own)
      if (this.#types.has(name) || this.#types.size < FIELDS_MAX) this.#types.set(name, type);
    const usable = [...this.#types].filter(([, type]) => type !== "Edm.Binary");
    const first = wanted.length > 0 ? wanted : usable.slice(0, 1).map(([name]) => name);
    this.wanted = first.filter((name) => this.#types.get(name) !== "Edm.Binary");
    if (this.wanted.length === 0) {
      this.#types.set("kind", "Edm.String");
      this.wanted = ["kind"];
    }
    this.partition = this.#free("partition");
    this.row = this.#free("id");
  }

  /** A name that no property has. */
  #free(name: string): string {
    return this.#types.has(name) ? this.#free(`${name}Key`) : name;
  }

  /** The declared fields: those of the keys, and the table's own. */
  fields(keys: Readonly<Record<string, string>>, without: readonly string[] = []): string {
    const own = [...this.#types].filter(([name]) => !without.includes(name));
    const all = [...Object.entries(keys), ...own.map(([name, type]) => [name, FIELDS[type]])];
    return `{ ${all.map(([name, field]) => `${propertyName(name!)}: ${field}`).join(", ")} }`;
  }

  /** The date by which rows are ordered: a property, or a new one. */
  at(): string {
    return [...this.#types].find(([, type]) => type === "Edm.DateTime")?.[0] ?? this.#free("at");
  }

  segments(names: readonly string[]): string {
    return names
      .map((name) => {
        const type = this.#types.get(name) ?? "Edm.String";
        return `k.${type === "Edm.Binary" ? "str" : SEGMENTS[type]}(${JSON.stringify(name)})`;
      })
      .join(", ");
  }

  /** The table as it is, with what else its declaration says. */
  entity(more: readonly string[] = []): string[] {
    const { constant, table, partition, row } = this;
    const keys = { [partition]: FIELDS["Edm.String"], [row]: FIELDS["Edm.String"] };
    return [
      `export const ${constant} = entity(${JSON.stringify(table)}, {`,
      "  version: 1,",
      `  fields: ${this.fields(keys)},`,
      `  key: { partition: [${this.segments([partition])}], row: [${this.segments([row])}] },`,
      ...more.map((line) => `  ${line}`),
      "});",
    ];
  }
}

/** What the library has names of its own for. */
function isReserved(name: string): boolean {
  return name === "Timestamp" || name === "etag" || name.startsWith("rh_");
}

function propertyName(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
}

function importing(names: string, from = ""): string {
  return `import { ${names} } from "@rowhouse/patterns${from}";`;
}

const ENTITY = importing("entity, f, k");

const WRITERS: Readonly<Record<string, (shape: Shape) => string[]>> = {
  "intra-partition secondary index": (shape) => [
    ENTITY,
    importing("siblingIndex", "/sibling-index"),
    "",
    ...shape.entity([
      `indexes: { found: siblingIndex({ row: [k.lit("found"), ${shape.segments([...shape.wanted, shape.row])}] }) },`,
    ]),
  ],
  "inter-partition secondary index": (shape) => [
    ENTITY,
    importing("remoteIndex", "/remote-index"),
    "",
    ...shape.entity([
      `indexes: { found: remoteIndex({ partition: [${shape.segments(shape.wanted)}], row: [${shape.segments([shape.partition, shape.row])}] }) },`,
    ]),
  ],
  "key spreading": (shape) => streamOf(shape, "spread", "/spread", ["buckets: 16,"]),
  "log tail": (shape) => streamOf(shape, "logTail", "/log-tail", []),
  "data series in one entity": ({ constant, table }) => [
    importing("f, k"),
    importing("series, slots", "/series"),
    "",
    `export const ${constant} = series(${JSON.stringify(table)}, {`,
    "  fields: { partition: f.string(), period: f.string() },",
    '  key: { partition: [k.str("partition")], row: [k.str("period")] },',
    '  slots: slots("V", 24, f.double()),',
    "});",
  ],
  "entity group transactions": (shape) => [
    importing("type Database, entity, f, k"),
    importing("batch", "/batch"),
    "",
    ...shape.entity(),
    "",
    `type Row = Parameters<ReturnType<typeof rowsOf>["insert"]>[0];`,
    `const rowsOf = (db: Database) => db.open(${shape.constant});`,
    "",
    "export function insertAll(db: Database, rows: readonly Row[]) {",
    "  return batch(db, (b) => {",
    `    for (const row of rows) b.insert(${shape.constant}, row);`,
    "  });",
    "}",
  ],
  "compound key": (shape) => [
    ENTITY,
    "",
    ...rekeyed(shape, [shape.partition], [...shape.wanted, shape.row]),
  ],
  "partition key for the query": (shape) => [
    ENTITY,
    "",
    ...rekeyed(shape, shape.wanted, [shape.partition, shape.row]),
  ],
  projection: (shape) => [
    importing("type Database, entity, f, k"),
    "",
    ...shape.entity(),
    "",
    `export function listOf(db: Database, partition: string) {`,
    `  const rows = db.open(${shape.constant}).range({ ${shape.partition}: partition });`,
    `  return rows.select(${[shape.row, ...shape.wanted].map((each) => JSON.stringify(each)).join(", ")}).all();`,
    "}",
  ],
  "choosing the write verb": (shape) => [
    importing("type Database, entity, f, k"),
    "",
    ...shape.entity(),
    "",
    `type Row = Parameters<ReturnType<typeof rowsOf>["upsert"]>[0];`,
    `const rowsOf = (db: Database) => db.open(${shape.constant});`,
    "",
    "// Without a read before it, whether or not the row exists.",
    "export const write = (db: Database, row: Row) => rowsOf(db).upsert(row);",
  ],
  "large values in blobs": (shape) => [
    ENTITY,
    importing("largeValueFields, largeValues", "/large-value"),
    "",
    `export const ${shape.constant} = entity(${JSON.stringify(shape.table)}, {`,
    "  version: 1,",
    '  fields: { partition: f.string(), id: f.string(), ...largeValueFields("content") },',
    '  key: { partition: [k.str("partition")], row: [k.str("id")] },',
    "});",
    `export const contents = largeValues(${shape.constant}, { name: "content", container: "contents" });`,
  ],
  "log data in blobs": ({ constant }) => [
    importing("delimited, logFiles", "/logs"),
    "",
    `export const ${constant} = logFiles({`,
    '  container: "logs",',
    `  service: ${JSON.stringify(constant.toLowerCase())},`,
    '  format: delimited("level", "message"),',
    "});",
  ],
};

/** Rows by the time at which they were written. */
function streamOf(shape: Shape, make: string, from: string, more: readonly string[]): string[] {
  const at = shape.at();
  const keys = { [shape.partition]: FIELDS["Edm.String"], [at]: FIELDS["Edm.DateTime"] };
  return [
    importing("f, k"),
    importing(make, from),
    "",
    `export const ${shape.constant} = ${make}(${JSON.stringify(shape.table)}, {`,
    `  fields: ${shape.fields(keys, [at, "entryId"])},`,
    `  stream: [${shape.segments([shape.partition])}],`,
    `  at: ${JSON.stringify(at)},`,
    ...more.map((line) => `  ${line}`),
    "});",
  ];
}

/** The same entities under other keys, in a table of their own. */
function rekeyed(shape: Shape, partition: readonly string[], row: readonly string[]): string[] {
  const keys = {
    [shape.partition]: FIELDS["Edm.String"],
    [shape.row]: FIELDS["Edm.String"],
  };
  const table = `${shape.table}By${shape.wanted.map((name) => name[0]!.toUpperCase() + name.slice(1)).join("")}`;
  return [
    `export const ${shape.constant} = entity(${JSON.stringify(table.replace(/[^A-Za-z0-9]/g, "").slice(0, 63))}, {`,
    "  version: 1,",
    `  fields: ${shape.fields(keys)},`,
    `  key: { partition: [${shape.segments(partition)}], row: [${shape.segments(row)}] },`,
    "});",
  ];
}
