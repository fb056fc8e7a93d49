import { isPrintedDouble, printDouble } from "./double-text.ts";
import {
  BINARY,
  BOOLEAN,
  DATE_TIME,
  DOUBLE,
  type EdmForm,
  GUID,
  INT32,
  INT64,
  SPECIAL_DOUBLE,
  STRING,
} from "./edm.ts";
import {
  NO_VALUE,
  type WriteValue,
  writeBinary,
  writeDateTime,
  writeGuid,
  writeInt32,
  writeInt64,
} from "./edm-value.ts";
import { ESCAPED_TEXT, FALSE, FRACTION, INTEGER, TEXT, TRUE } from "./json-members.ts";
import { decodeJsonString, decodeUtf8, encodeJsonString } from "./json-string.ts";

/** A JSON value in `bytes[start, end)`, without the quotes of a string; `kind` as in `JsonMembers`. */
export interface JsonValue {
  kind: number;
  bytes: Uint8Array;
  start: number;
  end: number;
}

/** The form of a value without annotation: its JSON type alone, whatever a string looks like. */
export function inferForm({ kind }: JsonValue): EdmForm {
  switch (kind) {
    case INTEGER:
      return INT32;
    case FRACTION:
      return DOUBLE;
    case TRUE:
    case FALSE:
      return BOOLEAN;
    default:
      return STRING;
  }
}

/** The form of a value annotated as `form`: the same, except for a double that is not a JSON number. */
export function settleForm(form: EdmForm, { kind, bytes, start, end }: JsonValue): EdmForm {
  if (form !== DOUBLE || kind !== TEXT || end - start > 9) return form;
  return SPECIAL_DOUBLES.has(decodeUtf8(bytes, start, end)) ? SPECIAL_DOUBLE : DOUBLE;
}

/** Whether the JSON of a value is already as it will be stored. May return false for one that is. */
export function isStoredText(form: EdmForm, { kind, bytes, start, end }: JsonValue): boolean {
  switch (form) {
    case STRING:
      return kind === TEXT;
    case INT32: // Nine digits are in range, and only zero could have a surplus sign.
      return (
        kind === INTEGER &&
        end - start <= 9 &&
        !(bytes[start] === MINUS && bytes[start + 1] === ZERO)
      );
    case DOUBLE:
      return kind === FRACTION && isPrintedDouble(bytes, start, end);
    case BOOLEAN:
      return kind === TRUE || kind === FALSE;
    default:
      return false;
  }
}

/**
 * Writes the stored text of a value to `out` from `at` on and returns where it ends; `NO_VALUE` if
 * the value is not of its type, `TOO_EARLY` for a date-time before 1601.
 */
export function writeJsonValue(
  out: Uint8Array,
  at: number,
  form: EdmForm,
  value: JsonValue,
): number {
  const { kind, bytes, start, end } = value;
  const isText = kind === TEXT;
  const isNumber = kind === INTEGER || kind === FRACTION;
  switch (form) {
    case STRING:
      if (kind === ESCAPED_TEXT) return writeUnescaped(out, at, value);
      return isText ? writeQuoted(out, at, value, writeAsIs) : NO_VALUE;
    case INT32:
      return isText || isNumber ? writeInt32(out, at, bytes, start, end) : NO_VALUE;
    case INT64:
      return isText || isNumber ? writeQuoted(out, at, value, writeInt64) : NO_VALUE;
    case DOUBLE:
      return isText || isNumber ? writeDouble(out, at, value) : NO_VALUE;
    case BOOLEAN:
      return writeBoolean(out, at, value);
    case SPECIAL_DOUBLE:
      return writeQuoted(out, at, value, writeAsIs);
    case DATE_TIME:
      return isText ? writeQuoted(out, at, value, writeDateTime) : NO_VALUE;
    case GUID:
      return isText ? writeQuoted(out, at, value, writeGuid) : NO_VALUE;
    case BINARY:
      return isText ? writeQuoted(out, at, value, writeBinary) : NO_VALUE;
    default:
      return NO_VALUE;
  }
}

/** Copies bytes and returns where the copy ends. */
export function copyBytes(
  out: Uint8Array,
  at: number,
  bytes: Uint8Array,
  start: number,
  end: number,
): number {
  if (end - start < LOOP_BYTES_MAX) {
    for (let i = start, next = at; i < end; i++) out[next++] = bytes[i]!;
  } else {
    out.set(bytes.subarray(start, end), at);
  }
  return at + end - start;
}

/** A loop takes 2 ns a byte; the native copy takes 47 ns to call (measured on Node 20). */
const LOOP_BYTES_MAX = 24;

const writeAsIs: WriteValue = copyBytes;

function writeQuoted(out: Uint8Array, at: number, value: JsonValue, write: WriteValue): number {
  out[at] = QUOTE;
  const end = write(out, at + 1, value.bytes, value.start, value.end);
  if (end < 0) return end;
  out[end] = QUOTE;
  return end + 1;
}

function writeUnescaped(out: Uint8Array, at: number, { bytes, start, end }: JsonValue): number {
  const text = encodeJsonString(decodeJsonString(bytes, start - 1, end + 1));
  return writeText(out, at, text);
}

function writeDouble(out: Uint8Array, at: number, { bytes, start, end }: JsonValue): number {
  const text = end - start <= NUMBER_LENGTH_MAX ? decodeUtf8(bytes, start, end) : "";
  const double = NUMBER.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(double) ? writeText(out, at, printDouble(double)) : NO_VALUE;
}

function writeBoolean(out: Uint8Array, at: number, { kind, bytes, start, end }: JsonValue): number {
  if (kind === TRUE) return writeText(out, at, "true");
  if (kind === FALSE) return writeText(out, at, "false");
  const text = kind === TEXT && end - start <= 5 ? decodeUtf8(bytes, start, end) : "";
  // In any case, as in filters.
  const plain = text.toLowerCase();
  return plain === "true" || plain === "false" ? writeText(out, at, plain) : NO_VALUE;
}

function writeText(out: Uint8Array, at: number, text: string): number {
  return at + encoder.encodeInto(text, out.subarray(at)).written;
}

const encoder = new TextEncoder();
const SPECIAL_DOUBLES: ReadonlySet<string> = new Set(["NaN", "Infinity", "-Infinity"]);
/** Numbers in strings may omit digits that JSON requires and have extra leading zeros. */
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
/** The longest exact decimal form of a double has 767 significant digits. */
const NUMBER_LENGTH_MAX = 2048;
const QUOTE = 0x22;
const MINUS = 0x2d;
const ZERO = 0x30;
