import { EDM_TYPES, type EdmType } from "@rowhouse/protocol/edm";
import { isPropertyName } from "@rowhouse/protocol/property-name";

/**
 * What an index keeps in order: one entry for each entity that has the first of its properties.
 *
 * An index is an ordinary table that only the server writes; `index-key.ts` draws the keys of its entries. It never
 * changes: another key is another index.
 */
export interface IndexDefinition {
  /** Of the index table, as created. */
  readonly name: string;
  /** Whether each entry is in a partition named like its entity's: the key was declared with `PartitionKey` first. */
  readonly isLocal: boolean;
  /** Without that `PartitionKey`. At least one. */
  readonly parts: readonly IndexPart[];
}

export interface IndexPart {
  readonly property: string;
  /** Values of this type have the plain form; any other type is marked, and sorts behind them. */
  readonly type: EdmType;
  readonly descending: boolean;
}

/** Properties of an index key, a leading `PartitionKey` included. */
export const INDEX_PARTS_MAX = 4;
export const INDEXES_PER_TABLE_MAX = 16;

/** The properties in which an entry names its entity. No part may have their names. */
export const BASE_PARTITION_KEY = "basePK";
export const BASE_ROW_KEY = "baseRK";

/** A key as it is written: `LastName`, `Day:DateTime desc`, `PartitionKey,LastName`. */
export interface DeclaredPart {
  readonly property: string;
  /** Undefined: to be taken from the table's entities. */
  readonly type: EdmType | undefined;
  readonly descending: boolean;
}

/** @throws IndexProblem with what is allowed */
export function parseIndexKey(text: string): { isLocal: boolean; parts: readonly DeclaredPart[] } {
  const all = text.split(",").map((part) => parsePart(part.trim()));
  if (all.length > INDEX_PARTS_MAX) {
    throw new IndexProblem(
      `The key has ${all.length} parts; at most ${INDEX_PARTS_MAX} are allowed.`,
    );
  }
  const isLocal = all[0]?.property === "PartitionKey";
  const parts = isLocal ? all.slice(1) : all;
  if (parts.length === 0) {
    throw new IndexProblem(
      "The key needs a property besides PartitionKey, by which all is sorted.",
    );
  }
  const seen = new Set<string>();
  for (const { property } of parts) {
    if (property === "PartitionKey" || property === "RowKey" || property === "Timestamp") {
      throw new IndexProblem(
        `${property} cannot be a part of the key. Name properties, with PartitionKey first for an index inside each partition; every key ends with PartitionKey and RowKey anyway.`,
      );
    }
    if (property === BASE_PARTITION_KEY || property === BASE_ROW_KEY) {
      throw new IndexProblem(
        `${property} cannot be a part of the key: entries name their entity in the properties ${BASE_PARTITION_KEY} and ${BASE_ROW_KEY}.`,
      );
    }
    if (seen.has(property)) throw new IndexProblem(`The key names ${property} twice.`);
    seen.add(property);
  }
  if (isLocal && (all[0]!.type !== undefined || all[0]!.descending)) {
    throw new IndexProblem("PartitionKey has no type and no direction here: write it alone.");
  }
  return { isLocal, parts };
}

function parsePart(text: string): DeclaredPart {
  const [, property = "", typeName, direction] = PART.exec(text) ?? [];
  if (!isPropertyName(property)) {
    throw new IndexProblem(
      `"${text}" is not a part of a key: write Property, Property:Type, or either with "desc" after it.`,
    );
  }
  const type = typeName === undefined ? undefined : typeNamed(typeName);
  const descending = direction === "desc";
  if (descending && type !== undefined) assertCanDescend(property, type);
  return { property, type, descending };
}

const PART = /^([^\s:]+)(?::([^\s:]+))?(?:\s+(asc|desc))?$/;

/** With or without `Edm.`. */
function typeNamed(name: string): EdmType {
  const type = EDM_TYPES.find((each) => each === name || each === `Edm.${name}`);
  if (type) return type;
  const known = EDM_TYPES.map((each) => each.slice("Edm.".length)).join(", ");
  throw new IndexProblem(`"${name}" is not a type; types are ${known}.`);
}

/** @throws IndexProblem for types whose text has no fixed width */
export function assertCanDescend(property: string, type: EdmType): void {
  if (DESCENDING.includes(type)) return;
  const allowed = DESCENDING.map((each) => each.slice("Edm.".length)).join(", ");
  throw new IndexProblem(
    `${property} is ${type}, which cannot be sorted "desc"; these can: ${allowed}.`,
  );
}

const DESCENDING: readonly EdmType[] = [
  "Edm.Int32",
  "Edm.Int64",
  "Edm.Double",
  "Edm.DateTime",
  "Edm.Boolean",
];

/** The key as it is declared; `parseIndexKey` reads it. */
export function printIndexKey({
  isLocal,
  parts,
}: Pick<IndexDefinition, "isLocal" | "parts">): string {
  const printed = parts.map(
    ({ property, type, descending }) =>
      `${property}:${type.slice("Edm.".length)}${descending ? " desc" : ""}`,
  );
  return (isLocal ? ["PartitionKey", ...printed] : printed).join(",");
}

/** Why an index cannot be kept, with what is allowed instead. */
export class IndexProblem extends Error {
  override readonly name = "IndexProblem";
}
