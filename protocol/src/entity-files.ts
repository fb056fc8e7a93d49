import { CsvLines, parseCsv, printCsv } from "./csv.ts";
import { EDM_TYPES, type EdmType, typeOfForm } from "./edm.ts";
import { type DecodedEntity, decodeEntity } from "./entity-json.ts";
import { NAME_OFFSET, valueOffset } from "./json-property.ts";
import { decodeUtf8 } from "./json-string.ts";

/**
 * The two files that entities are kept in.
 *
 * JSONL: a line is an entity as it travels at minimalmetadata, so nothing is lost and a line can be sent as it is.
 *
 * Typed CSV, as desktop explorers write it: `PartitionKey,RowKey,Timestamp,Name,Name@type,…`. The type says whether an
 * empty cell is an empty string or no property; a file without any `@type` column has only strings, and no empty ones,
 * unless its reader knows better.
 */
export const ENTITY_FORMATS = ["jsonl", "csv"] as const;
export type EntityFormat = (typeof ENTITY_FORMATS)[number];

export const KEY_NAMES = ["PartitionKey", "RowKey"] as const;
export type KeyName = (typeof KEY_NAMES)[number];

/**
 * For a key that a file does not have, the column of CSV, or property of JSON lines, whose value becomes it. It stays a
 * property, too: with its type, and found again in what is exported.
 */
export type KeyColumns = Readonly<Partial<Record<KeyName, string>>>;

/** A line or row of a file as the body of a request; or why it is none. */
export interface FileRecord {
  /** The line where it begins, counted from 1 as editors do, the names of columns and blank lines included. */
  readonly number: number;
  readonly body: Uint8Array;
  /** Bytes of the file up to its end. */
  readonly bytes: number;
  readonly fault?: string;
}

export interface ReadOptions {
  readonly format: EntityFormat;
  /** Of the file, for errors. */
  readonly name: string;
  /** Types of columns, where a CSV file has no `@type` column. */
  readonly types?: ReadonlyMap<string, EdmType>;
  /** What becomes the keys that the file does not have. */
  readonly keys?: KeyColumns;
  /** For a look at the file before somebody says what becomes its keys. */
  readonly mayLackKeys?: boolean;
  /** Called with the columns of CSV, before its rows. */
  readonly onColumns?: (names: readonly string[], isTyped: boolean) => void;
}

/**
 * The records of a file.
 * @param chunks its bytes
 * @throws Error if it is no CSV with the columns that are needed, or a record is longer than any entity
 */
export function readRecords(
  chunks: AsyncIterable<Uint8Array>,
  options: ReadOptions,
): AsyncGenerator<FileRecord> {
  const { format, keys = {} } = options;
  const isCsv = format === "csv";
  if (Object.keys(keys).length === 0)
    return isCsv ? readRows(chunks, options) : readJsonLines(chunks, options);
  return refuseRepeated(
    isCsv ? readRows(chunks, options) : giveKeys(readJsonLines(chunks, options), keys),
  );
}

/** A record with the keys of an earlier one is faulty: it would replace that, because of keys that the file never had. */
async function* refuseRepeated(records: AsyncIterable<FileRecord>): AsyncGenerator<FileRecord> {
  /** By partition and row key, the line where they were first. */
  const lines = new Map<string, Map<string, number>>();
  for await (const record of records) {
    const { PartitionKey, RowKey } =
      (record.fault === undefined && membersOf(record.body)) || NO_MEMBERS;
    if (typeof PartitionKey !== "string" || typeof RowKey !== "string") {
      // Whoever decodes it says what is wrong.
      yield record;
      continue;
    }
    const rows = lines.get(PartitionKey) ?? new Map<string, number>();
    lines.set(PartitionKey, rows);
    const first = rows.get(RowKey);
    if (first === undefined) rows.set(RowKey, record.number);
    const keys = [PartitionKey, RowKey].map((key) => JSON.stringify(key)).join(" and ");
    yield first === undefined
      ? record
      : {
          ...record,
          fault: `line ${first} has the same keys, ${keys}. Keys differ in each entity.`,
        };
  }
}

/** Writes the keys into the bodies of JSON, and nothing else: numbers keep every digit. */
async function* giveKeys(
  records: AsyncIterable<FileRecord>,
  keys: KeyColumns,
): AsyncGenerator<FileRecord> {
  for await (const record of records) {
    const { body } = record;
    const members = membersOf(body);
    if (!members) {
      yield record;
      continue;
    }
    try {
      const head = UTF8.encode(`${JSON.stringify(keysFrom(members, keys)).slice(0, -1)},`);
      // Behind its brace there is a property at least: the one that became a key.
      yield { ...record, body: joined(head, body.subarray(body.indexOf(BRACE) + 1)) };
    } catch (error) {
      yield { ...record, fault: error instanceof Error ? error.message : String(error) };
    }
  }
}

type Members = Readonly<Record<string, unknown>>;
const NO_MEMBERS: Members = {};

/** @returns undefined for what is no object of JSON */
function membersOf(body: Uint8Array): Members | undefined {
  try {
    const members: unknown = JSON.parse(STRICT.decode(body));
    const isObject = typeof members === "object" && members !== null && !Array.isArray(members);
    return isObject ? { ...members } : undefined;
  } catch {
    return undefined;
  }
}

/** @throws Error that says which value can be no key, and why */
function keysFrom(members: Members, keys: KeyColumns): KeyColumns {
  const given: Partial<Record<KeyName, string>> = {};
  for (const key of KEY_NAMES) {
    const name = keys[key];
    if (name === undefined) continue;
    if (Object.hasOwn(members, key))
      throw new Error(`it has a ${key} of its own, so ${name} cannot become it.`);
    const value = Object.hasOwn(members, name) ? members[name] : undefined;
    given[key] = keyText(value, name, key);
  }
  return given;
}

function keyText(value: unknown, name: string, key: KeyName): string {
  const what = `${name}, which is to become its ${key}`;
  const isRounded =
    typeof value === "number" &&
    (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value)));
  if (isRounded) throw new Error(`${what}, is a number with too many digits; a string keeps them.`);
  if (value === undefined || value === null || value === "")
    throw new Error(`it has no value of ${what}.`);
  if (typeof value === "object") throw new Error(`${what}, is no string, number, true or false.`);
  return String(value);
}

async function* readJsonLines(
  chunks: AsyncIterable<Uint8Array>,
  { name }: ReadOptions,
): AsyncGenerator<FileRecord> {
  const find = (bytes: Uint8Array, from: number) => bytes.indexOf(LINE_FEED, from);
  for await (const { line, number, bytes } of linesOf(chunks, find, name)) {
    if (!isBlank(line)) yield { number, bytes, body: line };
  }
}

interface FileLine {
  readonly line: Uint8Array;
  /** Where it begins; one with line breaks in quotes counts as several. */
  readonly number: number;
  /** Of the file up to its end. */
  readonly bytes: number;
}

/** @param find the line feed that ends a line, from a position on; -1 where it is not here */
async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
  find: (bytes: Uint8Array, from: number) => number,
  name: string,
): AsyncGenerator<FileLine> {
  let rest: Uint8Array = new Uint8Array(0);
  let isBegun = false;
  let bytes = 0;
  let number = 1;
  for await (const chunk of chunks) {
    const text = rest.length === 0 ? chunk : joined(rest, chunk);
    let start = 0;
    let from = rest.length;
    if (!isBegun) {
      if (text.length < BYTE_ORDER_MARK.length) {
        rest = text;
        continue;
      }
      isBegun = true;
      start = BYTE_ORDER_MARK.every((byte, i) => text[i] === byte) ? BYTE_ORDER_MARK.length : 0;
      from = start;
    }
    for (let end = find(text, from); end >= 0; end = find(text, start)) {
      bytes += end + 1 - start;
      yield { line: text.subarray(start, end), number, bytes };
      // Once for each line break in it.
      for (; start <= end; start = text.indexOf(LINE_FEED, start) + 1) number++;
    }
    rest = text.subarray(start);
    if (rest.length > RECORD_BYTES_MAX)
      throw new Error(
        `The record on line ${number} of ${name} is longer than ${RECORD_BYTES_MAX / 2 ** 20} MiB. Is a quote or a line break missing?`,
      );
  }
  yield { line: rest, number, bytes: bytes + rest.length };
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

function isBlank(line: Uint8Array): boolean {
  return line.every((byte) => byte === SPACE || (byte >= TAB && byte <= RETURN));
}

async function* readRows(
  chunks: AsyncIterable<Uint8Array>,
  options: ReadOptions,
): AsyncGenerator<FileRecord> {
  const { name, onColumns } = options;
  let columns: Columns | undefined;
  for await (const { line, number, bytes } of linesOf(chunks, new CsvLines().find, name)) {
    if (isBlank(line)) continue;
    const cells = cellsOf(line);
    if (columns === undefined) {
      if (typeof cells === "string") throw new Error(`The first line of ${name}: ${cells}`);
      columns = columnsOf(cells, options);
      onColumns?.(cells, columns.isTyped);
      continue;
    }
    try {
      if (typeof cells === "string") throw new Error(cells);
      yield { number, bytes, body: bodyOfRow(columns, cells) };
    } catch (error) {
      const fault = error instanceof Error ? error.message : String(error);
      yield { number, bytes, body: line, fault };
    }
  }
  if (columns === undefined)
    throw new Error(`${name} is empty; a line with the names of the columns is expected.`);
}

/** The cells, or why there are none. */
function cellsOf(line: Uint8Array): string[] | string {
  let text: string;
  try {
    text = STRICT.decode(line);
  } catch {
    return "it is not UTF-8.";
  }
  const cells = parseCsv(text.endsWith("\r") ? text.slice(0, -1) : text);
  return cells ?? "its quotes are not those of CSV: a cell begins and ends with one, or has none.";
}

interface Column {
  readonly name: string;
  readonly at: number;
  /** Where its type is; undefined in a file without types. */
  readonly typeAt: number | undefined;
  /** Of a column without types. */
  readonly type: EdmType;
}

interface Columns {
  readonly count: number;
  readonly isTyped: boolean;
  /** What becomes a key that the file does not have. */
  readonly keys: readonly (readonly [KeyName, Column])[];
  readonly properties: readonly Column[];
}

function columnsOf(
  names: readonly string[],
  { name: file, types, keys = {}, mayLackKeys = false }: ReadOptions,
): Columns {
  for (const key of KEY_NAMES) {
    const from = keys[key];
    const has = names.includes(key);
    if (from === undefined && !has && !mayLackKeys) {
      const flag = key === "PartitionKey" ? "--partition-key" : "--row-key";
      // Names the command, because `serve --seed` reads such files too and has no such flag.
      const advice = `\`rowhouse import ${flag} COLUMN\` makes one of them the ${key}.`;
      throw new Error(
        `${file} has no column ${key}; its columns are ${names.join(", ")}. ${advice}`,
      );
    }
    if (from !== undefined && has)
      throw new Error(`${file} has a column ${key}, so ${from} cannot become it.`);
  }
  const repeated = names.find((name, at) => names.indexOf(name) !== at);
  if (repeated !== undefined) throw new Error(`${file} has two columns ${repeated}.`);
  const isTyped = names.some((name) => name.endsWith(TYPE));
  const properties: Column[] = [];
  for (const [at, name] of names.entries()) {
    if (name.endsWith(TYPE) || name === "Timestamp" || name === "etag") continue;
    const typeAt = names.indexOf(name + TYPE);
    const type = types?.get(name) ?? "Edm.String";
    properties.push({ name, at, typeAt: !isTyped || typeAt < 0 ? undefined : typeAt, type });
  }
  const becoming = KEY_NAMES.flatMap((key): [KeyName, Column][] => {
    const from = keys[key];
    if (from === undefined) return [];
    const column = properties.find(({ name }) => name === from);
    if (column) return [[key, column]];
    const found = properties.map(({ name }) => name).join(", ") || "none";
    throw new Error(`${file} has no column ${from} that could become its ${key}; it has ${found}.`);
  });
  return { count: names.length, isTyped, keys: becoming, properties };
}

/** @throws Error that says which cell cannot be read */
function bodyOfRow({ count, keys, properties }: Columns, cells: readonly string[]): Uint8Array {
  if (cells.length !== count) {
    throw new Error(`${cells.length} cells, where the first line names ${count} columns.`);
  }
  const members = keys.map(
    ([key, { name, at }]) => `"${key}":${JSON.stringify(keyText(cells[at], name, key))}`,
  );
  for (const { name, at, typeAt, type: ofColumn } of properties) {
    const text = cells[at]!;
    if (name === "PartitionKey" || name === "RowKey") {
      members.push(`${JSON.stringify(name)}:${JSON.stringify(text)}`);
      continue;
    }
    const typeText = typeAt === undefined ? (text === "" ? "" : ofColumn) : cells[typeAt]!.trim();
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
  return UTF8.encode(`{${members.join(",")}}`);
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

/**
 * Writes lines of JSONL as typed CSV.
 * @param read reads them anew: the columns are known only at the end
 */
export async function writeCsv(
  read: () => AsyncIterable<FileRecord>,
  write: (text: string) => void,
): Promise<void> {
  const names = new Set<string>();
  for await (const { body } of read())
    for (const name of propertyNames(decodeEntity(body))) names.add(name);
  const writer = new CsvWriter(names);
  let text = writer.head();
  for await (const { body } of read()) {
    text += writer.row(body);
    if (text.length < WRITTEN_AT_ONCE) continue;
    write(text);
    text = "";
  }
  write(text);
}

/** The names of an entity's properties. */
export function propertyNames({ json, properties }: DecodedEntity): string[] {
  let start = 0;
  return properties.map(({ end, nameBytes }) => {
    const at = start + NAME_OFFSET;
    start = end;
    return decodeUtf8(json, at, at + nameBytes);
  });
}

/** Writes entities, given as bodies, as typed CSV: first the line of names, then a line for each entity. */
class CsvWriter {
  readonly #names: readonly string[];

  /** @param names of all properties that occur, in the order of their columns */
  constructor(names: Iterable<string>) {
    this.#names = [...names];
  }

  head(): string {
    return printCsv([
      ...KEY_NAMES,
      "Timestamp",
      ...this.#names.flatMap((name) => [name, name + TYPE]),
    ]);
  }

  row(body: Uint8Array): string {
    const entity = decodeEntity(body);
    const cells = new Map<string, readonly [text: string, type: string]>();
    const names = propertyNames(entity);
    eachValue(entity, (i, type, value) => cells.set(names[i]!, [value, shortName(type)]));
    const timestamp = /"Timestamp":"([^"]*)"/.exec(decodeUtf8(body, 0, body.length))?.[1] ?? "";
    const { partitionKey, rowKey } = entity;
    const rest = this.#names.flatMap((name) => cells.get(name) ?? ["", ""]);
    return printCsv([partitionKey, rowKey, timestamp, ...rest]);
  }
}

function eachValue(
  { json, properties }: DecodedEntity,
  visit: (index: number, type: EdmType, text: string) => void,
): void {
  let start = 0;
  for (const [i, { form, nameBytes, end }] of properties.entries()) {
    const text = decodeUtf8(json, start + valueOffset(form, nameBytes), end);
    visit(i, typeOfForm(form), text.startsWith('"') ? String(JSON.parse(text)) : text);
    start = end;
  }
}

const TYPE = "@type";
const WRITTEN_AT_ONCE = 1 << 18;
/** Much more than an entity of 1 MiB takes, whatever is escaped in it. */
const RECORD_BYTES_MAX = 16 * 2 ** 20;
const TAB = 0x09;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const BRACE = 0x7b;
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];
const UTF8 = new TextEncoder();
const STRICT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
