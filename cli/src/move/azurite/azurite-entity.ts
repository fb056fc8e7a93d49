import { type DecodedEntity, decodeEntity } from "@rowhouse/protocol/entity-json";
import { checkBodyKey } from "@rowhouse/protocol/entity-key";
import { decodeJsonString } from "@rowhouse/protocol/json-string";
import { objectEnd, stringEnd } from "../raw-entity.ts";
import { parseRow, rowOf, textOf } from "./row-members.ts";

export interface AzuriteEntity {
  readonly entity: DecodedEntity;
  /** Microseconds since 1970. The emulator's Timestamps may have one digit more, which is lost. */
  readonly timestampMicros: number;
}

/**
 * An entity from its row in the emulator's file. Its properties are those of the wire, so they are decoded as they lie
 * there, which takes a third of the time of parsing the row and printing them; but Guids are kept as the Base64 of
 * their text, and are replaced in `bytes`.
 * @throws Error, or ServiceError for what breaks a rule of the service
 */
export function azuriteEntity(bytes: Buffer): AzuriteEntity {
  const row = memberSpans(bytes);
  const partitionKey = textAt(bytes, row.PartitionKey);
  const rowKey = textAt(bytes, row.RowKey);
  const time = textAt(bytes, row.lastModifiedTime);
  if (
    partitionKey === undefined ||
    rowKey === undefined ||
    time === undefined ||
    bytes[row.properties?.start ?? -1] !== OPEN
  ) {
    throw new Error(describeLack(bytes));
  }
  checkBodyKey("PartitionKey", partitionKey);
  checkBodyKey("RowKey", rowKey);
  const properties = bytes.subarray(row.properties!.start, row.properties!.end);
  decodeGuids(properties);
  return {
    entity: decodeEntity(properties, { partitionKey, rowKey }),
    timestampMicros: microsOf(time),
  };
}

/** The bytes of a value in a row. */
interface Span {
  readonly start: number;
  readonly end: number;
}

const MEMBERS = ["PartitionKey", "RowKey", "lastModifiedTime", "properties"] as const;
type Member = (typeof MEMBERS)[number];

/** Where the members of a row are, which the emulator prints without white space. */
function memberSpans(bytes: Buffer): { [name in Member]?: Span } {
  const spans: { [name in Member]?: Span } = {};
  for (let at = 1; bytes[at] === QUOTE; ) {
    const nameEnd = stringEnd(bytes, at)!;
    const name = bytes.toString("latin1", at + 1, nameEnd);
    const start = nameEnd + 2;
    const end = valueEnd(bytes, start);
    const member = MEMBERS.find((each) => each === name);
    if (member !== undefined) spans[member] = { start, end };
    at = end + 1;
  }
  return spans;
}

function valueEnd(bytes: Buffer, start: number): number {
  if (bytes[start] === OPEN) return objectEnd(bytes, start)!;
  if (bytes[start] === QUOTE) return stringEnd(bytes, start)! + 1;
  let end = start;
  while (bytes[end] !== COMMA && bytes[end] !== CLOSE) end++;
  return end;
}

function textAt(bytes: Buffer, span: Span | undefined): string | undefined {
  if (span === undefined || bytes[span.start] !== QUOTE) return undefined;
  return decodeJsonString(bytes, span.start, span.end);
}

/** The member that is missing, or is of another type. */
function describeLack(bytes: Buffer): string {
  try {
    const row = parseRow(bytes);
    for (const name of ["PartitionKey", "RowKey", "lastModifiedTime"]) textOf(row, name);
    rowOf(row, "properties");
  } catch (error) {
    if (error instanceof Error) return error.message;
  }
  return "the row is printed in another way than the emulator's";
}

/** Writes the text of a Guid, which is shorter, over its Base64. What is neither is refused when it is decoded. */
function decodeGuids(properties: Buffer): void {
  let at = properties.indexOf(GUID_ANNOTATION);
  for (; at >= 0; at = properties.indexOf(GUID_ANNOTATION, at + 1)) {
    const nameStart = properties.lastIndexOf(QUOTE, at);
    const member = Buffer.concat([properties.subarray(nameStart, at), BEFORE_TEXT]);
    // Quotes inside strings are escaped, so this occurs nowhere else.
    const found = properties.indexOf(member);
    if (found < 0) continue;
    const start = found + member.length;
    const end = stringEnd(properties, start - 1)!;
    const text = Buffer.from(properties.toString("latin1", start, end), "base64").toString(
      "latin1",
    );
    if (GUID.test(text)) properties.fill(" ", properties.write(`${text}"`, start) + start, end + 1);
  }
}

const GUID_ANNOTATION = '@odata.type":"Edm.Guid"';
const BEFORE_TEXT = Buffer.from('":"');
const GUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const INSTANT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z$/;

function microsOf(text: string): number {
  const [, seconds, fraction = ""] = INSTANT.exec(text) ?? [];
  if (seconds === undefined) throw new Error(`lastModifiedTime is "${text}", which is no time`);
  return Date.parse(`${seconds}Z`) * 1000 + Number(fraction.slice(0, 6).padEnd(6, "0"));
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN = 0x7b;
const CLOSE = 0x7d;
