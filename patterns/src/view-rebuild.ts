import { batch } from "./batch.ts";
import { assertBetween, validationFailed } from "./errors.ts";
import { Pace } from "./indexes/build-range.ts";
import { type BuildProgress, CONTROL_TABLE, NOTHING_BUILT } from "./indexes/control.ts";
import { within } from "./keys/key-range.ts";
import type { AnyEntity, Follower, Snapshot } from "./model/follower.ts";
import type { Properties } from "./ports/edm.ts";
import { inRange } from "./ports/filter.ts";
import { keyOf } from "./ports/mutation.ts";
import { isRefusal } from "./ports/port-error.ts";
import type { EntityKey } from "./ports/tables.ts";
import { pagesWhere } from "./query/pages.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "./store/limit.ts";
import type { Session } from "./store/session.ts";
import { type AnyView, ViewProjector } from "./views/view-projector.ts";
import { readState, tableOf, type ViewState, writeState } from "./views/view-state.ts";

export interface RebuildOptions {
  /** How long the old rows stay for readers that have not noticed the switch. Default: a minute. */
  readonly graceMs?: number;
  /** Sources per second, at most. Default: as fast as possible. */
  readonly rate?: number;
  readonly signal?: AbortSignal;
  /** Called after each page with the number of sources `done` and of the view's rows `written`. */
  readonly onProgress?: (progress: BuildProgress) => void;
}

const GRACE_MS = 60_000;

/**
 * Rebuilds a view, for a projection that changed or a source that existed before the view. May be stopped at
 * any time and started again.
 *
 * Builds a new generation next to the one that is read, switches to it, then drops the old one. The projector
 * writes to the new generation from before the first source is read, so no change is missed. Costs a scan of
 * the source, 1 R for each page, and for the rows of a page 1 R for each partition and each 100 in it.
 * @throws conflict when two rebuilds run at once.
 */
export async function rebuildView(
  session: Session,
  view: AnyView & Follower,
  source: AnyEntity,
  { signal, ...options }: RebuildOptions = {},
): Promise<BuildProgress> {
  if (signal) return rebuildView(session.until(signal), view, source, options);
  const { graceMs = GRACE_MS, rate = Number.POSITIVE_INFINITY, onProgress } = options;
  assertBetween("The work", { graceMs }, 0);
  const { tables, clock } = session;
  const { name } = view;
  if (!Object.values(source.followers).includes(view)) {
    throw validationFailed(name, "source", `${source.name} does not declare it`);
  }
  const pace = new Pace(clock, rate);
  await tables.createTable(CONTROL_TABLE);
  let known = await readState(session, name);
  const save = async (state: ViewState) => {
    known = await writeState(session, name, { ...known, state });
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
  // The tables first, so that every table the state names exists, including the one read until the switch.
  if (!known.row) await tables.createTable(tableOf(name, readable));
  await tables.createTable(table);
  if (known.state.building === undefined) await save({ readable, building });

  const projector = new ViewProjector(session, view, source);
  const filter = inRange(undefined, within(source.rows.row.prefix));
  let { done = 0, written = 0 } = known.state;
  let progress: BuildProgress = NOTHING_BUILT;
  const pages = pagesWhere(session, source.table, { filter }, known.state.cursor);
  for await (const { entities, continuation } of pages) {
    const waitMs = pace.waitMs();
    if (waitMs > 0) await clock.sleep(waitMs);
    const sources = entities.flatMap((stored) => {
      const row = source.rows.decode(stored);
      return row ? [{ stored, row }] : [];
    });
    pace.begin(sources.length);
    done += sources.length;
    written += await insertRows(session, projector, table, sources);
    progress = { ...NOTHING_BUILT, done, written, ...(continuation && { cursor: continuation }) };
    if (continuation) await save({ readable, building, ...progress });
    onProgress?.(progress);
  }
  await save({ readable: building, retiring: readable });
  await retire(known.state);
  return progress;
}

/** Inserts the rows of these sources; rows that exist are reconciled instead. @returns how many there are. */
async function insertRows(
  session: Session,
  projector: ViewProjector,
  table: string,
  sources: readonly Snapshot[],
): Promise<number> {
  const made: { base: EntityKey; key: EntityKey; properties: Properties }[] = [];
  for (const { row, stored } of sources) {
    for (const { key } of projector.rowsOf(row)) {
      made.push({ base: keyOf(stored), key, properties: await projector.contentOf(key, stored) });
    }
  }
  const results = await batch(session, (plan) => {
    for (const { key, properties } of made)
      plan.mutate(table, { kind: "insert", ...key, properties });
  });
  await mapBounded(made, LOOKUPS_AT_ONCE, async ({ base, key }, i) => {
    const result = results[i];
    if (!result || result.ok) return;
    if (!isRefusal(result.error, 409)) throw result.error;
    await projector.reconcile(table, base, key);
  });
  return made.length;
}
