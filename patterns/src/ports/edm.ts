import { hex } from "../keys/number.ts";

/** The property types of the Table service. */
export type EdmType =
  | "Binary"
  | "Boolean"
  | "DateTime"
  | "Double"
  | "Guid"
  | "Int32"
  | "Int64"
  | "String";

/**
 * A property with an explicit type, because an untyped number changes its type from row to row. The value is in
 * its JSON form: base64 for Binary, ISO text for DateTime, digits for Int64, and for Double also "NaN",
 * "Infinity" and "-Infinity".
 */
export interface EdmValue {
  readonly type: EdmType;
  readonly value: string | number | boolean;
}

/** The properties of an entity, without its keys, ETag and Timestamp. */
export type Properties = Readonly<Record<string, EdmValue>>;

/** The longest String property, in UTF-16 code units. */
export const STRING_LENGTH_MAX = 32_768;

export function text(value: string): EdmValue {
  return { type: "String", value };
}

/**
 * Whether a stored value, of whatever type, equals the one to write. Dates are milliseconds here, but ticks
 * without trailing zeros in the service. An unchanged date is not sent, so the ticks of other software are not
 * cut off.
 */
export function isSameValue(stored: EdmValue, { type, value }: EdmValue): boolean {
  if (stored.value === value) return true;
  return type === "DateTime" && Date.parse(String(stored.value)) === Date.parse(String(value));
}

/** A property's value as the closest JavaScript one, for rows whose schema is unknown. */
export function naturalValue({ type, value }: EdmValue): unknown {
  if (type === "Int64") return BigInt(value);
  if (type === "DateTime") return new Date(String(value));
  if (type === "Binary") return bytesOf(String(value));
  return type === "Double" || type === "Int32" ? Number(value) : value;
}

export function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => hex(byte, 2)).join("");
}

export function base64Of(bytes: Uint8Array): string {
  // In slices: a call accepts only as many arguments as the stack holds.
  let binary = "";
  for (let i = 0; i < bytes.length; i += 8192) {
    binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  }
  return btoa(binary);
}

export function concatenated(chunks: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}
