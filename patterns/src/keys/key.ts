import { assertSome, definitionRefused } from "../errors.ts";
import { bucketOf, fnv1a128 } from "./hash.ts";
import type { KeyRange } from "./key-range.ts";
import { double, type FixedCodec, int, int32, int64, uint, uintDescending } from "./number.ts";
import { decodeText, encodeText, type TextPlace } from "./text.ts";
import { date, dateDescending, encodeIsoDate, type TimeUnit } from "./time.ts";

/** In UTF-16 code units. Some endpoints allow less for row keys; see `Profile`. */
export const KEY_LENGTH_MAX = 512;

/**
 * `fixed`: all values have the same width, so they sort correctly in any layout. `text`: any width. `hashed`:
 * computed, supports equality only.
 */
export type SegmentForm = "fixed" | "text" | "hashed";

export interface SegmentOptions<Value> {
  readonly descending?: boolean;
  readonly isDecimal?: true;
  /** The field can be read back from the key, so it is not stored again as a property. */
  readonly lossless?: boolean;
  /** Spellings that differ only in case, or in how Unicode composes letters, are one value. */
  readonly folds?: boolean;
  /**
   * The key holds a hash for the rest of the value. Readers compare the whole value, since others may share the
   * hash.
   */
  readonly isShortened?: true;
  /** The text in the key for no value; see `missing`. */
  readonly absent?: string;
  /** What the text of this segment looks like, where `decode` accepts anything. */
  readonly pattern?: RegExp;
  /**
   * The accepted types, where `encode` accepts any value. `encode` itself stays lenient, because definition
   * hashes depend on what it returns.
   */
  readonly takes?: string;
  /** The keys after `prefix` that hold a value. Default: all. */
  among?(prefix: string): KeyRange;
  encode(value: Value, place: TextPlace): string;
  decode(text: string): Value;
}

/** Binds a field to its place in a key. Build one with `k`. */
export class Segment<
  Name extends string = string,
  Value = unknown,
  Form extends SegmentForm = SegmentForm,
  Source extends string = string,
> {
  readonly name: Name;
  readonly form: Form;
  readonly field: Source;
  readonly descending: boolean;
  readonly lossless: boolean;
  readonly options: SegmentOptions<Value>;

  constructor(name: Name, field: Source, form: Form, options: SegmentOptions<Value>) {
    this.name = name;
    this.form = form;
    this.field = field;
    this.descending = options.descending ?? false;
    this.lossless = options.lossless ?? true;
    this.options = options;
  }

  /** For the compiler only: the type of the values. */
  declare readonly type: Value;

  encode(value: Value, place: TextPlace): string {
    return this.options.encode(value, place);
  }

  decode(text: string): Value {
    return this.options.decode(text);
  }
}

/** A fixed text in a key; it binds no field. */
export interface Literal {
  readonly literal: string;
}

export type KeyPart = Literal | Segment;
export type Layout = "readable" | "ordered";

/** Parts with an explicit layout. */
export interface LaidOut<Parts extends readonly KeyPart[] = readonly KeyPart[], L = Layout> {
  readonly parts: Parts;
  readonly layout: L;
}

/**
 * How a key is declared. A plain list uses the readable layout (`_`), or the ordered one (`!`) when it has two
 * or more text segments.
 */
export type KeyDeclaration = readonly KeyPart[] | LaidOut;

type SegmentOf<
  Name extends string,
  Value,
  Form extends SegmentForm = "fixed",
  Source extends string = Name,
> = Segment<Name, Value, Form, Source>;

function fixed<Name extends string, Value>(
  name: Name,
  codec: SegmentOptions<Value>,
): SegmentOf<Name, Value> {
  return new Segment<Name, Value, "fixed", Name>(name, name, "fixed", codec);
}

/** @throws invalid-definition for an invalid number of digits: keys would differ in length. */
function ofWidth(codec: (width: number) => FixedCodec<number>) {
  return <const Name extends string>(name: Name, width: number): SegmentOf<Name, number> => {
    assertSome(name, { width }, definitionRefused, KEY_LENGTH_MAX);
    return fixed(name, codec(width));
  };
}

function text<Name extends string>(
  name: Name,
  normalize: (value: string) => string,
  folds: boolean,
): SegmentOf<Name, string, "text"> {
  return new Segment<Name, string, "text", Name>(name, name, "text", {
    folds,
    lossless: !folds,
    encode: (value, place) => encodeText(normalize(assertText(value)), place),
    decode: decodeText,
  });
}

const asIs = (value: string): string => value;
const withoutCase = (value: string): string => value.toLowerCase().normalize("NFC");

function assertText(value: string): string {
  if (typeof value !== "string") throw new RangeError("text is expected");
  return value;
}

export interface OverflowOptions {
  /** The longest text that the key holds, whole or as a prefix. */
  readonly max: number;
  /** Append a hash of the whole value: any length fits, but the segment supports equality only. */
  readonly overflow: "hash";
}

function str<const Name extends string>(name: Name): SegmentOf<Name, string, "text">;
function str<const Name extends string>(
  name: Name,
  options: OverflowOptions,
): SegmentOf<Name, string, "hashed">;
function str<const Name extends string>(
  name: Name,
  options?: OverflowOptions,
): SegmentOf<Name, string, "text"> | SegmentOf<Name, string, "hashed"> {
  if (options === undefined) return text(name, asIs, false);
  const { max } = options;
  assertSome(name, { max }, definitionRefused, KEY_LENGTH_MAX, 0);
  return new Segment<Name, string, "hashed", Name>(name, name, "hashed", {
    lossless: false,
    isShortened: true,
    encode(value, place) {
      // Refuses unpaired surrogates, which the hash cannot tell apart. Those that the cut creates are dropped.
      encodeText(value, place);
      const begin = value.slice(0, max).replace(/\p{Surrogate}/gu, "");
      return encodeText(begin, place) + "~" + fnv1a128(value);
    },
    decode: asIs,
  });
}

/** Values with one stable text form. */
type Hashable = string | number | bigint | boolean;

function isoDate<const Field extends string>(field: Field, unit: TimeUnit): SegmentOf<Field, Date>;
function isoDate<const Field extends string, const Name extends string>(
  field: Field,
  unit: TimeUnit,
  name: Name,
): SegmentOf<Name, Date, "fixed", Field>;
function isoDate(field: string, unit: TimeUnit, name = field): SegmentOf<string, Date> {
  return new Segment<string, Date, "fixed", string>(name, field, "fixed", {
    lossless: false,
    encode: (value) => encodeIsoDate(value, unit),
    // A period does not determine the date.
    decode: () => new Date(Number.NaN),
  });
}

/**
 * The key segments. Codecs preserve order: `encode(a) < encode(b)` exactly when `a < b` (descending ones
 * reverse it, hashes have none).
 */
export const k = {
  /**
   * A fixed text that tells kinds of rows apart: `k.lit("empid")` before `k.uint("id", 6)` gives
   * `empid_000223`.
   */
  lit: (literal: string): Literal => ({ literal }),

  /**
   * Text, case-sensitive. With `{ max: 200, overflow: "hash" }` text of any length fits: the key holds its
   * first 200 characters and a hash of the whole, and supports equality only.
   */
  str,
  /** Text, compared without case; a property keeps the original spelling. Its bucket is `k.hashCI`. */
  strCI: <const Name extends string>(name: Name) => text(name, withoutCase, true),

  /** Whole numbers from 0, padded with zeros to `width` digits: `000223`. */
  uint: ofWidth(uint),
  /** The same, greatest first: `999776` for 223. */
  uintDesc: ofWidth(uintDescending),
  /** Whole numbers of at most `width` digits, including negative ones. */
  int: ofWidth(int),
  /** 32-bit whole numbers, as 16 hexadecimal digits like those of `k.int64`. */
  int32: <const Name extends string>(name: Name) => fixed(name, { ...int32, takes: "number" }),
  /** 64-bit bigints, as 16 hexadecimal digits. */
  int64: <const Name extends string>(name: Name) => fixed(name, { ...int64, takes: "bigint" }),
  /** Any number but NaN, as 16 hexadecimal digits. */
  double: <const Name extends string>(name: Name) => fixed(name, { ...double, takes: "number" }),

  /** Dates with millisecond precision, oldest first. */
  date: <const Name extends string>(name: Name) => fixed(name, date),
  /** The same, newest first. */
  dateDesc: <const Name extends string>(name: Name) => fixed(name, dateDescending),
  /**
   * The period of a date, such as `20140731` for a day. Give it a name of its own when the date itself is also
   * in the key: `k.isoDate("hiredAt", "month", "hireMonth")`.
   */
  isoDate,

  /** A GUID, in lower case. */
  guid: <const Name extends string>(name: Name) =>
    fixed(name, lowerCase(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i)),
  /** A ULID, in lower case; later ones sort higher. */
  ulid: <const Name extends string>(name: Name) =>
    fixed(name, lowerCase(/^[\da-hjkmnp-tv-z]{26}$/i)),
  /** `0` or `1`. */
  bool: <const Name extends string>(name: Name) =>
    fixed<Name, boolean>(name, {
      pattern: /^[01]$/,
      takes: "boolean",
      encode: (value) => (value ? "1" : "0"),
      decode: (key) => key === "1",
    }),
  /** One of `members`, sorted in the order declared. */
  enumOf: <const Name extends string, const Member extends string>(
    name: Name,
    members: readonly Member[],
  ): SegmentOf<Name, Member> => {
    const { encode, decode } = uint(String(members.length - 1).length);
    return fixed<Name, Member>(name, {
      encode(value) {
        const at = members.indexOf(value);
        if (at < 0) throw new RangeError(`"${value}" is not one of ${members}`);
        return encode(at);
      },
      decode: (key) => members[decode(key)]!,
    });
  },

  /** One of `buckets` buckets, computed from the field. It spreads the load and supports point queries only. */
  hash: <const Name extends string>(name: Name, buckets: number) =>
    new Segment<Name, Hashable, "hashed", Name>(name, name, "hashed", {
      lossless: false,
      // No dates: their text names the time zone.
      takes: "string, number, bigint or boolean",
      encode: intoBucket(name, buckets, String),
      decode: asIs,
    }),
  /** The same bucket for every spelling, for use with `k.strCI`, `k.guid` and `k.ulid` of the same field. */
  hashCI: <const Name extends string>(name: Name, buckets: number) =>
    new Segment<Name, string, "hashed", Name>(name, name, "hashed", {
      folds: true,
      lossless: false,
      encode: intoBucket(name, buckets, (value: string) => withoutCase(assertText(value))),
      decode: asIs,
    }),

  /** Joins the segments with `!`: keys sort as tuples, whatever text they hold. */
  ordered: <const Parts extends readonly KeyPart[]>(
    ...parts: Parts
  ): LaidOut<Parts, "ordered"> => ({
    parts,
    layout: "ordered",
  }),
  /**
   * Joins the segments with `_`, the common style. Text that another segment follows supports `startsWith`
   * only.
   */
  readable: <const Parts extends readonly KeyPart[]>(
    ...parts: Parts
  ): LaidOut<Parts, "readable"> => ({ parts, layout: "readable" }),
};

/** @throws invalid-definition when there are no buckets. */
function intoBucket<Value>(name: string, buckets: number, textOf: (value: Value) => string) {
  assertSome(name, { buckets }, definitionRefused);
  return (value: Value) => bucketOf(textOf(value), buckets);
}

function lowerCase(pattern: RegExp): SegmentOptions<string> {
  return {
    folds: true,
    pattern,
    encode(value) {
      const key = value.toLowerCase();
      if (!pattern.test(key)) throw new RangeError(`"${value}" is malformed`);
      return key;
    },
    decode: asIs,
  };
}
