import { printDouble } from "@rowhouse/protocol/double-text";
import type { EdmType } from "@rowhouse/protocol/edm";
import {
  VALUE_SLACK,
  type WriteValue,
  writeBinary,
  writeDateTime,
  writeGuid,
  writeInt32,
  writeInt64,
} from "@rowhouse/protocol/edm-value";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { Cell } from "../entities.ts";

/** What a text is as a value: the text that is stored, or what is wrong with it. */
export type ReadValue = { readonly text: string } | { readonly problem: string };

/** Reads what was typed for a value of a type. Text that a value was printed as is read as that value. */
export function readValue(type: EdmType, typed: string): ReadValue {
  return READERS[type](type === "Edm.String" ? typed : typed.trim());
}

const READERS: Readonly<Record<EdmType, (typed: string) => ReadValue>> = {
  "Edm.String"(typed) {
    if (typed.length > LIMITS.stringLengthMax)
      return problem(
        `A string has at most ${LIMITS.stringLengthMax} characters; this has ${typed.length}.`,
      );
    return /\p{Cs}/u.test(typed)
      ? problem("The text has half a character (a lone surrogate).")
      : { text: typed };
  },
  "Edm.Int32": (typed) =>
    written(writeInt32, typed, "A whole number from -2147483648 to 2147483647."),
  "Edm.Int64": (typed) =>
    written(
      writeInt64,
      typed,
      "A whole number from -9223372036854775808 to 9223372036854775807, to the last digit.",
    ),
  "Edm.Double"(typed) {
    if (/^(NaN|-?Infinity)$/.test(typed)) return { text: typed };
    const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(typed) ? Number(typed) : Number.NaN;
    return Number.isFinite(value)
      ? { text: printDouble(value) }
      : problem("A number such as 1.5 or 2E-3, up to 1.79E+308, or NaN, Infinity, -Infinity.");
  },
  "Edm.Boolean": (typed) =>
    typed === "true" || typed === "false" ? { text: typed } : problem("true or false."),
  "Edm.DateTime": (typed) =>
    written(
      writeDateTime,
      typed,
      "A time from the year 1601 on, such as 2026-11-28T12:00:00.1234567Z; without Z or an offset it is UTC.",
    ),
  "Edm.Guid": (typed) =>
    written(
      writeGuid,
      typed,
      "32 hexadecimal digits, such as 0f8fad5b-d9cb-469f-a165-70867728950e.",
    ),
  "Edm.Binary"(typed) {
    const read = written(
      writeBinary,
      typed.replace(/\s/g, ""),
      "Base64, four characters for three bytes, with = at the end where they are fewer.",
    );
    if ("problem" in read) return read;
    const bytes = bytesOf(read.text).length;
    return bytes > LIMITS.binaryBytesMax
      ? problem(`A binary has at most ${LIMITS.binaryBytesMax} bytes; this has ${bytes}.`)
      : read;
  },
};

function written(write: WriteValue, typed: string, wanted: string): ReadValue {
  const bytes = new TextEncoder().encode(typed);
  const out = new Uint8Array(bytes.length + VALUE_SLACK);
  const end = write(out, 0, bytes, 0, bytes.length);
  return end < 0 ? problem(wanted) : { text: new TextDecoder().decode(out.subarray(0, end)) };
}

function problem(text: string): ReadValue {
  return { problem: text };
}

/** The same value as another type, and whether the way back gives the same again. */
export type Converted = { readonly cell: Cell; readonly isLossless: boolean };

/** @returns undefined where nothing of the value can be kept */
export function convert({ type, text }: Cell, to: EdmType): Converted | undefined {
  const made = readValue(to, bridge(type, text, to));
  if ("problem" in made) return undefined;
  const back = readValue(type, bridge(to, made.text, type));
  return {
    cell: { type: to, text: made.text },
    isLossless: "text" in back && back.text === text,
  };
}

const INTEGERS = new Set<EdmType>(["Edm.Int32", "Edm.Int64"]);

/** What to read a value of one type from, as another. */
function bridge(from: EdmType, text: string, to: EdmType): string {
  if (from === "Edm.Double" && INTEGERS.has(to))
    return Number.isFinite(Number(text)) ? BigInt(Math.trunc(Number(text))).toString() : text;
  if (from === "Edm.Boolean" && (INTEGERS.has(to) || to === "Edm.Double"))
    return text === "true" ? "1" : "0";
  if (to === "Edm.Boolean" && /^[01](\.0)?$/.test(text)) return text[0] === "1" ? "true" : "false";
  return text;
}

/** What a property begins with when it is added with a type. */
export const FIRST_TEXT: Readonly<Record<EdmType, string>> = {
  "Edm.String": "",
  "Edm.Int32": "0",
  "Edm.Int64": "0",
  "Edm.Double": "0.0",
  "Edm.Boolean": "false",
  "Edm.DateTime": "",
  "Edm.Guid": "",
  "Edm.Binary": "",
};

export function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
}

export function base64Of(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** Pairs of digits, sixteen to a line. */
export function hexOf(base64: string): string {
  const pairs = Array.from(bytesOf(base64), (byte) => byte.toString(16).padStart(2, "0"));
  return pairs.map((pair, i) => (i === 0 ? "" : i % 16 === 0 ? "\n" : " ") + pair).join("");
}

/** @returns undefined for what is not pairs of hexadecimal digits */
export function base64OfHex(hex: string): string | undefined {
  const digits = hex.replace(/\s/g, "");
  if (!/^([\da-f]{2})*$/i.test(digits)) return undefined;
  return base64Of(Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)));
}
