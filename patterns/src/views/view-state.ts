import type { Database } from "../database.ts";
import { type BuildProgress, CONTROL_TABLE } from "../indexes/control.ts";
import { type JsonRow, jsonRow, type Known, mustWriteJson, readJson } from "../store/json-row.ts";

/**
 * The generations of a view, each with its own table: the one that is read; the one being built, which the
 * projector also writes to; the one that only readers which have not noticed the switch may still read.
 */
export interface ViewState extends Partial<BuildProgress> {
  readonly readable: number;
  readonly building?: number;
  readonly retiring?: number;
}

export interface KnownState {
  readonly state: ViewState;
  /** Undefined for a view that was never rebuilt: no state is stored for it. */
  readonly row: Known<ViewState> | undefined;
}

export function tableOf(view: string, generation: number): string {
  return `${view}${generation}`;
}

/** The partition of a view's rows in the control table. */
export function partitionOf(view: string): string {
  return `view_${view}`;
}

export async function readState(database: Database, view: string): Promise<KnownState> {
  const row = await readJson(rowOf(database, view));
  return { state: row?.value ?? { readable: 1 }, row };
}

/** @throws conflict when another client wrote it since it was read. */
export async function writeState(
  database: Database,
  view: string,
  { state, row }: KnownState,
): Promise<KnownState> {
  const message = `Another process is rebuilding ${view}.`;
  return { state, row: await mustWriteJson(rowOf(database, view), state, row, message) };
}

function rowOf(database: Database, view: string): JsonRow<ViewState> {
  const key = { partitionKey: partitionOf(view), rowKey: "state" };
  return jsonRow(database, CONTROL_TABLE, key, "state");
}
