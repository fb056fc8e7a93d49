import type { Change, FollowerContext } from "../model/follower.ts";
import { keyOf, printKey } from "../ports/mutation.ts";
import type { EntityKey } from "../ports/tables.ts";
import { Tripwire } from "./tripwire.ts";

export const RECONCILE = "reconcile";
export const REPAIR_QUEUE = "index-repairs";

/** The body of a `reconcile` message. */
export interface RepairOrder {
  readonly entity: string;
  readonly table: string;
  readonly base: EntityKey;
  /** By index: entries that may be wrong. */
  readonly hints: Readonly<Record<string, readonly EntityKey[]>>;
}

/** Asks a worker to repair an entry that a reader found wrong. Best effort: a failure to send is not reported. */
export async function requestRepair(
  context: FollowerContext,
  queue: string,
  key: EntityKey,
  entry: EntityKey,
): Promise<void> {
  const change = { key, token: "", shared: new Map() };
  await repairTripwire(context, change, { queue, delayMs: 0 }, [keyOf(entry)]).catch(() => {});
}

/** Reports that the base is committed, but the rest is left to the worker or the scrub. */
export function reportLeftBehind(
  { session, entity, name }: FollowerContext,
  base: EntityKey,
  error: unknown,
): void {
  const key = printKey(base);
  session.report({ kind: "left behind", index: `${entity.name}.${name}`, key, error });
}

/**
 * One message for all indexes of the entity that send requests of their own and use this queue. `stale` are
 * entries of this index that a reader found wrong.
 */
export function repairTripwire(
  { session, entity, name: own }: FollowerContext,
  change: Change,
  wire: { readonly queue: string; readonly delayMs: number },
  stale: readonly EntityKey[] = [],
): Promise<Tripwire> {
  const { key: base, before, after } = change;
  const order = (): RepairOrder => {
    const hints: Record<string, readonly EntityKey[]> = {};
    for (const [name, index] of Object.entries(entity.indexes)) {
      const { keeper, reachesOut } = index.follow({ session, entity, name });
      if (!keeper || !reachesOut) continue;
      hints[name] = [before?.row, after].flatMap((row) => (row ? keeper.keysOf(row) : []));
      if (name === own) hints[name] = [...hints[name], ...stale];
    }
    return { entity: entity.name, table: entity.table, base, hints };
  };
  const key = `${entity.name} ${printKey(base)}`;
  return Tripwire.sharedBy(session, change, { ...wire, kind: RECONCILE }, () => ({
    key,
    body: order(),
  }));
}
