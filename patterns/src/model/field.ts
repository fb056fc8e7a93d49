import type { Issue } from "../errors.ts";
import { base64Of, bytesOf, type EdmType, type EdmValue } from "../ports/edm.ts";
import type { StandardSchema } from "./standard-schema.ts";

interface FieldOptions<Value> {
  readonly edm: EdmType;
  /** The stored form. @throws RangeError for a value of another type or beyond the limits. */
  encode(value: Value): EdmValue["value"];
  decode(value: EdmValue["value"]): Value;
  readonly schema?: StandardSchema<Value> | undefined;
  readonly property?: string;
}

/** A field of an entity: its type in storage and in code. Build one with `f`. */
export class Field<Value = unknown, Optional extends boolean = boolean> {
  readonly isOptional: Optional;
  readonly edm: EdmType;
  /** The name in storage, where it differs from the field's. */
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
  get type(): Value {
    throw new TypeError("A field's type exists for the compiler only.");
  }

  /** The field may be absent. `null` and `undefined` both mean absent. */
  optional(): Field<Value, true> {
    return new Field(true, this.#options);
  }

  /** Stored under another property name, for tables that exist already. */
  as(property: string): Field<Value, Optional> {
    return new Field(this.isOptional, { ...this.#options, property });
  }

  encode(value: Value): EdmValue {
    return { type: this.edm, value: this.#options.encode(value) };
  }

  /** By the schema and not by the stored type: a whole Double comes back looking like an Int32. */
  decode(stored: EdmValue): Value {
    return this.#options.decode(stored.value);
  }

  /** What the refinement says of a value; nothing when it passes. */
  async issues(path: string, value: unknown): Promise<Issue[]> {
    const result = await this.schema?.["~standard"].validate(value);
    return (result?.issues ?? []).map(({ message }) => ({ path, message }));
  }
}

const STRING_LENGTH_MAX = 32_768;
const BINARY_BYTES_MAX = 65_536;
const INT64_LIMIT = 2n ** 63n;
const FIRST_DATE_MS = Date.UTC(1601, 0, 1);
const LAST_DATE_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

// Overloads: a field without a schema is not generic, which the compiler has to instantiate each time.
function string(): Field<string, false>;
function string<Value extends string>(schema: StandardSchema<Value>): Field<Value, false>;
function string(schema?: StandardSchema<string>): Field<string, false> {
  return new Field<string, false>(false, {
    edm: "String",
    schema,
    encode: storableText,
    decode: String,
  });
}

/** The field types. Storage types are explicit: each field has one property type for good. */
export const f = {
  string,
  oneOf: <const Value extends string>(...members: readonly Value[]) =>
    new Field<Value, false>(false, {
      edm: "String",
      encode: (value) => {
        check(members.includes(value), `one of ${members.join(", ")} is expected`);
        return value;
      },
      decode: (value) => {
        const member = members.find((name) => name === value);
        check(member !== undefined, `"${value}" is none of ${members.join(", ")}`);
        return member;
      },
    }),
  int32: (schema?: StandardSchema<number>) =>
    new Field<number, false>(false, {
      edm: "Int32",
      schema,
      encode: (value) => {
        check(
          Number.isInteger(value) && (value | 0) === value,
          "a whole number of 32 bits is expected",
        );
        return value;
      },
      decode: toNumber,
    }),
  int64: (schema?: StandardSchema<bigint>) =>
    new Field<bigint, false>(false, {
      edm: "Int64",
      schema,
      encode: (value) => {
        const fits = typeof value === "bigint" && value >= -INT64_LIMIT && value < INT64_LIMIT;
        check(fits, "a bigint of 64 bits is expected");
        return String(value);
      },
      decode: (value) => BigInt(value),
    }),
  double: (schema?: StandardSchema<number>) =>
    new Field<number, false>(false, {
      edm: "Double",
      schema,
      encode: (value) => {
        check(typeof value === "number", "a number is expected");
        return Number.isFinite(value) ? value : String(value);
      },
      decode: toNumber,
    }),
  bool: () =>
    new Field<boolean, false>(false, {
      edm: "Boolean",
      encode: (value) => {
        check(typeof value === "boolean", "true or false is expected");
        return value;
      },
      decode: (value) => value === true || value === "true",
    }),
  date: (schema?: StandardSchema<Date>) =>
    new Field<Date, false>(false, {
      edm: "DateTime",
      schema,
      encode: (value) => {
        const ms = value instanceof Date ? value.getTime() : Number.NaN;
        check(
          ms >= FIRST_DATE_MS && ms <= LAST_DATE_MS,
          "a Date of the years 1601 to 9999 is expected",
        );
        return value.toISOString();
      },
      decode: (value) => new Date(String(value)),
    }),
  guid: () =>
    new Field<string, false>(false, {
      edm: "Guid",
      encode: (value) => {
        check(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(value), "a GUID is expected");
        return value.toLowerCase();
      },
      decode: String,
    }),
  bytes: () =>
    new Field<Uint8Array, false>(false, {
      edm: "Binary",
      encode: (value) => {
        const fits = value instanceof Uint8Array && value.length <= BINARY_BYTES_MAX;
        check(fits, "a Uint8Array of at most 64 KiB is expected");
        return base64Of(value);
      },
      decode: (value) => bytesOf(String(value)),
    }),
  /** Any JSON value, kept as text: the service and its clients never mistake it for a typed value. */
  json: <Value>(schema?: StandardSchema<Value>) =>
    new Field<Value, false>(false, {
      edm: "String",
      schema,
      encode: (value) => storableText(JSON.stringify(value)),
      decode: (value) => JSON.parse(String(value)),
    }),
};

function storableText(value: string): string {
  check(
    typeof value === "string" && value.length <= STRING_LENGTH_MAX,
    "text of at most 32,768 characters is expected",
  );
  return value;
}

function toNumber(value: EdmValue["value"]): number {
  const number = Number(value);
  check(!Number.isNaN(number) || value === "NaN", `"${value}" is not a number`);
  return number;
}

function check(condition: boolean, message: string): asserts condition {
  if (!condition) throw new RangeError(message);
}
