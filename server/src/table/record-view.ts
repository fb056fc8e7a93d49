import { comparePrinted, ticksOfMicros } from "@rowhouse/protocol/date-time";
import { parsePrintedDouble } from "@rowhouse/protocol/double-text";
import {
  BOOLEAN,
  DOUBLE,
  type EdmForm,
  type EdmType,
  SPECIAL_DOUBLE,
  typeOfForm,
} from "@rowhouse/protocol/edm";
import { decodeBinary } from "@rowhouse/protocol/edm-value";
import { bareOffset, NAME_OFFSET, valueOffset } from "@rowhouse/protocol/json-property";
import {
  decodeJsonInside,
  decodeJsonString,
  decodeUtf8,
  type TextBound,
} from "@rowhouse/protocol/json-string";
import type { EntityView } from "../query/entity-view.ts";
import {
  COUNT_AT,
  DIRECTORY_AT,
  entryBytes,
  FLAG_ANNOTATED,
  FLAG_WIDE,
  FLAGS_AT,
  FORMAT,
  PARTITION_KEY_BYTES_AT,
  ROW_KEY_BYTES_AT,
  readUint16,
  recordTimestamp,
} from "./entity-record.ts";

/**
 * Reads a record without decoding it; for the layout see `entity-record.ts`. Positions are indexes
 * into `record`. A view is reused from record to record and retains nothing of the last one.
 */
export class RecordView implements EntityView {
  record: Uint8Array = new Uint8Array(0);
  /** Number of properties. */
  count = 0;
  /** Whether any property is annotated at minimalmetadata. */
  annotated = false;
  partitionKeyAt = 0;
  rowKeyAt = 0;
  /** Where the properties begin; they end where the record ends. */
  propertiesAt = 0;
  #wide = false;
  /** Where the last name was found: entities of one table are mostly alike. */
  #hint = 0;

  reset(record: Uint8Array): void {
    if (record[0] !== FORMAT) throw formatError(record[0]);
    const flags = record[FLAGS_AT]!;
    this.record = record;
    this.count = record[COUNT_AT]!;
    this.annotated = (flags & FLAG_ANNOTATED) !== 0;
    this.#wide = (flags & FLAG_WIDE) !== 0;
    this.partitionKeyAt = DIRECTORY_AT + this.count * entryBytes(this.#wide);
    this.rowKeyAt = this.partitionKeyAt + readUint16(record, PARTITION_KEY_BYTES_AT);
    this.propertiesAt = this.rowKeyAt + readUint16(record, ROW_KEY_BYTES_AT);
  }

  get partitionKey(): string {
    return decodeJsonInside(this.record, this.partitionKeyAt, this.rowKeyAt);
  }

  get rowKey(): string {
    return decodeJsonInside(this.record, this.rowKeyAt, this.propertiesAt);
  }

  /** Microseconds since 1970. */
  get timestampMicros(): number {
    return recordTimestamp(this.record);
  }

  get timestampTicks(): bigint {
    return ticksOfMicros(this.timestampMicros);
  }

  /** @param hint where it is looked for first */
  find(name: Uint8Array, hint = this.#hint): number {
    const { count } = this;
    let index = hint;
    for (let tried = 0; tried < count; tried++, index++) {
      if (index >= count) index = 0;
      if (this.nameBytes(index) === name.length && this.#isNamed(index, name)) {
        this.#hint = index;
        return index;
      }
    }
    return -1;
  }

  typeOf(index: number): EdmType {
    return typeOfForm(this.form(index));
  }

  text(index: number): string {
    return decodeJsonString(this.record, this.valueAt(index), this.endOf(index));
  }

  jsonEquals(index: number, json: Uint8Array): boolean {
    const at = this.valueAt(index);
    if (this.endOf(index) - at !== json.length) return false;
    const { record } = this;
    for (let i = 0; i < json.length; i++) {
      if (record[at + i] !== json[i]) return false;
    }
    return true;
  }

  number(index: number): number {
    const { record } = this;
    const at = this.valueAt(index);
    const end = this.endOf(index);
    switch (this.form(index)) {
      case BOOLEAN:
        return record[at] === 0x74 ? 1 : 0; // t
      case DOUBLE:
        return parsePrintedDouble(record, at, end);
      case SPECIAL_DOUBLE:
        return Number(decodeUtf8(record, at + 1, end - 1));
      default:
        return parseInteger(record, at, end);
    }
  }

  compareText(index: number, bound: TextBound): number {
    return bound.compare(this.record, this.valueAt(index) + 1, this.endOf(index) - 1);
  }

  comparePartitionKey(bound: TextBound): number {
    return bound.compare(this.record, this.partitionKeyAt, this.rowKeyAt);
  }

  compareRowKey(bound: TextBound): number {
    return bound.compare(this.record, this.rowKeyAt, this.propertiesAt);
  }

  compareDateTime(index: number, printed: Uint8Array): number {
    return comparePrinted(this.record, this.valueAt(index) + 1, this.endOf(index) - 1, printed);
  }

  bigint(index: number): bigint {
    const { record } = this;
    const at = this.valueAt(index) + 1;
    const end = this.endOf(index) - 1;
    // Up to fifteen digits are exact as a number, which is faster.
    return end - at <= 15
      ? BigInt(parseInteger(record, at, end))
      : BigInt(decodeUtf8(record, at, end));
  }

  bytes(index: number): Uint8Array {
    return decodeBinary(this.record, this.valueAt(index) + 1, this.endOf(index) - 1);
  }

  form(index: number): EdmForm {
    return readUint16(this.record, this.#entryAt(index)) >>> 12;
  }

  nameBytes(index: number): number {
    return readUint16(this.record, this.#entryAt(index)) & 0xfff;
  }

  /** The start of the property: the comma before its name or annotation. */
  startOf(index: number): number {
    return index === 0 ? this.propertiesAt : this.endOf(index - 1);
  }

  endOf(index: number): number {
    const { record } = this;
    const at = this.#entryAt(index) + 2;
    const low = readUint16(record, at);
    return this.propertiesAt + (this.#wide ? low + readUint16(record, at + 2) * 0x10000 : low);
  }

  /** The start of the property without its annotation. */
  bareAt(index: number): number {
    return this.startOf(index) + bareOffset(this.form(index), this.nameBytes(index));
  }

  valueAt(index: number): number {
    return this.startOf(index) + valueOffset(this.form(index), this.nameBytes(index));
  }

  #entryAt(index: number): number {
    return DIRECTORY_AT + index * entryBytes(this.#wide);
  }

  #isNamed(index: number, name: Uint8Array): boolean {
    const { record } = this;
    const at = this.startOf(index) + NAME_OFFSET;
    // Backwards: names differ at the end more often than at the beginning.
    for (let i = name.length - 1; i >= 0; i--) {
      if (record[at + i] !== name[i]) return false;
    }
    return true;
  }
}

function formatError(found: number | undefined): Error {
  return new Error(`The entity record has format ${found}; this release reads format ${FORMAT}.`);
}

/** Digits with or without a sign, at most fifteen. */
function parseInteger(bytes: Uint8Array, start: number, end: number): number {
  const negative = bytes[start] === 0x2d;
  let value = 0;
  for (let at = negative ? start + 1 : start; at < end; at++)
    value = value * 10 + bytes[at]! - 0x30;
  return negative ? -value : value;
}
