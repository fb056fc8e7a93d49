import { parseDateTime, printDateTime } from "./date-time.ts";
import type { ComparisonOperator, Literal } from "./filter-tree.ts";

/** Parses a number: digits with an optional fraction, exponent and type suffix. */
export function parseNumberLiteral(text: string): Literal | undefined {
  const suffix = text.at(-1)!;
  if (suffix === "L" || suffix === "l") return int64(text.slice(0, -1));
  if (suffix === "D" || suffix === "d") return double(text.slice(0, -1));
  if (!INTEGER.test(text)) return double(text);
  const value = Number(text) + 0; // Turns -0 into 0: integers have no -0.
  if (value >= -(2 ** 31) && value < 2 ** 31) return { type: "Edm.Int32", value };
  return int64(text);
}

/** Parses the text between the quotes of `prefix'…'`; undefined if it is not such a value. */
export function parseTypedLiteral(prefix: string, text: string): Literal | undefined {
  switch (prefix.toLowerCase()) {
    case "datetime": {
      const value = parseDateTime(text);
      return value === undefined ? undefined : { type: "Edm.DateTime", value };
    }
    case "guid":
      return GUID.test(text) ? { type: "Edm.Guid", value: text.toLowerCase() } : undefined;
    case "x":
    case "binary":
      return HEX.test(text) ? { type: "Edm.Binary", value: bytesFromHex(text) } : undefined;
    default:
      return undefined;
  }
}

/** Prints a literal so that it parses to the same value of the same type. */
export function printLiteral(literal: Literal): string {
  switch (literal.type) {
    case "Edm.String":
      return `'${literal.value.replaceAll("'", "''")}'`;
    case "Edm.Int32":
    case "Edm.Boolean":
      return String(literal.value);
    case "Edm.Int64":
      return `${literal.value}L`;
    case "Edm.Double":
      return printDoubleLiteral(literal.value);
    case "Edm.DateTime":
      return `datetime'${printDateTime(literal.value)}'`;
    case "Edm.Guid":
      return `guid'${literal.value}'`;
    case "Edm.Binary":
      return `X'${Array.from(literal.value, (byte) => byte.toString(16).padStart(2, "0")).join("")}'`;
  }
}

/**
 * Whether `left operator right` holds; undefined if their types cannot be compared. Numbers of
 * different types can, and compare exactly.
 */
export function compareLiterals(
  left: Literal,
  operator: ComparisonOperator,
  right: Literal,
): boolean | undefined {
  if (left.type !== right.type && !(isNumeric(left) && isNumeric(right))) return undefined;
  const a = ordered(left);
  const b = ordered(right);
  switch (operator) {
    case "eq":
      return a <= b && a >= b;
    case "ne":
      return !(a <= b && a >= b);
    case "lt":
      return a < b;
    case "le":
      return a <= b;
    case "gt":
      return a > b;
    case "ge":
      return a >= b;
  }
}

function isNumeric(literal: Literal): boolean {
  return (
    literal.type === "Edm.Int32" || literal.type === "Edm.Int64" || literal.type === "Edm.Double"
  );
}

const INTEGER = /^-?[0-9]+$/;
const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const HEX = /^(?:[0-9a-f]{2})*$/i;

function int64(digits: string): Literal | undefined {
  // Twenty characters are enough for any Int64; longer digit strings would only cost time.
  if (!INTEGER.test(digits) || digits.length > 40) return undefined;
  const value = BigInt(digits);
  return BigInt.asIntN(64, value) === value ? { type: "Edm.Int64", value } : undefined;
}

function double(digits: string): Literal | undefined {
  const value = Number(digits);
  return Number.isFinite(value) ? { type: "Edm.Double", value } : undefined;
}

function printDoubleLiteral(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "INF" : "-INF";
  const text = Object.is(value, -0) ? "-0" : String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

function bytesFromHex(hex: string): Uint8Array {
  const bytes = new Uint8Array(hex.length / 2);
  for (let i = 0; i < bytes.length; i++)
    bytes[i] = Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

/** A value that `<` orders as the type requires; hexadecimal text orders as its bytes do. */
function ordered(literal: Literal): string | number | bigint {
  if (literal.type === "Edm.Binary") return printLiteral(literal);
  return typeof literal.value === "boolean" ? Number(literal.value) : literal.value;
}
