import type { ComparisonOperator, Literal } from "./filter-tree.ts";

/** Reads a number as written: digits with an optional fraction, exponent and type suffix. */
export function parseNumberLiteral(text: string): Literal | undefined {
  const suffix = text.at(-1)!;
  if (suffix === "L" || suffix === "l") return int64(text.slice(0, -1));
  if (suffix === "D" || suffix === "d") return double(text.slice(0, -1));
  if (!INTEGER.test(text)) return double(text);
  const value = Number(text) + 0; // Makes -0 the 0 that an integer is.
  if (value >= -(2 ** 31) && value < 2 ** 31) return { type: "Edm.Int32", value };
  return int64(text);
}

/** Reads what stands between the quotes of `prefix'…'`; undefined when it is not such a value. */
export function parseTypedLiteral(prefix: string, text: string): Literal | undefined {
  switch (prefix.toLowerCase()) {
    case "datetime": {
      const value = parseTicks(text);
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

/** Writes a literal so that it reads back as the same value of the same type. */
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
      return printDouble(literal.value);
    case "Edm.DateTime":
      return `datetime'${printTicks(literal.value)}'`;
    case "Edm.Guid":
      return `guid'${literal.value}'`;
    case "Edm.Binary":
      return `X'${Array.from(literal.value, (byte) => byte.toString(16).padStart(2, "0")).join("")}'`;
  }
}

/**
 * Whether `left operator right` holds; undefined when their types cannot be compared. Numbers of
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

export function isNumeric(literal: Literal): boolean {
  return (
    literal.type === "Edm.Int32" || literal.type === "Edm.Int64" || literal.type === "Edm.Double"
  );
}

const INTEGER = /^-?[0-9]+$/;
const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const HEX = /^(?:[0-9a-f]{2})*$/i;
const DATE_TIME =
  /^(\d{4})-(\d\d)-(\d\d)(?:T([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d+))?)?(?:Z|([+-])(0\d|1[0-4]):([0-5]\d))?)?$/;

const TICKS_PER_MS = 10_000n;
const TICKS_1970 = 621_355_968_000_000_000n;
const TICKS_MAX = 3_155_378_975_999_999_999n; // 9999-12-31T23:59:59.9999999.

function int64(digits: string): Literal | undefined {
  // Twenty characters hold every Int64; more would only cost time.
  if (!INTEGER.test(digits) || digits.length > 40) return undefined;
  const value = BigInt(digits);
  return BigInt.asIntN(64, value) === value ? { type: "Edm.Int64", value } : undefined;
}

function double(digits: string): Literal | undefined {
  const value = Number(digits);
  return Number.isFinite(value) ? { type: "Edm.Double", value } : undefined;
}

function printDouble(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "INF" : "-INF";
  const text = Object.is(value, -0) ? "-0" : String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

/** Digits beyond 100 ns are cut off; a value without a zone is UTC. */
function parseTicks(text: string): bigint | undefined {
  const match = DATE_TIME.exec(text);
  if (match === null) return undefined;
  const [, year, month, day, hour = "00", minute = "00", second = "00", fraction = ""] = match;
  const ms = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  // The date parser turns February 30 into March.
  if (Number.isNaN(ms) || new Date(ms).getUTCDate() !== Number(day)) return undefined;
  const offsetMinutes = Number(match[9] ?? 0) * 60 + Number(match[10] ?? 0);
  const utc = match[8] === "-" ? ms + offsetMinutes * 60_000 : ms - offsetMinutes * 60_000;
  const ticks =
    BigInt(utc) * TICKS_PER_MS + TICKS_1970 + BigInt(fraction.slice(0, 7).padEnd(7, "0"));
  return ticks >= 0n && ticks <= TICKS_MAX ? ticks : undefined;
}

function printTicks(ticks: bigint): string {
  const fraction = ticks % 10_000_000n;
  const seconds = new Date(Number((ticks - fraction - TICKS_1970) / TICKS_PER_MS)).toISOString();
  if (fraction === 0n) return `${seconds.slice(0, 19)}Z`;
  return `${seconds.slice(0, 19)}.${String(fraction).padStart(7, "0").replace(/0+$/, "")}Z`;
}

function bytesFromHex(hex: string): Uint8Array {
  const bytes = new Uint8Array(hex.length / 2);
  for (let i = 0; i < bytes.length; i++)
    bytes[i] = Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

/** What `<` orders as the type demands; hex text orders as its bytes do. */
function ordered(literal: Literal): string | number | bigint {
  if (literal.type === "Edm.Binary") return printLiteral(literal);
  return typeof literal.value === "boolean" ? Number(literal.value) : literal.value;
}
