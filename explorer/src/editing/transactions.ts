import { type ChangesetOperation, changesetBytes } from "@rowhouse/protocol/batch-request";
import { entityPath } from "@rowhouse/protocol/entity-url";
import { LIMITS } from "@rowhouse/protocol/limits";
import { isPropertyName } from "@rowhouse/protocol/property-name";
import type { Cell, Row } from "../entities.ts";
import { toJson } from "../entity-json.ts";
import { type Change, type Changes, differing } from "../staged.ts";
import { readValue } from "./edm-text.ts";

/** One entity group transaction: all of its changes are saved, or none. */
export interface Transaction {
  readonly partitionKey: string;
  readonly items: readonly Item[];
  /** Which of how many for its partition: more than one where the changes exceed what one may hold. */
  readonly part: number;
  readonly parts: number;
}

export interface Item {
  readonly id: string;
  readonly change: Change;
  readonly operation: ChangesetOperation;
  /** What is sent, in words. */
  readonly words: string;
}

/** What keeps a change from being saved, by property; "" for the entity itself. */
export function problemsOf({ kind, row }: Change): ReadonlyMap<string, string> {
  const problems = new Map<string, string>();
  if (kind === "delete") return problems;
  for (const [name, key] of [
    ["PartitionKey", row.partitionKey],
    ["RowKey", row.rowKey],
  ] as const) {
    if (/[/\\#?\p{Cc}\p{Cs}]/u.test(key))
      problems.set(name, "A key has no /, \\, #, ? and no control characters.");
    else if (key.length > LIMITS.keyLengthMax)
      problems.set(name, `A key has at most ${LIMITS.keyLengthMax} characters.`);
  }
  for (const [name, { type, text }] of propertiesOf(row)) {
    const nameProblem = problemOfName(name);
    const read = readValue(type, text);
    if (nameProblem) problems.set(name, nameProblem);
    else if ("problem" in read) problems.set(name, read.problem);
  }
  const many = propertiesOf(row).length;
  if (many > LIMITS.customPropertiesMax)
    problems.set(
      "",
      `An entity has at most ${LIMITS.customPropertiesMax} properties, not ${many}.`,
    );
  return problems;
}

export function problemOfName(name: string): string | undefined {
  if (/^(PartitionKey|RowKey|Timestamp)$/.test(name)) return `${name} is the service's own.`;
  if (name.length > LIMITS.propertyNameLengthMax)
    return `A name has at most ${LIMITS.propertyNameLengthMax} characters.`;
  return isPropertyName(name) ? undefined : "A name is a letter or _, then letters, digits and _.";
}

function propertiesOf(row: Row): [string, Cell][] {
  return [...row.cells].filter(([name]) => name !== "Timestamp");
}

/** The row as the service will store it: every value in its canonical text. Only for a change without problems. */
export function canonical(row: Row): Row {
  const cells = propertiesOf(row).map(([name, { type, text }]): [string, Cell] => {
    const read = readValue(type, text);
    return [name, { type, text: "text" in read ? read.text : text }];
  });
  return { ...row, cells: new Map(cells) };
}

/** @param base the address of the account */
export function operationOf(
  { kind, row, base: known }: Change,
  { base, table }: { base: string; table: string },
): Pick<Item, "operation" | "words"> {
  const url = `${base}/${entityPath(table, row.partitionKey, row.rowKey)}`;
  if (kind === "delete" && known)
    return { operation: { method: "DELETE", url, ifMatch: known.etag }, words: "delete" };
  const whole = canonical(row);
  if (!known)
    return {
      operation: { method: "POST", url: `${base}/${table}`, body: toJson(whole) },
      words: "insert",
    };
  const names = differing(whole, known.row);
  const removed = names.filter((name) => !whole.cells.has(name));
  if (removed.length > 0)
    return {
      operation: { method: "PUT", url, ifMatch: known.etag, body: toJson(whole) },
      words: `replace, without ${removed.join(", ")}`,
    };
  const cells = new Map(names.map((name) => [name, whole.cells.get(name)!]));
  return {
    operation: {
      ...{ method: "MERGE", url, ifMatch: known.etag },
      body: toJson({ ...whole, cells }),
    },
    words: `merge ${names.join(", ")}`,
  };
}

/**
 * Puts changes into as few transactions as the service allows: of one partition each, with up to 100 operations and
 * 4 MiB. In key order.
 */
export function groupIntoTransactions(
  changes: Changes,
  address: { base: string; table: string },
): Transaction[] {
  const items = [...changes].map(([id, change]): Item => {
    return { id, change, ...operationOf(change, address) };
  });
  const byPartition = new Map<string, Item[]>();
  for (const item of items.sort(byKeys)) {
    const { partitionKey } = item.change.row;
    byPartition.set(partitionKey, [...(byPartition.get(partitionKey) ?? []), item]);
  }
  return [...byPartition].flatMap(([partitionKey, own]) => {
    const groups = split(own);
    return groups.map((group, i) => ({
      ...{ partitionKey, items: group, part: i + 1, parts: groups.length },
    }));
  });
}

function split(items: readonly Item[]): Item[][] {
  const groups: Item[][] = [];
  let bytes = 0;
  for (const item of items) {
    const last = groups.at(-1);
    const size = changesetBytes(item.operation);
    const fits =
      last !== undefined &&
      last.length < LIMITS.transactionOperationsMax &&
      bytes + size <= LIMITS.bodyBytesMax;
    if (fits) last.push(item);
    else groups.push([item]);
    bytes = fits ? bytes + size : size;
  }
  return groups;
}

function byKeys({ change: { row: a } }: Item, { change: { row: b } }: Item): number {
  if (a.partitionKey !== b.partitionKey) return a.partitionKey < b.partitionKey ? -1 : 1;
  return a.rowKey < b.rowKey ? -1 : a.rowKey > b.rowKey ? 1 : 0;
}

/** Keys that more than one change has: a transaction may not name an entity twice. */
export function repeatedKeys(changes: Changes): Row[] {
  const seen = new Map<string, number>();
  const rows = [...changes.values()].map(({ row }) => row);
  const keyOf = ({ partitionKey, rowKey }: Row) => JSON.stringify([partitionKey, rowKey]);
  for (const row of rows) seen.set(keyOf(row), (seen.get(keyOf(row)) ?? 0) + 1);
  return rows.filter(
    (row, i) =>
      seen.get(keyOf(row))! > 1 && rows.findIndex((each) => keyOf(each) === keyOf(row)) === i,
  );
}

/**
 * What takes a saved transaction back: each change turned round, on the condition that nobody changed the entity since.
 * @param etags as the service answered, in the order of the changes
 */
export function inverseOf(
  changes: readonly Change[],
  etags: readonly (string | undefined)[],
): Change[] {
  return changes.map(({ kind, row, base }, i): Change => {
    const written = { row: canonical(row), etag: etags[i] ?? "*" };
    if (kind === "insert") return { kind: "delete", row: written.row, base: written };
    if (kind === "delete") return { kind: "insert", row: base!.row, base: undefined };
    return { kind: "update", row: base!.row, base: written };
  });
}
