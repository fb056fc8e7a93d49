import type { Database } from "../database.ts";
import { type BuildProgress, CONTROL_TABLE } from "../indexes/control.ts";
import { type JsonRow, jsonRow, type Known, mustWriteJson, readJson } from "../store/json-row.ts";

/**
 * The generations of a view: the one that is read; one that is being built, written by the projector
 * too; one that is read no more but may still be by readers who have not heard. Each has its own table.
 */
export interface ViewState extends Partial<BuildProgress> {
  readonly readable: number;
  readonly building?: number;
  readonly retiring?: number;
}

export interface KnownState {
  readonly state: ViewState;
  /** Undefined for a view that was never rebuilt: nothing is stored about it. */
  readonly row: Known<ViewState> | undefined;
}

export function tableOf(view: string, generation: number): string {
  return `${view}${generation}`;
}

/** Where a view's rows of the control table stand. */
export function partitionOf(view: string): string {
  return `view_${view}`;
}

export async function readState(database: Database, view: string): Promise<KnownState> {
  const row = await readJson(rowOf(database, view));
  return { state: row?.value ?? { readable: 1 }, row };
}

/** @throws conflict when somebody else wrote it since it was read. */
export async function writeState(
  database: Database,
  view: string,
  { state, row }: KnownState,
): Promise<KnownState> {
  const message = `Somebody else is rebuilding ${view}.`;
  return { state, row: await mustWriteJson(rowOf(database, view), state, row, message) };
}

function rowOf(database: Database, view: string): JsonRow<ViewState> {
  const key = { partitionKey: partitionOf(view), rowKey: "state" };
  return jsonRow(database, CONTROL_TABLE, key, "state");
}
