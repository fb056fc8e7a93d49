import type { EdmType } from "@rowhouse/protocol/edm";
import {
  type EntityFormat,
  KEY_NAMES,
  type KeyColumns,
  type KeyName,
  readRecords,
} from "@rowhouse/protocol/entity-files";
import { readValue } from "../editing/edm-text.ts";
import { parseEntities, type Row } from "../entities.ts";

/** How many records of a file are looked at before it is read as a whole. */
export const PREVIEWED_MAX = 1000;

export interface PreviewColumn {
  readonly name: string;
  /** Types that its values have. */
  readonly types: readonly EdmType[];
  /** How many of the records have it. */
  readonly count: number;
  readonly example: string;
}

export interface Preview {
  readonly columns: readonly PreviewColumn[];
  /** With the keys that they have, or get. */
  readonly first: readonly Row[];
  readonly records: number;
  /** Keys that the file does not have: others of its columns become them. */
  readonly lacks: readonly KeyName[];
  /** Those that cannot be read, or cannot have the keys that were chosen. */
  readonly faults: readonly string[];
  /** Of CSV without types, whose columns are read as what their values look like. */
  readonly guesses: ReadonlyMap<string, EdmType> | undefined;
}

/**
 * Looks at the first records of a file.
 * @param keys what becomes the keys that it lacks, once that was chosen
 * @throws Error for a file that is none of its format
 */
export async function previewOf(
  chunks: AsyncIterable<Uint8Array>,
  { format, name, keys }: { format: EntityFormat; name: string; keys?: KeyColumns },
): Promise<Preview> {
  let isTyped = true;
  const has = new Set<string>();
  const rows: Row[] = [];
  const first: Row[] = [];
  const faults: string[] = [];
  let records = 0;
  const onColumns = (columns: readonly string[], typed: boolean) => {
    for (const column of columns) has.add(column);
    isTyped = typed;
  };
  const options = { format, name, onColumns, mayLackKeys: true, ...(keys && { keys }) };
  for await (const { body, fault, number } of readRecords(chunks, options)) {
    records++;
    const text = new TextDecoder().decode(body);
    const row = rowOf(text);
    if (row) rows.push(row);
    if (row && format === "jsonl")
      for (const member of Object.keys(JSON.parse(text))) has.add(member);
    if (row && fault === undefined && first.length < 3) first.push(row);
    if (fault !== undefined) faults.push(`line ${number}: ${fault}`);
    if (records === PREVIEWED_MAX) break;
  }
  const columns = columnsOf(rows);
  const guesses = isTyped
    ? undefined
    : new Map(
        columns.map(({ name: column }) => {
          const values = rows.flatMap(({ cells }) => cells.get(column)?.text ?? []);
          return [column, typeOfTexts(values)] as const;
        }),
      );
  // Of a file without anything to choose from, trying it out says what is wrong.
  const lacks = KEY_NAMES.filter(
    (key) => columns.length > 0 && (keys?.[key] !== undefined || !has.has(key)),
  );
  return { columns, first, records, guesses, lacks, faults };
}

/** Of an entity, with keys or without; what else is wrong with it is said by trying it out. */
function rowOf(json: string): Row | undefined {
  try {
    return parseEntities(`{"value":[${json}]}`)[0];
  } catch {
    return undefined;
  }
}

function columnsOf(rows: readonly Row[]): PreviewColumn[] {
  const columns = new Map<string, { types: Set<EdmType>; count: number; example: string }>();
  for (const { cells } of rows)
    for (const [name, { type, text }] of cells) {
      if (name === "Timestamp") continue;
      const column = columns.get(name) ?? { types: new Set(), count: 0, example: text };
      columns.set(name, column);
      column.types.add(type);
      column.count++;
    }
  return [...columns].map(([name, { types, count, example }]) => ({
    ...{ name, count, example },
    types: [...types],
  }));
}

/** What a text must look like to be taken for more than a string, from the narrowest type on. */
const LOOKS: readonly (readonly [EdmType, RegExp])[] = [
  ["Edm.Int32", /^(0|-?[1-9]\d*)$/],
  ["Edm.Int64", /^(0|-?[1-9]\d*)$/],
  ["Edm.Double", /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i],
  ["Edm.Boolean", /^(true|false)$/],
  ["Edm.DateTime", /^\d{4}-\d\d-\d\dT\d\d:/],
  ["Edm.Guid", /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i],
];

/**
 * The type that all of the texts look like: a number has no zeros in front, because numbers of houses and telephones
 * have. Base64 looks like words, so binary is never guessed.
 */
export function typeOfTexts(texts: readonly string[]): EdmType {
  const found = LOOKS.find(([type, look]) =>
    texts.every((text) => look.test(text) && "text" in readValue(type, text)),
  );
  return texts.length > 0 && found ? found[0] : "Edm.String";
}
