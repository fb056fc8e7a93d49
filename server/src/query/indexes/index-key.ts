import type { EdmType } from "@rowhouse/protocol/edm";
import type { ComparisonOperator, Literal } from "@rowhouse/protocol/filter-tree";
import type { KeyPosition } from "../plan.ts";
import type { IndexDefinition, IndexPart } from "./index-definition.ts";

/**
 * The keys of index entries. For a key of the properties v1 … vn and an entity p/r:
 *
 *     index    PartitionKey   RowKey
 *     global   v1             v2! … vn! p!r
 *     local    p as it is     v1! … vn! r
 *
 * Each part is printable ASCII that sorts as the values do. `!` sorts below every character of a part, so the whole
 * key sorts by v1, then v2, …, and entries that agree in all parts are in the order of their entities.
 *
 *     String          escaped by UTF-16 code unit, as keys are compared
 *     Int32, Int64    n + 2^63 as 16 hexadecimal digits
 *     Double          IEEE bits made sortable, 16 hexadecimal digits; -0 as 0; NaN as `~n~`
 *     DateTime        ticks of 100 ns since year 1, 19 digits
 *     Boolean, Guid, Binary   0 or 1; lower-case text; hexadecimal digits
 *
 * A descending part has the complement of its digits. A value of another type than declared begins with a marker, `~`
 * and a letter, so every entity that has the property has an entry. Escapes continue `~` with `0`: markers sort behind
 * them. What would make a key too long is cut and ends in `~~` and a hash.
 *
 * An entity without the first property has no entry. A missing one of the others is written `~~`, behind all values: a
 * query that asks only for the first properties must find entities that lack the rest.
 *
 * The pattern library's codecs write the same text (`tests/patterns/key-text.test.ts`).
 */

/** A value with its type, as filters have it and as entities hold it. */
export type IndexValue = Literal;

/** Above every character of a key. */
const TOP = "\x7f";
const END_OF_PART = "!";
/** The first character above the end of a part. */
const AFTER_PART = '"';

/** UTF-16 units of the PartitionKey and of the RowKey of an entry: what every table service accepts. */
const KEY_LENGTH_MAX = 512;
/** Of a part that is a PartitionKey, and of one inside a RowKey. */
const PARTITION_PART_MAX = 200;
const ROW_PART_MAX = 100;
const CUT = "~~";
/** No other part begins with it. */
const MISSING = "~~";
const HASH_DIGITS = 32;
const CUT_LENGTH = CUT.length + HASH_DIGITS;

const MARKERS: Readonly<Record<EdmType, string>> = {
  "Edm.Boolean": "~b",
  "Edm.Guid": "~g",
  "Edm.Int32": "~i",
  "Edm.Int64": "~l",
  "Edm.Double": "~n",
  "Edm.String": "~s",
  "Edm.DateTime": "~t",
  "Edm.Binary": "~y",
};
const NOT_A_NUMBER = "~n~";
/** Above all plain values, below all markers. */
const PLAIN_END = "~1";

// --- Entries ---------------------------------------------------------------------------------

/** Positions in an index table. */
export interface EntryKey {
  readonly partitionKey: string;
  readonly rowKey: string;
}

/** The key of the entry of an entity with these values, one for each part; only the first is always there. */
export function entryKey(
  index: IndexDefinition,
  base: KeyPosition,
  values: readonly (IndexValue | undefined)[],
): EntryKey {
  const { isLocal, parts } = index;
  let rowKey = "";
  for (let at = isLocal ? 0 : 1; at < parts.length; at++) {
    rowKey += encodePart(parts[at]!, values[at]!, ROW_PART_MAX) + END_OF_PART;
  }
  rowKey += encodeBase(index, base);
  const partitionKey = isLocal
    ? base.partitionKey
    : encodePart(parts[0]!, values[0]!, PARTITION_PART_MAX);
  return { partitionKey, rowKey };
}

/** The values as they are written in the key, one after the other. */
export function printValues(
  { parts }: IndexDefinition,
  values: readonly (IndexValue | undefined)[],
): string {
  return parts.map((part, at) => encodePart(part, values[at], ROW_PART_MAX)).join(END_OF_PART);
}

/** The end of an entry's RowKey: the keys of its entity, or what is left of them. */
function encodeBase(index: IndexDefinition, base: KeyPosition): string {
  const whole = encodePosition(index, base);
  const lengthMax = baseLengthMax(index);
  if (whole.length <= lengthMax) return whole;
  return CUT + whole.slice(0, lengthMax - CUT.length - CUT_LENGTH) + CUT + hash128(whole);
}

function encodePosition(
  { isLocal }: IndexDefinition,
  { partitionKey, rowKey }: KeyPosition,
): string {
  return isLocal ? encodeText(rowKey) : encodeText(partitionKey) + END_OF_PART + encodeText(rowKey);
}

function baseLengthMax({ isLocal, parts }: IndexDefinition): number {
  const rowParts = isLocal ? parts.length : parts.length - 1;
  return KEY_LENGTH_MAX - rowParts * (ROW_PART_MAX + END_OF_PART.length);
}

function encodePart(part: IndexPart, value: IndexValue | undefined, lengthMax: number): string {
  return value === undefined ? MISSING : cutTo(lengthMax, codeOf(part, value));
}

function cutTo(lengthMax: number, code: string): string {
  if (code.length <= lengthMax) return code;
  return code.slice(0, lengthMax - CUT_LENGTH) + CUT + hash128(code);
}

function codeOf({ type, descending }: IndexPart, value: IndexValue): string {
  if (value.type === "Edm.Double" && Number.isNaN(value.value)) return NOT_A_NUMBER;
  const code = encodeValue(value);
  if (value.type !== type) return MARKERS[value.type] + code;
  return descending ? complement(type, code) : code;
}

function encodeValue(value: IndexValue): string {
  switch (value.type) {
    case "Edm.String":
      return encodeText(value.value);
    case "Edm.Guid":
      return value.value;
    case "Edm.Int32":
      return encodeInt32(value.value);
    case "Edm.Int64":
      return hex64(value.value + TWO_63);
    case "Edm.Double":
      return encodeDouble(value.value);
    case "Edm.Boolean":
      return value.value ? "1" : "0";
    case "Edm.DateTime":
      return String(value.value).padStart(TICKS_DIGITS, "0");
    case "Edm.Binary":
      return encodeBinary(value.value);
  }
}

// --- Values ----------------------------------------------------------------------------------

/**
 * Text in printable ASCII without `!`, sorted as UTF-16 code units are. Each escape begins with the nearest allowed
 * character below the one it stands for; what follows it sorts above anything that can follow that character.
 */
export function encodeText(text: string): string {
  if (!NEEDS_ESCAPE.test(text)) return text;
  let code = "";
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit <= 0x23) code += `"${unit.toString(16).padStart(2, "0")}`;
    else if (unit >= 0x7e) code += `~0${unit.toString(16).padStart(4, "0")}`;
    else code += ESCAPES[text.charAt(at)] ?? text.charAt(at);
  }
  return code;
}

const ESCAPES: Readonly<Record<string, string>> = {
  "%": "$~~",
  "/": ".~~",
  "?": ">~~",
  "\\": "[~~",
};
const NEEDS_ESCAPE = /[^$&-.0->@-[\]-}]/;

const TWO_63 = 1n << 63n;
const ALL_BITS = (1n << 64n) - 1n;
const TICKS_DIGITS = 19;

function hex64(value: bigint): string {
  return value.toString(16).padStart(16, "0");
}

/** The same text as `hex64` of n + 2^63, without a bigint. */
function encodeInt32(value: number): string {
  const low = (value >>> 0).toString(16).padStart(8, "0");
  return (value < 0 ? "7fffffff" : "80000000") + low;
}

const doubleBits = new DataView(new ArrayBuffer(8));

function encodeDouble(value: number): string {
  doubleBits.setFloat64(0, value === 0 ? 0 : value);
  const bits = doubleBits.getBigUint64(0);
  return hex64(bits ^ (bits >= TWO_63 ? ALL_BITS : TWO_63));
}

function encodeBinary(bytes: Uint8Array): string {
  let code = "";
  // More than this is cut anyway, but the hash covers all of it.
  for (let at = 0; at < bytes.length; at++) code += HEX[bytes[at]!]!;
  return code;
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** The code that sorts the other way round: of equal width, each digit replaced by its complement. */
function complement(type: EdmType, code: string): string {
  if (type === "Edm.Boolean") return code === "0" ? "1" : "0";
  if (type === "Edm.DateTime") return String(TICKS_MAX - BigInt(code)).padStart(TICKS_DIGITS, "0");
  return hex64(ALL_BITS - BigInt(`0x${code}`));
}

/** The last tick of the year 9999. */
const TICKS_MAX = 3_155_378_975_999_999_999n;

/** FNV-1a with 128 bits, over UTF-16 code units, which are ASCII here. A collision costs a look, never an answer. */
function hash128(text: string): string {
  let hash = 0x6c62272e07bb014262b821756295c58dn;
  for (let at = 0; at < text.length; at++) {
    hash = ((hash ^ BigInt(text.charCodeAt(at))) * 0x1000000000000000000013bn) & MASK_128;
  }
  return hash.toString(16).padStart(HASH_DIGITS, "0");
}

const MASK_128 = (1n << 128n) - 1n;

// --- Ranges ----------------------------------------------------------------------------------

/** The codes from `from` up to `to` (excluded), each with the end of its part behind it. */
export interface CodeRange {
  readonly from: string;
  readonly to: string;
}

/**
 * Where the values are that satisfy a comparison; a few others may be among them. Ordered and disjoint. Undefined for
 * `ne`, which is true nearly everywhere.
 *
 * A present property of a type that the literal cannot be compared with satisfies `lt`, `le` and `ne`: hence whole
 * regions.
 */
export function rangesWhere(
  index: IndexDefinition,
  at: number,
  operator: ComparisonOperator,
  literal: Literal,
): readonly CodeRange[] | undefined {
  if (operator === "ne") return undefined;
  const part = index.parts[at]!;
  const lengthMax = partLengthMax(index, at);
  const ranges: CodeRange[] = [];
  for (const type of REGIONS) {
    const value = convert(literal, type);
    if (value === undefined) {
      if (operator === "lt" || operator === "le") ranges.push(...wholeRegion(part, type));
    } else if (value !== "nothing") {
      const range = rangeInRegion(part, operator, value, lengthMax);
      if (range.from < range.to) ranges.push(range);
    }
  }
  return merge(ranges);
}

/** The codes of the values that equal a literal, one for each type that it can be compared with. */
export function codesEqualTo(
  index: IndexDefinition,
  at: number,
  literal: Literal,
): readonly string[] {
  const codes: string[] = [];
  for (const type of REGIONS) {
    const value = convert(literal, type);
    if (value === undefined || value === "nothing") continue;
    codes.push(cutTo(partLengthMax(index, at), codeOf(index.parts[at]!, value.value)));
  }
  return codes;
}

/** The codes that are in both; each list ordered and disjoint. */
export function intersectRanges(
  a: readonly CodeRange[],
  b: readonly CodeRange[],
): readonly CodeRange[] {
  const both: CodeRange[] = [];
  for (const one of a) {
    for (const other of b) {
      const from = one.from > other.from ? one.from : other.from;
      const to = one.to < other.to ? one.to : other.to;
      if (from < to) both.push({ from, to });
    }
  }
  return both;
}

function partLengthMax({ isLocal }: IndexDefinition, at: number): number {
  return at === 0 && !isLocal ? PARTITION_PART_MAX : ROW_PART_MAX;
}

/** In the order of their markers. */
const REGIONS: readonly EdmType[] = [
  "Edm.Boolean",
  "Edm.Guid",
  "Edm.Int32",
  "Edm.Int64",
  "Edm.Double",
  "Edm.String",
  "Edm.DateTime",
  "Edm.Binary",
];

/** A literal as a value of another type, and whether it is that value exactly. */
interface Converted {
  readonly value: IndexValue;
  readonly exact: boolean;
}

/**
 * A literal in the type of a property, which it is then compared with by value; undefined if the types cannot be
 * compared, "nothing" if no value of the type compares with it.
 */
function convert(literal: Literal, type: EdmType): Converted | "nothing" | undefined {
  if (literal.type === "Edm.Double" && type === "Edm.Double" && Number.isNaN(literal.value)) {
    return "nothing";
  }
  if (literal.type === type) return { value: literal, exact: true };
  if (literal.type === "Edm.Int32") {
    if (type === "Edm.Int64") return { value: { type, value: BigInt(literal.value) }, exact: true };
    if (type === "Edm.Double") return { value: { type, value: literal.value }, exact: true };
  }
  if (literal.type === "Edm.Int64" && type === "Edm.Double") {
    const value = Number(literal.value);
    return { value: { type, value }, exact: BigInt(value) === literal.value };
  }
  return undefined;
}

function rangeInRegion(
  part: IndexPart,
  operator: Exclude<ComparisonOperator, "ne">,
  { value, exact }: Converted,
  lengthMax: number,
): CodeRange {
  const isPlain = value.type === part.type;
  const marker = isPlain ? "" : MARKERS[value.type];
  // NaN is a Double that equals nothing and is neither less nor more.
  const end = value.type === "Edm.Double" ? `${marker}~` : marker + (isPlain ? PLAIN_END : "~1");
  const code = codeOf(part, value);
  const after = code + AFTER_PART;
  if (operator === "eq") {
    const whole = cutTo(lengthMax, code);
    return { from: whole, to: whole + AFTER_PART };
  }
  const isReversed = isPlain && part.descending;
  const isUpwards = (operator === "gt" || operator === "ge") !== isReversed;
  const hasEqual = operator === "ge" || operator === "le" || !exact;
  if (code.length > lengthMax - CUT_LENGTH) {
    // Longer values are cut, and sort by their beginning.
    const beginning = code.slice(0, lengthMax - CUT_LENGTH);
    return isUpwards ? { from: beginning, to: end } : { from: marker, to: beginning + TOP };
  }
  return isUpwards
    ? { from: hasEqual ? code : after, to: end }
    : { from: marker, to: hasEqual ? after : code };
}

function wholeRegion(part: IndexPart, type: EdmType): CodeRange[] {
  const marker = MARKERS[type];
  const marked = { from: marker, to: regionAfter(type) };
  if (type !== part.type) return [marked];
  const plain = { from: "", to: MARKERS["Edm.Boolean"] };
  return type === "Edm.Double" ? [plain, marked] : [plain];
}

/** Nothing is between two regions, so that neighbors become one range. */
function regionAfter(type: EdmType): string {
  const next = REGIONS[REGIONS.indexOf(type) + 1];
  return next === undefined ? MISSING : MARKERS[next];
}

function merge(ranges: readonly CodeRange[]): readonly CodeRange[] {
  const merged: { from: string; to: string }[] = [];
  for (const range of [...ranges].sort((a, b) => (a.from < b.from ? -1 : 1))) {
    const last = merged.at(-1);
    if (last && range.from <= last.to) last.to = last.to > range.to ? last.to : range.to;
    else merged.push({ ...range });
  }
  return merged;
}

// --- Positions -------------------------------------------------------------------------------

/** Entries from `start` up to `end` (excluded). */
export interface EntryRange {
  readonly start: EntryKey;
  readonly end: EntryKey;
}

/** The entries of a partition whose RowKeys begin with these codes. `partitionCode` is the PartitionKey itself. */
export function rowPrefixOf(codes: readonly string[]): string {
  return codes.map((code) => code + END_OF_PART).join("");
}

/**
 * Entries whose RowKey is `rowPrefix` and the keys of an entity, in the order of the entities; from `from` up to
 * `to` (excluded), without `to` up to the last.
 */
export function orderedEntries(
  index: IndexDefinition,
  partitionKey: string,
  rowPrefix: string,
  from: KeyPosition,
  to: KeyPosition | undefined,
): EntryRange {
  const start = rowPrefix + encodePosition(index, from);
  const end = to === undefined ? rowPrefix + CUT : rowPrefix + encodePosition(index, to);
  return { start: { partitionKey, rowKey: start }, end: { partitionKey, rowKey: end } };
}

/** Entries whose entities' keys did not fit: they follow the others, in no order that means anything. */
export function cutEntries(partitionKey: string, rowPrefix: string): EntryRange {
  return {
    start: { partitionKey, rowKey: rowPrefix + CUT },
    end: { partitionKey, rowKey: rowPrefix + TOP },
  };
}

/** Entries whose next part after `rowPrefix` is in the range; without a range, all of the prefix. */
export function entriesBetween(
  partitionKey: string,
  rowPrefix: string,
  { from, to }: CodeRange = { from: "", to: TOP },
): EntryRange {
  return {
    start: { partitionKey, rowKey: rowPrefix + from },
    end: { partitionKey, rowKey: rowPrefix + to },
  };
}

/** Entries of a global index whose first part is in the range. */
export function partitionsBetween({ from, to }: CodeRange): EntryRange {
  return {
    start: { partitionKey: from, rowKey: "" },
    end: { partitionKey: to, rowKey: "" },
  };
}
