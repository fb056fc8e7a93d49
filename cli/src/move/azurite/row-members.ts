/** Members of a row that the emulator wrote, each checked: a file may be of another version, or damaged. */
export type Row = Readonly<Record<string, unknown>>;

/** @throws Error if it is no JSON */
export function parseRow(bytes: Buffer): Row {
  return JSON.parse(bytes.toString("utf8"));
}

/** @throws Error if it is no text */
export function textOf(row: Row, name: string): string {
  const value = row[name];
  if (typeof value === "string") return value;
  throw new Error(`${name} is ${describe(value)}, where text is expected`);
}

/** @throws Error if it is no number */
export function numberOf(row: Row, name: string): number {
  const value = row[name];
  if (typeof value === "number") return value;
  throw new Error(`${name} is ${describe(value)}, where a number is expected`);
}

/** @throws Error if it is no object */
export function rowOf(row: Row, name: string): Row {
  const value = row[name];
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  throw new Error(`${name} is ${describe(value)}, where an object is expected`);
}

/** Names and values of metadata; none where there is none. @throws Error for values that are no text */
export function metadataOf(row: Row): (readonly [string, string])[] {
  const { metadata } = row;
  if (metadata === undefined || metadata === null) return [];
  const found = rowOf(row, "metadata");
  return Object.keys(found).map((name) => [name, textOf(found, name)] as const);
}

/** Milliseconds since 1970. @throws Error if it is no date */
export function timeOf(row: Row, name: string): number {
  const time = Date.parse(textOf(row, name));
  if (Number.isNaN(time))
    throw new Error(`${name} is ${describe(row[name])}, where a date is expected`);
  return time;
}

function describe(value: unknown): string {
  return value === undefined ? "missing" : (JSON.stringify(value)?.slice(0, 60) ?? typeof value);
}
