import { EDM_TYPES } from "@rowhouse/protocol/edm";
import { type Cell, parseEntities, type Row } from "../entities.ts";
import { readValue } from "./edm-text.ts";
import { problemOfName } from "./transactions.ts";

export type ReadDraft =
  | { readonly row: Row; readonly notes: readonly string[] }
  | { readonly problem: string };

/**
 * Reads an entity as `toJson` writes it, and as people write it: null leaves a property out, as the service does.
 * @param known keys that must stay as they are; undefined for a new entity
 */
export function readJsonDraft(json: string, known: Row | undefined): ReadDraft {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    return { problem: (error as Error).message };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return { problem: "An entity is an object: { … }." };
  const members = value as Record<string, unknown>;
  const absent = new Set<string>();
  for (const [name, each] of Object.entries(members)) {
    if (each === null) absent.add(name);
    else if (typeof each === "object")
      return {
        problem: `“${name}” is ${Array.isArray(each) ? "an array" : "an object"}; a property is a single value.`,
      };
  }
  for (const key of ["PartitionKey", "RowKey"]) {
    if (typeof members[key] !== "string") return { problem: `${key} is missing, or no text.` };
  }
  if (known && (members.PartitionKey !== known.partitionKey || members.RowKey !== known.rowKey))
    return { problem: "The keys of an entity that is there cannot change. Duplicate it instead." };
  const [row] = parseEntities(json);
  if (!row) return { problem: "An entity has a PartitionKey and a RowKey." };
  const cells = new Map<string, Cell>();
  for (const [name, { type, text }] of row.cells) {
    if (absent.has(name) || name === "Timestamp") continue;
    if (!EDM_TYPES.includes(type))
      return { problem: `“${name}” has the type ${type}; types are ${EDM_TYPES.join(", ")}.` };
    const wrongName = problemOfName(name);
    if (wrongName) return { problem: `“${name}”: ${wrongName}` };
    const read = readValue(type, text);
    if ("problem" in read) return { problem: `“${name}” is no ${type}: ${read.problem}` };
    cells.set(name, { type, text: read.text });
  }
  const notes = [...absent].map((name) => `“${name}” is null: the entity will not have it.`);
  return { row: { ...row, cells }, notes };
}
