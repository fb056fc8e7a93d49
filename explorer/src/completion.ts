import { printLiteral } from "@rowhouse/protocol/filter-literal";
import type { Literal } from "@rowhouse/protocol/filter-tree";
import { cellOf, KEYS } from "./column-choice.ts";
import type { Cell } from "./entities.ts";
import { readLiteral } from "./filter-builder.ts";
import { OPERATORS, placeAfter } from "./filter-text.ts";
import type { TableView } from "./table-view.ts";

export interface Completions {
  readonly items: readonly string[];
  /** Where the text begins that an item replaces. */
  readonly from: number;
  /** What an item is, in a word. */
  readonly hint: (item: string) => string;
}

const ITEMS_MAX = 12;
const MEANINGS: Readonly<Record<string, string>> = {
  ...{
    eq: "equal",
    ne: "not equal",
    lt: "less than",
    le: "at most",
    gt: "greater than",
    ge: "at least",
  },
  ...{ and: "both", or: "either", not: "the opposite" },
};

/** What may be written next, by what stands before the cursor and by the rows that were read. */
export function completionsOf(before: string, view: TableView): Completions {
  const { wants, from, property } = placeAfter(before);
  const word = before.slice(from);
  const { types, known } = view.columns;
  const starting = (items: readonly string[]) =>
    items
      .filter((item) => item !== word && item.toLowerCase().startsWith(word.toLowerCase()))
      .slice(0, ITEMS_MAX);
  switch (wants) {
    case "operand": {
      const hint = (name: string) =>
        MEANINGS[name] ??
        (KEYS.includes(name) ? "key" : (types.value.get(name) ?? "").replace("Edm.", ""));
      return { items: starting([...KEYS, ...known.value, "not"]), from, hint };
    }
    case "operator":
      return { items: starting(OPERATORS), from, hint: (name) => MEANINGS[name] ?? "" };
    case "connective":
      return { items: starting(["and", "or"]), from, hint: (name) => MEANINGS[name] ?? "" };
    case "literal":
      return { items: starting(literalsOf(property!, view)), from, hint: () => "" };
    case "nothing":
      return { items: [], from, hint: () => "" };
  }
}

const ROWS_LOOKED_AT = 500;
const LITERAL_LENGTH_MAX = 60;

/** Values of a property in the rows that were read; of the partition key, those of the sketch too. */
function literalsOf(property: string, view: TableView): string[] {
  const found = new Set<string>();
  if (property === "PartitionKey") {
    for (const { partitionKey } of view.sketch.value?.steps ?? [])
      found.add(printLiteral({ type: "Edm.String", value: partitionKey }));
  }
  for (const row of view.rows.value.slice(0, ROWS_LOOKED_AT)) {
    const cell = cellOf(row, property);
    const literal = cell && literalOf(cell);
    if (literal) found.add(printLiteral(literal));
  }
  return [...found].filter((text) => text.length <= LITERAL_LENGTH_MAX);
}

function literalOf({ type, text, length }: Cell): Literal | undefined {
  if (length !== undefined || type === "Edm.Binary") return undefined;
  return readLiteral(type, text);
}
