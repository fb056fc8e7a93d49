import { signal } from "@preact/signals";
import type { Cell, Row } from "./entities.ts";

/** An entity as it was read, whole. */
export interface KnownEntity {
  readonly row: Row;
  readonly etag: string;
}

/** A change of one entity that is not saved yet. Its cells are what was typed, valid or not: nothing typed is lost. */
export interface Change {
  readonly kind: "insert" | "update" | "delete";
  readonly row: Row;
  /** What it changes; undefined for an insert. */
  readonly base: KnownEntity | undefined;
}

/** By `idOf` its keys, or for an insert, whose keys may still change, a name of its own. */
export type Changes = ReadonlyMap<string, Change>;

/** A transaction that was saved: how to take it back. */
export interface Saved {
  readonly at: number;
  /** Their ETags are those that were written. */
  readonly inverse: readonly Change[];
}

/** What is staged in a table, and what was saved there. It outlives the screen, and ends with the page. */
export class TableEdits {
  readonly changes = signal<Changes>(new Map());
  /** Saves, each with the transactions that were sent together, the last one last. */
  readonly saves = signal<readonly (readonly Saved[])[]>([]);
  #inserts = 0;

  /** A change that changes nothing is staged no longer. */
  stage(id: string, change: Change | undefined): void {
    const next = new Map(this.changes.value);
    next.delete(id);
    if (change && !isNoChange(change)) next.set(id, change);
    this.changes.value = next;
  }

  /** @returns its id */
  stageInsert(row: Row): string {
    const id = `new ${++this.#inserts}`;
    this.stage(id, { kind: "insert", row, base: undefined });
    return id;
  }

  unstageLast(): void {
    const last = [...this.changes.value.keys()].at(-1);
    if (last !== undefined) this.stage(last, undefined);
  }
}

const edits = new Map<string, TableEdits>();

export function editsOf(account: string, table: string): TableEdits {
  const key = `${account}/${table}`;
  const known = edits.get(key) ?? new TableEdits();
  edits.set(key, known);
  return known;
}

/** Whether leaving the page would lose something. */
export function hasStaged(): boolean {
  return [...edits.values()].some(({ changes }) => changes.value.size > 0);
}

export function idOf({ partitionKey, rowKey }: Pick<Row, "partitionKey" | "rowKey">): string {
  return JSON.stringify([partitionKey, rowKey]);
}

export function isSameCell(a: Cell | undefined, b: Cell | undefined): boolean {
  return a?.type === b?.type && a?.text === b?.text;
}

/** The properties that differ, those that only one of both has included. */
export function differing(a: Row, b: Row): string[] {
  const names = new Set([...a.cells.keys(), ...b.cells.keys()]);
  names.delete("Timestamp");
  return [...names].filter((name) => !isSameCell(a.cells.get(name), b.cells.get(name)));
}

function isNoChange({ kind, row, base }: Change): boolean {
  return kind === "update" && base !== undefined && differing(row, base.row).length === 0;
}

/** The rows as they would be, each with what is staged for it. New entities come first. */
export function withStaged(rows: readonly Row[], changes: Changes): readonly Row[] {
  if (changes.size === 0) return rows;
  const added = [...changes.values()].filter(({ kind }) => kind === "insert");
  const changed = rows.map((row) => {
    const change = changes.get(idOf(row));
    return change?.kind === "update" ? change.row : row;
  });
  return [...added.map(({ row }) => row), ...changed];
}

const kinds = new WeakMap<Changes, Map<Row, Change>>();

/** The change that a drawn row shows. */
export function changeOf(row: Row, changes: Changes): Change | undefined {
  if (changes.size === 0) return undefined;
  let byRow = kinds.get(changes);
  if (!byRow) {
    byRow = new Map([...changes.values()].map((change) => [change.row, change]));
    kinds.set(changes, byRow);
  }
  return byRow.get(row) ?? changes.get(idOf(row));
}

/** The id of the change that a drawn row shows. */
export function idOfDrawn(row: Row, changes: Changes): string {
  const found = [...changes].find(([, change]) => change.row === row);
  return found?.[0] ?? idOf(row);
}
