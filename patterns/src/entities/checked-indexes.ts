import { tableError, validationFailed } from "../errors.ts";
import { within } from "../keys/key-range.ts";
import { text } from "../ports/edm.ts";
import { isRefusal, unlessRefused } from "../ports/port-error.ts";
import { pagesOf } from "../query/pages.ts";
import { jsonRow, type Known, knownIn, writeJson } from "../store/json-row.ts";
import type {
  DeclaredIndex,
  IndexState,
  IndexStates,
  Session,
  UsableState,
} from "../store/session.ts";

/** Where the states of indexes are recorded; `indexes/control.ts` draws them. */
export const CONTROL_TABLE = "rhcontrol";
export const CONTROL_PARTITION = "index";
export const CONTROL_PROPERTY = "control";
/** The time from reading a state until no commit based on it can happen any more. */
export const WRITE_MS = 50_000;

/** The rows for the name of an index, by row key: one for each definition that was ever registered under it. */
export async function registeredRows<Row>(
  session: Session,
  name: string,
): Promise<Map<string, Known<Row>>> {
  const range = { partitionKey: CONTROL_PARTITION, rows: within(name) };
  const all = new Map<string, Known<Row>>();
  const read = async () => {
    for await (const { entities } of pagesOf(session, CONTROL_TABLE, range)) {
      for (const stored of entities) all.set(stored.rowKey, knownIn(stored, CONTROL_PROPERTY));
    }
  };
  await unlessRefused(read(), 404);
  return all;
}

/**
 * The state of an index that nobody registered: without entities it has all its entries, and is registered as
 * readable.
 * @throws index-not-readable when there are entities, whose entries may not exist.
 */
export async function checkUnregistered(session: Session, index: DeclaredIndex): Promise<void> {
  for await (const { entities } of pagesOf(
    session,
    index.table,
    { rows: index.rows },
    index.select,
  )) {
    if (!entities.some(index.isEntity)) continue;
    throw tableError(
      "index-not-readable",
      `${index.label} is declared over existing entities, and nothing says that it was built.`,
      { index: index.label, state: "unknown" },
      { remedy: `rowhouse patterns index build ${index.label} --register; ${TRUST}` },
    );
  }
  const key = { partitionKey: CONTROL_PARTITION, rowKey: index.key };
  const row = jsonRow(session, CONTROL_TABLE, key, CONTROL_PROPERTY);
  const state: IndexState = "readable";
  await session.tables.createTable(CONTROL_TABLE);
  // Another process may be faster, and registers the same.
  await writeJson(row, { state }, undefined, { state: text(state) });
}

const TRUST = 'connect({ indexStates: "trusted" }) uses it as it is.';

/**
 * For programs that build no index while they run: each index is checked once, and a readable one stays so. Those
 * in another state are checked each time.
 */
export function checkedIndexes(session: Session): IndexStates {
  const ready = new Set<string>();
  return {
    async stateOf(index): Promise<UsableState> {
      const readAtMs = session.clock.now();
      while (!ready.has(index.key)) {
        const state = await readState(session, index);
        if (state === "readable") ready.add(index.key);
        else if (state) return { state, commitByMs: readAtMs + WRITE_MS };
        else await checkUnregistered(session, index);
      }
      return { state: "readable", commitByMs: Number.POSITIVE_INFINITY };
    },
  };
}

async function readState(session: Session, index: DeclaredIndex): Promise<IndexState | undefined> {
  try {
    const found = await registeredRows<{ readonly state: IndexState }>(session, index.name);
    const own = found.get(index.key);
    if (!own && found.size > 0) throw changedDefinition(index.label);
    return own?.value.state;
  } catch (error) {
    if (!isRefusal(error, 403)) throw error;
    const message = `These rights do not suffice to check ${index.label}.`;
    const payload = { index: index.label, state: "unknown" };
    throw tableError("index-not-readable", message, payload, { cause: error, remedy: TRUST });
  }
}

export function changedDefinition(label: string): Error {
  const message = "differs from the registered one; declare it under a new name";
  return validationFailed(label, "definition", message);
}
