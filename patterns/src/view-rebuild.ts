import type { Database } from "./database.ts";
import { validationFailed } from "./errors.ts";
import { CONTROL_TABLE } from "./indexes/control.ts";
import { within } from "./keys/key-range.ts";
import type { AnyEntity } from "./model/entity.ts";

import type { Follower } from "./model/follower.ts";
import { keyOf } from "./ports/mutation.ts";
import { isRefusal } from "./ports/port-error.ts";
import type { StoredEntity } from "./ports/tables.ts";
import { inRange } from "./query/filter.ts";
import { pagesWhere } from "./query/pages.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "./store/limit.ts";
import { type AnyView, ViewProjector } from "./views/view-projector.ts";
import { readState, tableOf, type ViewState, writeState } from "./views/view-state.ts";

export interface RebuildOptions {
  /** How long the old rows stay for readers who have not heard. Default: a minute. */
  readonly graceMs?: number;
  readonly signal?: AbortSignal;
  /** After each page: how many sources are done. */
  readonly onProgress?: (done: number) => void;
}

const GRACE_MS = 60_000;

/**
 * Builds a view anew, for a projection that changed or a source that was there before. May be stopped
 * at any moment and begun again.
 *
 * Makes a new generation beside the one that is read, then switches to it, then drops the old one. The
 * projector writes to the new one from before the first source is read, so no change is missed. A scan of the source, 1 R for each row and each page.
 * @returns the number of rows read. @throws conflict when two run at once.
 */
export async function rebuildView(
  database: Database,
  view: AnyView & Follower,
  source: AnyEntity,
  { signal, ...options }: RebuildOptions = {},
): Promise<number> {
  if (signal) return rebuildView(database.until(signal), view, source, options);
  const { graceMs = GRACE_MS, onProgress } = options;
  const { tables, clock } = database;
  const { name } = view;
  if (!Object.values(source.followers).includes(view)) {
    throw validationFailed(name, "source", `${source.name} does not declare it`);
  }
  await tables.createTable(CONTROL_TABLE);
  let known = await readState(database, name);
  const save = async (state: ViewState) => {
    known = await writeState(database, name, { ...known, state });
  };
  const retire = async ({ retiring, ...state }: ViewState) => {
    if (retiring === undefined) return;
    await clock.sleep(graceMs);
    await tables.deleteTable(tableOf(name, retiring));
    await save(state);
  };
  await retire(known.state);
  const { readable, building = readable + 1 } = known.state;
  const table = tableOf(name, building);
  // The table first: what the state names is there.
  await tables.createTable(table);
  if (known.state.building === undefined) await save({ readable, building });

  const projector = new ViewProjector(database, view, source);
  /** The rows of a source just read, unless somebody was there before. */
  const add = async (stored: StoredEntity) => {
    for (const key of projector.keysOf(source.rows.decode(stored))) {
      const properties = await projector.contentOf(key, stored);
      try {
        await tables.commit(table, [{ kind: "insert", ...key, properties }]);
      } catch (error) {
        if (!isRefusal(error, 409)) throw error;
        await projector.reconcile(table, keyOf(stored), key);
      }
    }
  };
  const filter = inRange(undefined, within(source.rows.row.prefix));
  let { done = 0 } = known.state;
  const sources = pagesWhere(database, source.table, { filter }, known.state.cursor);
  for await (const { entities, continuation: cursor } of sources) {
    await mapBounded(entities, LOOKUPS_AT_ONCE, add);
    done += entities.length;
    if (cursor) await save({ readable, building, done, cursor });
    onProgress?.(done);
  }
  await save({ readable: building, retiring: readable });
  await retire(known.state);
  return done;
}
