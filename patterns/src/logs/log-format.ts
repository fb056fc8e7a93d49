import type { Json } from "../store/json-row.ts";

/** A log entry: something that happened at a time. */
export interface Timed {
  readonly at: Date;
}

/** Converts a record to a line of text, without line breaks and beginning with its time, and back. */
export interface LogFormat<Entry extends Timed> {
  encode(entry: Entry): string;
  /** Undefined for a line that is not a record. */
  decode(line: string): Entry | undefined;
}

/** The declaration of a log. */
export interface LogDeclaration<Entry extends Timed> {
  /** Created if it is missing. */
  readonly container: string;
  /** The service that writes the log: the first part of its files' names. */
  readonly service: string;
  /** `jsonLines()` or `delimited("level", "message")`. */
  readonly format: LogFormat<Entry>;
}

/** One JSON object per line, with any fields. */
export function jsonLines<Entry extends Timed = Timed & { readonly [field: string]: Json | Date }>(
  // The type is the caller's promise about what the files hold.
): LogFormat<Entry> {
  return {
    encode: ({ at, ...fields }) => JSON.stringify({ at: at.toISOString(), ...fields }),
    decode: (line) => {
      try {
        const { at, ...fields } = JSON.parse(line);
        return timed(at, fields);
      } catch {
        return undefined;
      }
    },
  };
}

/** One record per line: the time and these fields, all text, separated by `;`, as JSON strings where needed. */
export function delimited<const Name extends string>(
  ...names: readonly Name[]
): LogFormat<Timed & { readonly [Field in Name]: string }> {
  return {
    encode: (entry) =>
      [entry.at.toISOString(), ...names.map((name) => quoted(entry[name]))].join(";"),
    decode: (line) => {
      const parts = line.match(/(?<=^|;)(?:"(?:[^"\\]|\\.)*"|[^;"]*)(?=;|$)/g) ?? [];
      if (parts.length !== names.length + 1) return undefined;
      const [at, ...values] = parts;
      return timed(at, Object.fromEntries(names.map((name, i) => [name, unquoted(values[i]!)])));
    },
  };
}

function timed<Entry extends Timed>(at: unknown, fields: object): Entry | undefined {
  const time = new Date(typeof at === "string" ? at : Number.NaN);
  // The fields are those that were encoded: a line of another shape is not from a file of this format.
  return Number.isNaN(time.getTime()) ? undefined : ({ at: time, ...fields } as Entry);
}

function quoted(value: string): string {
  return /[;"\\\p{Cc}]/u.test(value) ? JSON.stringify(value) : value;
}

function unquoted(part: string): string {
  return part.startsWith('"') ? JSON.parse(part) : part;
}
