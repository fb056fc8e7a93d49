import type { Issue } from "../errors.ts";
import { base64Of, bytesOf, type EdmType, type EdmValue, STRING_LENGTH_MAX } from "../ports/edm.ts";
import type { StandardSchema } from "./standard-schema.ts";

interface FieldOptions<Value> {
  readonly edm: EdmType;
  /** A description of its values, such as "a GUID". */
  readonly expected: string;
  /** The stored form; undefined for a value of the wrong kind. */
  encode(value: Value): EdmValue["value"] | undefined;
  decode(value: EdmValue["value"]): Value;
  readonly schema?: StandardSchema<Value> | undefined;
  readonly property?: string;
}

/** A field of an entity: its type in storage and in code. Build one with `f`. */
export class Field<Value = unknown, Optional extends boolean = boolean> {
  readonly isOptional: Optional;
  readonly edm: EdmType;
  /** The property name in storage, if it differs from the field's name. */
  readonly property: string | undefined;
  readonly schema: StandardSchema<Value> | undefined;
  readonly #options: FieldOptions<Value>;

  constructor(isOptional: Optional, options: FieldOptions<Value>) {
    this.isOptional = isOptional;
    this.edm = options.edm;
    this.property = options.property;
    this.schema = options.schema;
    this.#options = options;
  }

  /** For the compiler only: the type of the values. */
  declare readonly type: Value;

  /** The field may be absent. `null` and `undefined` both mean absent. */
  optional(): Field<Value, true> {
    return new Field(true, this.#options);
  }

  /** Stores the field under another property name, for tables that already exist. */
  as(property: string): Field<Value, Optional> {
    return new Field(this.isOptional, { ...this.#options, property });
  }

  /** The stored form. @throws RangeError for a value of the wrong type or outside the limits. */
  encode(value: Value): EdmValue {
    const stored = this.#options.encode(value);
    if (stored === undefined) throw new RangeError(`${this.#options.expected} is expected`);
    return { type: this.edm, value: stored };
  }

  /** Decodes by the schema, not by the stored type: a whole Double reads back like an Int32. */
  decode(stored: EdmValue): Value {
    return this.#options.decode(stored.value);
  }

  /** The issues that the schema finds in a value; empty when it passes. */
  async issues(path: string, value: unknown): Promise<Issue[]> {
    const result = await this.schema?.["~standard"].validate(value);
    return (result?.issues ?? []).map(({ message }) => ({ path, message }));
  }
}

const BINARY_BYTES_MAX = 65_536;
const INT64_LIMIT = 2n ** 63n;
const FIRST_DATE_MS = Date.UTC(1601, 0, 1);
const LAST_DATE_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const TEXT = `text of at most ${STRING_LENGTH_MAX} characters`;

// Overloads: the compiler need not instantiate a generic for every field without a schema.
function string(): Field<string, false>;
function string<Value extends string>(schema: StandardSchema<Value>): Field<Value, false>;
function string(schema?: StandardSchema<string>): Field<string, false> {
  return required<string>({
    edm: "String",
    expected: TEXT,
    schema,
    encode: storableText,
    decode: String,
  });
}

/** The field types. Storage types are explicit: a field always has the same property type. */
export const f = {
  /** Edm.String: at most 32,768 characters. */
  string,
  /** Edm.String: one of these texts; in code the union of them. */
  oneOf: <const Value extends string>(...members: readonly Value[]) =>
    required<Value>({
      edm: "String",
      expected: `one of ${members.join(", ")}`,
      encode: (value) => members.find((name) => name === value),
      decode: (value) => {
        const member = members.find((name) => name === value);
        if (member === undefined)
          throw new RangeError(`"${value}" is not one of ${members.join()}`);
        return member;
      },
    }),
  /** Edm.Int32: a 32-bit whole number. */
  int32: (schema?: StandardSchema<number>) =>
    required({
      edm: "Int32",
      expected: "a whole number of 32 bits",
      schema,
      encode: (value) => ((value | 0) === value ? value : undefined),
      decode: toNumber,
    }),
  /** Edm.Int64: a 64-bit bigint. */
  int64: (schema?: StandardSchema<bigint>) =>
    required({
      edm: "Int64",
      expected: "a bigint of 64 bits",
      schema,
      encode: (value) =>
        typeof value === "bigint" && value >= -INT64_LIMIT && value < INT64_LIMIT
          ? String(value)
          : undefined,
      decode: BigInt,
    }),
  /** Edm.Double: any number, whole or not. */
  double: (schema?: StandardSchema<number>) =>
    required({
      edm: "Double",
      expected: "a number",
      schema,
      encode: (value) => {
        if (typeof value !== "number") return undefined;
        return Number.isFinite(value) ? value : String(value);
      },
      decode: toNumber,
    }),
  /** Edm.Boolean. */
  bool: () =>
    required<boolean>({
      edm: "Boolean",
      expected: "true or false",
      encode: (value) => (typeof value === "boolean" ? value : undefined),
      decode: (value) => value === true || value === "true",
    }),
  /** Edm.DateTime: a Date, with millisecond precision. */
  date: (schema?: StandardSchema<Date>) =>
    required({
      edm: "DateTime",
      expected: "a Date of the years 1601 to 9999",
      schema,
      encode: (value) =>
        value instanceof Date && +value >= FIRST_DATE_MS && +value <= LAST_DATE_MS
          ? value.toISOString()
          : undefined,
      decode: (value) => new Date(String(value)),
    }),
  /** Edm.Guid: text, in lower case. */
  guid: () =>
    required<string>({
      edm: "Guid",
      expected: "a GUID",
      encode: (value) =>
        /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(value) ? value.toLowerCase() : undefined,
      decode: String,
    }),
  /** Edm.Binary: at most 64 KiB. */
  // The return type is explicit: inferred, it would name a generic type that TypeScript before 5.7 does not
  // know.
  bytes: (): Field<Uint8Array, false> =>
    required<Uint8Array>({
      edm: "Binary",
      expected: "a Uint8Array of at most 64 KiB",
      encode: (value) =>
        value instanceof Uint8Array && value.length <= BINARY_BYTES_MAX
          ? base64Of(value)
          : undefined,
      decode: (value) => bytesOf(String(value)),
    }),
  /** Any JSON value, stored as text, so that the service and its clients never mistake it for a typed value. */
  json: <Value>(schema?: StandardSchema<Value>) =>
    required<Value>({
      edm: "String",
      expected: `JSON, ${TEXT}`,
      schema,
      encode: (value) => storableText(JSON.stringify(value)),
      decode: (value) => JSON.parse(String(value)),
    }),
};

function required<Value>(options: FieldOptions<Value>): Field<Value, false> {
  return new Field<Value, false>(false, options);
}

function storableText(value: unknown): string | undefined {
  return typeof value === "string" && value.length <= STRING_LENGTH_MAX ? value : undefined;
}

function toNumber(value: EdmValue["value"]): number {
  const number = Number(value);
  if (Number.isNaN(number) && value !== "NaN") throw new RangeError(`"${value}" is not a number`);
  return number;
}
