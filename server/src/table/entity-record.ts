import { secondsOfMicros, ticksWithinSecond, writeEtagInstant } from "@rowhouse/protocol/date-time";
import { type EdmForm, isAnnotated } from "@rowhouse/protocol/edm";
import type { DecodedEntity } from "@rowhouse/protocol/entity-json";
import { decodeUtf8, encodeJsonString } from "@rowhouse/protocol/json-string";
import { copyBytes } from "@rowhouse/protocol/json-value";
import { LIMITS } from "@rowhouse/protocol/limits";
import { takeBytes } from "../byte-slab.ts";
import type { Entry } from "../engine/engine.ts";

/**
 * A stored entity. Its properties are JSON text as it is sent, after a directory that locates each
 * without reading the others. A response is a copy of the text; a filter or projection reads only
 * the properties it names (`RecordView`).
 *
 *     at  bytes  content
 *     0   1      format: 1
 *     1   1      flags: 1 = ends take four bytes, 2 = some property is annotated
 *     2   1      n, the number of properties
 *     3   8      Timestamp, in microseconds since 1970
 *     11  2      p, the length of the PartitionKey
 *     13  2      r, the length of the RowKey
 *     15  4n     directory, in the order of the properties: 2 bytes form × 4096 + length of the name,
 *         or 6n  2 bytes (4 with flag 1) end of the property
 *         p      PartitionKey as JSON text, without its quotes
 *         r      RowKey, likewise
 *                properties one after the other, each `,"name":value`; see `JsonProperty`
 *
 * Numbers are little-endian. Lengths and ends count bytes, ends from where the properties begin.
 * The keys are in the engine's key too; a response is written without decoding that.
 */
export const FORMAT = 1;
export const FLAG_WIDE = 1;
export const FLAG_ANNOTATED = 2;

export const FLAGS_AT = 1;
export const COUNT_AT = 2;
const TIMESTAMP_AT = 3;
export const PARTITION_KEY_BYTES_AT = 11;
export const ROW_KEY_BYTES_AT = 13;
export const DIRECTORY_AT = 15;

/** The record of an entity, whose size `decodeEntity` has checked. */
export function encodeRecord(entity: DecodedEntity, timestampMicros: number): Uint8Array {
  const { json, properties } = entity;
  const partitionKeyBytes = writeKey(keyText, 0, entity.partitionKey);
  const keyBytes = writeKey(keyText, partitionKeyBytes, entity.rowKey);
  const wide = json.length > 0xffff;
  const keysAt = DIRECTORY_AT + properties.length * entryBytes(wide);
  const record = takeBytes(keysAt + keyBytes + json.length);
  let flags = wide ? FLAG_WIDE : 0;
  for (let i = 0; i < properties.length; i++) {
    const { form, nameBytes, end } = properties[i]!;
    if (isAnnotated(form)) flags |= FLAG_ANNOTATED;
    writeEntry(record, wide, i, form, nameBytes, end);
  }
  record[0] = FORMAT;
  record[FLAGS_AT] = flags;
  record[COUNT_AT] = properties.length;
  stampRecord(record, timestampMicros);
  writeUint16(record, PARTITION_KEY_BYTES_AT, partitionKeyBytes);
  writeUint16(record, ROW_KEY_BYTES_AT, keyBytes - partitionKeyBytes);
  copyBytes(record, keysAt, keyText, 0, keyBytes);
  record.set(json, keysAt + keyBytes);
  return record;
}

/**
 * The record of an entry, with its real Timestamp: the entry's version, if the engine raised that
 * above the version the record was written with. An engine does so when another process has already
 * committed a version as high. The Timestamp inside the record may then be that of the previous
 * content.
 */
export function recordOf({ value, version }: Pick<Entry, "value" | "version">): Uint8Array {
  return version > recordTimestamp(value) ? restampRecord(value, version) : value;
}

/** The same entity with another Timestamp. */
function restampRecord(record: Uint8Array, timestampMicros: number): Uint8Array {
  const restamped = new Uint8Array(record);
  stampRecord(restamped, timestampMicros);
  return restamped;
}

/** Changes the Timestamp of a record. */
export function stampRecord(record: Uint8Array, micros: number): void {
  const high = Math.floor(micros / 2 ** 32);
  writeUint32(record, TIMESTAMP_AT, micros - high * 2 ** 32);
  writeUint32(record, TIMESTAMP_AT + 4, high);
}

/** Microseconds since 1970. */
export function recordTimestamp(record: Uint8Array): number {
  return readUint32(record, TIMESTAMP_AT + 4) * 2 ** 32 + readUint32(record, TIMESTAMP_AT);
}

/** The ETag, as in headers. */
export function recordEtag(record: Uint8Array): string {
  const micros = recordTimestamp(record);
  if (micros !== lastMicros) {
    lastEtag = printEtag(micros);
    lastMicros = micros;
  }
  return lastEtag;
}

/**
 * All entities of a transaction share one ETag; printing it once saves 2.5 % of the cost above the
 * engine.
 */
let lastEtag = "";
let lastMicros = -1;

function printEtag(micros: number): string {
  const at = ETAG_OPENING.length;
  const end = writeEtagInstant(etagText, at, secondsOfMicros(micros), ticksWithinSecond(micros));
  etagText[end] = 0x27; // '
  etagText[end + 1] = 0x22; // "
  return decodeUtf8(etagText, 0, end + 2);
}

/** Size of a directory entry. */
export function entryBytes(wide: boolean): number {
  return wide ? 6 : 4;
}

function writeEntry(
  record: Uint8Array,
  wide: boolean,
  index: number,
  form: EdmForm,
  nameBytes: number,
  end: number,
): void {
  const at = DIRECTORY_AT + index * entryBytes(wide);
  writeUint16(record, at, (form << 12) | nameBytes);
  writeUint16(record, at + 2, end & 0xffff);
  if (wide) writeUint16(record, at + 4, end >>> 16);
}

function writeUint32(bytes: Uint8Array, at: number, value: number): void {
  writeUint16(bytes, at, value & 0xffff);
  writeUint16(bytes, at + 2, value >>> 16);
}

function writeUint16(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value;
  bytes[at + 1] = value >>> 8;
}

export function readUint16(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8);
}

function readUint32(bytes: Uint8Array, at: number): number {
  return (readUint16(bytes, at) | (readUint16(bytes, at + 2) << 16)) >>> 0;
}

/** Writes a key as JSON text without its quotes, and returns where it ends. */
function writeKey(out: Uint8Array, at: number, key: string): number {
  // Nearly all keys are ASCII and take 20 ns this way; the escaping test and the encoder take 600.
  for (let i = 0; i < key.length; i++) {
    const unit = key.charCodeAt(i);
    if (unit < 0x20 || unit > 0x7e || unit === 0x22 || unit === 0x5c) {
      return writeAnyKey(out, at, key);
    }
    out[at + i] = unit;
  }
  return at + key.length;
}

function writeAnyKey(out: Uint8Array, at: number, key: string): number {
  const text = ESCAPED.test(key) ? encodeJsonString(key).slice(1, -1) : key;
  return at + encoder.encodeInto(text, out.subarray(at)).written;
}

/** The characters that JSON escapes. */
const ESCAPED = /["\\\p{Cc}\p{Cs}]/u;
const encoder = new TextEncoder();
/** For both keys; a UTF-16 code unit takes at most six bytes of JSON. */
const keyText = new Uint8Array(2 * 6 * LIMITS.keyLengthMax);

const ETAG_OPENING = encoder.encode("W/\"datetime'");
const etagText = new Uint8Array(64);
etagText.set(ETAG_OPENING);
