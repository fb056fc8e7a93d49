import { type BuildProgress, CONTROL_TABLE } from "../indexes/control.ts";
import { type JsonRow, jsonRow, type Known, mustWriteJson, readJson } from "../store/json-row.ts";
import type { Session } from "../store/session.ts";

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

export async function readState(session: Session, view: string): Promise<KnownState> {
  const row = await readJson(rowOf(session, view));
  return { state: row?.value ?? { readable: 1 }, row };
}

/** @throws conflict when another client wrote it since it was read. */
export async function writeState(
  session: Session,
  view: string,
  { state, row }: KnownState,
): Promise<KnownState> {
  const message = `Another process is rebuilding ${view}.`;
  return { state, row: await mustWriteJson(rowOf(session, view), state, row, message) };
}

function rowOf(session: Session, view: string): JsonRow<ViewState> {
  const key = { partitionKey: partitionOf(view), rowKey: "state" };
  return jsonRow(session, CONTROL_TABLE, key, "state");
}
