import { createReadStream } from "node:fs";
import { EDM_TYPES, type EdmType, typeOfForm } from "@rowhouse/protocol/edm";
import { type DecodedEntity, decodeEntity } from "@rowhouse/protocol/entity-json";
import { valueOffset } from "@rowhouse/protocol/json-property";
import { parse as csvParser } from "csv-parse";
import { stringify as csvText } from "csv-stringify/sync";
import { propertyNames } from "./raw-entity.ts";

/**
 * The two files that entities are kept in.
 *
 * JSONL: a line is an entity as it travels at minimalmetadata, so nothing is lost and a line can be sent as it is.
 *
 * Typed CSV, as desktop explorers write it: `PartitionKey,RowKey,Timestamp,Name,Name@type,…`. The type says whether an
 * empty cell is an empty string or no property; a file without any `@type` column has only strings, and no empty ones.
 */
export const ENTITY_FORMATS = ["jsonl", "csv"] as const;
export type EntityFormat = (typeof ENTITY_FORMATS)[number];

/** A line or row of a file, counted from 1, as the body of a request; or why it is none. */
export interface FileRecord {
  readonly number: number;
  readonly body: Buffer;
  /** Bytes of the file up to its end. */
  readonly bytes: number;
  readonly fault?: string;
}

/** @throws Error if the file cannot be read, or is no CSV with the columns that are needed */
export function readRecords(path: string, format: EntityFormat): AsyncGenerator<FileRecord> {
  return format === "jsonl" ? readLines(path) : readRows(path);
}

async function* readLines(path: string): AsyncGenerator<FileRecord> {
  let rest: Buffer = Buffer.alloc(0);
  let number = 0;
  let bytes = 0;
  const record = (line: Buffer): FileRecord => ({ number, bytes, body: line });
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) {
    let text = rest.length === 0 ? (chunk as Buffer) : Buffer.concat([rest, chunk as Buffer]);
    if (number === 0 && bytes === 0 && text.indexOf(BYTE_ORDER_MARK) === 0) {
      text = text.subarray(BYTE_ORDER_MARK.length);
    }
    let start = 0;
    for (let end = text.indexOf(LINE_FEED); end >= 0; end = text.indexOf(LINE_FEED, start)) {
      number++;
      bytes += end + 1 - start;
      const line = text.subarray(start, end);
      start = end + 1;
      if (!isBlank(line)) yield record(line);
    }
    rest = text.subarray(start);
  }
  number++;
  bytes += rest.length;
  if (!isBlank(rest)) yield record(rest);
}

function isBlank(line: Buffer): boolean {
  return line.length === 0 || line.toString("utf8").trim() === "";
}

async function* readRows(path: string): AsyncGenerator<FileRecord> {
  const rows = createReadStream(path).pipe(
    csvParser({ bom: true, info: true, relax_column_count: true }),
  );
  let columns: Columns | undefined;
  let number = 0;
  for await (const { record, info } of rows) {
    const cells = record as string[];
    const { bytes } = info as { bytes: number };
    if (columns === undefined) {
      columns = columnsOf(cells, path);
      continue;
    }
    number++;
    try {
      yield { number, bytes, body: bodyOfRow(columns, cells) };
    } catch (error) {
      const fault = error instanceof Error ? error.message : String(error);
      const body = Buffer.from(csvText([cells]).trimEnd());
      yield { number, bytes, body, fault };
    }
  }
  if (columns === undefined)
    throw new Error(`${path} is empty; a line with the names of the columns is expected.`);
}

interface Column {
  readonly name: string;
  readonly at: number;
  /** Where its type is; undefined in a file without types. */
  readonly typeAt: number | undefined;
}

interface Columns {
  readonly count: number;
  readonly properties: readonly Column[];
}

function columnsOf(names: readonly string[], path: string): Columns {
  for (const key of KEYS) {
    if (!names.includes(key)) {
      throw new Error(`${path} has no column ${key}; its columns are ${names.join(", ")}.`);
    }
  }
  const repeated = names.find((name, at) => names.indexOf(name) !== at);
  if (repeated !== undefined) throw new Error(`${path} has two columns ${repeated}.`);
  const isTyped = names.some((name) => name.endsWith(TYPE));
  const properties: Column[] = [];
  for (const [at, name] of names.entries()) {
    if (name.endsWith(TYPE) || name === "Timestamp" || name === "etag") continue;
    const typeAt = names.indexOf(name + TYPE);
    properties.push({ name, at, typeAt: !isTyped || typeAt < 0 ? undefined : typeAt });
  }
  return { count: names.length, properties };
}

/** @throws Error that says which cell cannot be read */
function bodyOfRow({ count, properties }: Columns, cells: readonly string[]): Buffer {
  if (cells.length !== count) {
    throw new Error(`${cells.length} cells, where the first line names ${count} columns.`);
  }
  const members: string[] = [];
  for (const { name, at, typeAt } of properties) {
    const text = cells[at]!;
    if (name === "PartitionKey" || name === "RowKey") {
      members.push(`${JSON.stringify(name)}:${JSON.stringify(text)}`);
      continue;
    }
    const typeText = typeAt === undefined ? (text === "" ? "" : "String") : cells[typeAt]!.trim();
    if (typeText === "") {
      if (text !== "") throw new Error(`${name} has a value and no type.`);
      continue;
    }
    const type = typeNamed(typeText);
    if (type === undefined) {
      throw new Error(
        `${name} has the type "${typeText}"; the types are ${EDM_TYPES.map(shortName).join(", ")}.`,
      );
    }
    const quoted = JSON.stringify(name);
    if (type !== "Edm.String") members.push(`${JSON.stringify(`${name}@odata.type`)}:"${type}"`);
    members.push(`${quoted}:${jsonValue(type, text, name)}`);
  }
  return Buffer.from(`{${members.join(",")}}`);
}

function jsonValue(type: EdmType, text: string, name: string): string {
  const bare = text.trim();
  switch (type) {
    case "Edm.Boolean":
      if (/^(true|false)$/i.test(bare)) return bare.toLowerCase();
      break;
    case "Edm.Int32":
      if (/^-?\d+$/.test(bare)) return String(Number(bare));
      break;
    case "Edm.Double":
      if (/^(NaN|-?Infinity)$/.test(bare)) return JSON.stringify(bare);
      if (/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(bare)) return bare;
      break;
    case "Edm.String":
      return JSON.stringify(text);
    default:
      return JSON.stringify(bare);
  }
  throw new Error(`${name} is "${text}", which is no ${shortName(type)}.`);
}

/** Explorers write `Int32` or `Edm.Int32`. */
function typeNamed(text: string): EdmType | undefined {
  return EDM_TYPES.find((type) => type === text || shortName(type) === text);
}

function shortName(type: EdmType): string {
  return type.slice("Edm.".length);
}

/** Writes entities, given as bodies, as typed CSV: first the line of names, then a line for each entity. */
export class CsvWriter {
  readonly #names: readonly string[];

  /** @param names of all properties that occur, in the order of their columns */
  constructor(names: Iterable<string>) {
    this.#names = [...names];
  }

  head(): string {
    return csvText([[...KEYS, "Timestamp", ...this.#names.flatMap((name) => [name, name + TYPE])]]);
  }

  row(body: Buffer): string {
    const entity = decodeEntity(body);
    const cells = new Map<string, readonly [text: string, type: string]>();
    const names = propertyNames(entity);
    eachValue(entity, (i, type, value) => cells.set(names[i]!, [value, shortName(type)]));
    const timestamp = /"Timestamp":"([^"]*)"/.exec(body.toString("latin1"))?.[1] ?? "";
    const { partitionKey, rowKey } = entity;
    const rest = this.#names.flatMap((name) => cells.get(name) ?? ["", ""]);
    return csvText([[partitionKey, rowKey, timestamp, ...rest]]);
  }
}

function eachValue(
  { json, properties }: DecodedEntity,
  visit: (index: number, type: EdmType, text: string) => void,
): void {
  const bytes = Buffer.from(json.buffer, json.byteOffset, json.byteLength);
  let start = 0;
  for (const [i, { form, nameBytes, end }] of properties.entries()) {
    const text = bytes.toString("utf8", start + valueOffset(form, nameBytes), end);
    visit(i, typeOfForm(form), text.startsWith('"') ? String(JSON.parse(text)) : text);
    start = end;
  }
}

const KEYS = ["PartitionKey", "RowKey"] as const;
const TYPE = "@type";
const LINE_FEED = 0x0a;
const BYTE_ORDER_MARK = Buffer.from("\ufeff");
