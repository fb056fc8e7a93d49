import { assertSome } from "../errors.ts";
import { isPushback } from "../ports/port-error.ts";
import type { EntityKey } from "../ports/tables.ts";
import { type Clock, unlessAborted } from "./clock.ts";
import { argsInTime, type Layer, mutationsOf, type PortCall } from "./layer.ts";

export interface LimitOptions {
  /** Requests in flight. */
  readonly account?: number;
  /** Requests in flight to one partition. */
  readonly partition?: number;
}

const RAMP_START = 8;
const RAMP_STEP_MS = 2000;
const QUIET_STEP_MS = 1000;

/** Runs `work` when a slot is free. A signal ends the wait, not the work. */
export type Slots = <Result>(work: () => Promise<Result>, signal?: AbortSignal) => Promise<Result>;

/**
 * Slots, given out in the order of arrival. Their number starts low and doubles while all is well, because the
 * service throttles spikes until it has rebalanced. It halves when the service pushes back, then grows by one
 * in each quiet second.
 */
export function slotsOf(max: number, clock: Clock): Slots {
  const waiting: (() => void)[] = [];
  let taken = 0;
  let open = Math.min(max, RAMP_START);
  let changedAt = clock.now();
  let isRamping = true;

  const isFree = () => {
    const step = isRamping ? RAMP_STEP_MS : QUIET_STEP_MS;
    // If the clock was set back, growth must not stop until it has caught up.
    changedAt = Math.min(changedAt, clock.now());
    for (; open < max && clock.now() - changedAt >= step; changedAt += step) {
      open = Math.min(max, isRamping ? open * 2 : open + 1);
    }
    return taken < open;
  };
  const turn = (go: () => void) => {
    waiting.push(go);
    return () => waiting.splice(waiting.indexOf(go), 1);
  };
  return async (work, signal) => {
    signal?.throwIfAborted();
    if (isFree()) taken++;
    else await unlessAborted(turn, signal);
    try {
      signal?.throwIfAborted();
      return await work();
    } catch (error) {
      if (isPushback(error)) {
        isRamping = false;
        open = Math.max(1, open >> 1);
        changedAt = clock.now();
      }
      throw error;
    } finally {
      for (taken--; isFree() && waiting.length > 0; taken++) waiting.shift()!();
    }
  };
}

/**
 * Takes the partition's slot first, so that requests waiting for a hot partition do not hold up others. All
 * layers it returns, one for each signal, share the slots.
 */
export function limiter(
  clock: Clock,
  options: LimitOptions = {},
): (signal: AbortSignal | undefined) => Layer {
  const { account: max = 64, partition: partitionMax = 8 } = options;
  assertSome("The limit", { "limit.account": max, "limit.partition": partitionMax });
  const account = slotsOf(max, clock);
  const partitions = new Map<string, { readonly run: Slots; users: number }>();
  return (signal) => async (call, request) => {
    const send = () => request(argsInTime(clock, call));
    const id = partitionOf(call);
    if (id === undefined) return account(send, signal);
    const partition = partitions.get(id) ?? {
      run: slotsOf(partitionMax, clock),
      users: 0,
    };
    partitions.set(id, partition);
    partition.users++;
    try {
      return await partition.run(() => account(send, signal), signal);
    } finally {
      if (--partition.users === 0) partitions.delete(id);
    }
  };
}

/** Point reads and commits name their partition. */
function partitionOf(call: PortCall): string | undefined {
  const [table, second] = call.args;
  const { partitionKey }: Partial<EntityKey> = Object(mutationsOf(call)[0] ?? second);
  const isKnown = call.port === "tables" && partitionKey !== undefined;
  return isKnown ? `${table}/${partitionKey}` : undefined;
}

/** Concurrent point queries that a pattern sends for one call of its user. */
export const LOOKUPS_AT_ONCE = 16;

/**
 * Runs `work` over the items, at most `width` at a time. Results are in the order of the items. After a failure
 * it starts no more work and waits for the work in flight.
 */
export async function mapBounded<Item, Result>(
  items: readonly Item[],
  width: number,
  work: (item: Item, index: number) => Result | Promise<Result>,
): Promise<Result[]> {
  // The common case: most entities have one entry in an index, and most lookups find one.
  if (items.length === 1) return [await work(items[0]!, 0)];
  const results: Result[] = [];
  let next = 0;
  let failure: { readonly error: unknown } | undefined;
  const worker = async () => {
    for (let i = next++; i < items.length && !failure; i = next++) {
      try {
        const result = work(items[i]!, i);
        // A result that is not a promise costs no turn: pages hold up to a thousand rows. Recognized by `then`,
        // since a program may have a `Promise` of its own.
        results[i] = Object(result).then ? await result : (result as Result);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, worker));
  if (failure) throw failure.error;
  return results;
}
