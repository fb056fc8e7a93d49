import type { EdmType } from "@rowhouse/protocol/edm";
import { type EntityFormat, type FileRecord, readRecords } from "@rowhouse/protocol/entity-files";
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
  readonly first: readonly Row[];
  readonly records: number;
  /** Of CSV without types, whose columns are read as what their values look like. */
  readonly guesses: ReadonlyMap<string, EdmType> | undefined;
}

/**
 * Looks at the first records of a file.
 * @throws Error for a file that is none of its format
 */
export async function previewOf(
  chunks: AsyncIterable<Uint8Array>,
  { format, name }: { readonly format: EntityFormat; readonly name: string },
): Promise<Preview> {
  let isTyped = true;
  const rows: Row[] = [];
  let records = 0;
  const onColumns = (_: readonly string[], typed: boolean) => {
    isTyped = typed;
  };
  for await (const record of readRecords(chunks, { format, name, onColumns })) {
    records++;
    const row = rowOf(record);
    if (row) rows.push(row);
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
  return { columns, first: rows.slice(0, 3), records, guesses };
}

function rowOf({ body, fault }: FileRecord): Row | undefined {
  if (fault !== undefined) return undefined;
  try {
    return parseEntities(new TextDecoder().decode(body))[0];
  } catch {
    // Trying it out says why.
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
