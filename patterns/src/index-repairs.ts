import { validationFailed } from "./errors.ts";
import { RECONCILE, type RepairOrder } from "./messages/repair-order.ts";
import type { AnyEntity } from "./model/entity.ts";
import { keeperIn } from "./model/entity-index.ts";
import { printKey } from "./ports/mutation.ts";
import { type Handler, later } from "./queue-worker.ts";

export interface IndexRepairsOptions {
  /** When to return to an entry that is too young to be deleted. Default: 30 seconds. */
  readonly unsettledMs?: number;
}

const UNSETTLED_MS = 30_000;

/** The handler that completes the index entries of crashed writers, and those of queued indexes. */
export function indexRepairs(
  definitions: readonly AnyEntity[],
  { unsettledMs = UNSETTLED_MS }: IndexRepairsOptions = {},
): Handler {
  return {
    kind: RECONCILE,
    async handle({ body }, { database }) {
      // We sent it ourselves; the handler's kind says so.
      const { entity: name, table, base, hints } = body as RepairOrder;
      const entity = definitions.find((one) => one.name === name && one.table === table);
      if (!entity)
        throw validationFailed(
          "The repair",
          "entity",
          `${name} in ${table} is unknown to this worker`,
        );
      const known = Object.entries(hints).filter(([index]) => entity.indexes[index]);
      const outcomes = await Promise.all(
        known.map(async ([index, keys]) => {
          const { indexStates } = database;
          const untilMs = () => indexStates?.keptUntilMs(entity, index) ?? Number.POSITIVE_INFINITY;
          // A retired index has no entries, and perhaps no table.
          if ((await untilMs()) === 0) return undefined;
          // A key that the change kept is listed twice, and its two repairs would conflict.
          const unique = [...new Map(keys.map((key) => [printKey(key), key])).values()];
          const keeper = keeperIn(database.inTime(untilMs), entity, index);
          try {
            return await keeper?.reconcile(base, unique);
          } catch (error) {
            // The index may have been retired in the meantime.
            if ((await untilMs()) > 0) throw error;
            return undefined;
          }
        }),
      );
      return outcomes.includes("later") ? later(unsettledMs) : undefined;
    },
  };
}
