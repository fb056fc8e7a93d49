import { validationFailed } from "./errors.ts";
import { RECONCILE, type RepairOrder } from "./messages/repair-order.ts";
import { declaredIndex } from "./model/declared-index.ts";
import type { AnyEntity } from "./model/follower.ts";
import { keeperIn } from "./model/follower.ts";
import { printKey } from "./ports/mutation.ts";
import { type Handler, later } from "./queue-worker.ts";
import type { DeclaredIndex, Session } from "./store/session.ts";

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
    async handle({ body }, { database: session }) {
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
          const untilMs = () => keptUntilMs(session, declaredIndex(entity, index));
          // A retired index has no entries, and perhaps no table.
          if ((await untilMs()) === 0) return undefined;
          // A key that the change kept is listed twice, and its two repairs would conflict.
          const unique = [...new Map(keys.map((key) => [printKey(key), key])).values()];
          const keeper = keeperIn(session.inTime(untilMs), entity, index);
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

/** The time until which entries of the index may be written; 0 while it is disabled. */
async function keptUntilMs({ indexStates }: Session, index: DeclaredIndex): Promise<number> {
  if (!indexStates) return Number.POSITIVE_INFINITY;
  const { state, commitByMs } = await indexStates.stateOf(index);
  return state === "disabled" ? 0 : commitByMs;
}
