import type { Database } from "../database.ts";
import { tableError } from "../errors.ts";
import { CONTROL_TABLE } from "../index-states.ts";
import { text } from "../ports/edm.ts";
import { isRefusal } from "../ports/port-error.ts";
import type { Continuation } from "../ports/tables.ts";
import { WRITE_TOKENS } from "../store/write-token.ts";

/**
 * The generations of a view: the one that is read; one that is being built, written by the projector
 * too; one that is read no more but may still be by readers who have not heard. Each has its own table.
 */
export interface ViewState {
  readonly readable: number;
  readonly building?: number;
  /** How many sources the build has seen, and where it goes on. */
  readonly done?: number;
  readonly cursor?: Continuation;
  readonly retiring?: number;
}

export interface KnownState {
  readonly state: ViewState;
  /** Undefined for a view that was never rebuilt: nothing is stored about it. */
  readonly etag: string | undefined;
}

export function tableOf(view: string, generation: number): string {
  return `${view}${generation}`;
}

/** Where a view's rows of the control table stand. */
export function partitionOf(view: string): string {
  return `view_${view}`;
}

export async function readState({ tables }: Database, view: string): Promise<KnownState> {
  const stored = await tables.get(CONTROL_TABLE, keyOf(view)).catch((error) => {
    if (isRefusal(error, 404)) return undefined;
    throw error;
  });
  if (!stored) return { state: { readable: 1 }, etag: undefined };
  return { state: JSON.parse(String(stored.properties.state?.value)), etag: stored.etag };
}

/** @throws conflict when somebody else wrote it since it was read. */
export async function writeState(
  database: Database,
  view: string,
  { state, etag }: KnownState,
): Promise<KnownState> {
  const properties = {
    state: text(JSON.stringify(state)),
    [WRITE_TOKENS]: text(database.writeToken()),
  };
  const row = { ...keyOf(view), properties };
  try {
    const [written] = await database.tables.commit(CONTROL_TABLE, [
      etag === undefined ? { kind: "insert", ...row } : { kind: "replace", ...row, ifMatch: etag },
    ]);
    return { state, etag: written ?? "" };
  } catch (cause) {
    if (!isRefusal(cause, 409, 412)) throw cause;
    const message = `Somebody else is rebuilding ${view}.`;
    throw tableError("conflict", message, { key: partitionOf(view) }, { cause });
  }
}

function keyOf(view: string) {
  return { partitionKey: partitionOf(view), rowKey: "state" };
}
