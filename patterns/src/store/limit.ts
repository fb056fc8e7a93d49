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

/**
 * Slots, given out in the order of arrival. Their number starts low and doubles while all is well, because the
 * service throttles spikes until it has rebalanced. It halves when the service pushes back, then grows by one
 * in each quiet second.
 */
export class Slots {
  readonly #max: number;
  readonly #clock: Clock;
  readonly #waiting: (() => void)[] = [];
  #taken = 0;
  #open: number;
  #changedAt: number;
  #isRamping = true;

  constructor(max: number, clock: Clock) {
    this.#max = max;
    this.#clock = clock;
    this.#open = Math.min(max, RAMP_START);
    this.#changedAt = clock.now();
  }

  /** Whether nobody has a slot or waits for one. */
  get isUnused(): boolean {
    return this.#taken === 0;
  }

  /** Takes a slot, or waits for one until the signal is aborted. A taken slot must be given back. */
  take(signal: AbortSignal | undefined): Promise<void> | undefined {
    signal?.throwIfAborted();
    // Slots may have been added since the last one was given back; work that waits has the first claim.
    this.#handOver();
    if (!this.#isFree()) return unlessAborted((go) => this.#wait(go), signal);
    this.#taken++;
    return undefined;
  }

  /** @param error what the work in the slot threw, if it did */
  giveBack(error: unknown): void {
    if (isPushback(error)) {
      this.#isRamping = false;
      this.#open = Math.max(1, this.#open >> 1);
      this.#changedAt = this.#clock.now();
    }
    this.#taken--;
    this.#handOver();
  }

  #handOver(): void {
    while (this.#waiting.length > 0 && this.#isFree()) {
      this.#taken++;
      this.#waiting.shift()!();
    }
  }

  #wait(go: () => void): () => void {
    this.#waiting.push(go);
    return () => this.#waiting.splice(this.#waiting.indexOf(go), 1);
  }

  #isFree(): boolean {
    if (this.#open < this.#max) this.#grow(this.#clock.now());
    return this.#taken < this.#open;
  }

  #grow(now: number): void {
    const stepMs = this.#isRamping ? RAMP_STEP_MS : QUIET_STEP_MS;
    // If the clock was set back, growth must not stop until it has caught up.
    this.#changedAt = Math.min(this.#changedAt, now);
    for (; this.#open < this.#max && now - this.#changedAt >= stepMs; this.#changedAt += stepMs) {
      this.#open = Math.min(this.#max, this.#isRamping ? this.#open * 2 : this.#open + 1);
    }
  }
}

/** Runs `work` in a slot of each, taken in their order. A signal ends the waits, not the work. */
export async function inSlots<Result>(
  slots: readonly Slots[],
  work: () => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  let taken = 0;
  let failure: unknown;
  try {
    for (; taken < slots.length; taken++) {
      const turn = slots[taken]!.take(signal);
      // A slot that is free costs no turn.
      if (turn) await turn;
    }
    signal?.throwIfAborted();
    return await work();
  } catch (error) {
    // An abort's reason may be that another request was throttled.
    if (error !== signal?.reason) failure = error;
    throw error;
  } finally {
    while (taken > 0) slots[--taken]!.giveBack(failure);
  }
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
  const account = new Slots(max, clock);
  const partitions = new Map<string, Slots>();
  return (signal) => async (call, request) => {
    const send = () => request(argsInTime(clock, call));
    const id = partitionOf(call);
    if (id === undefined) return inSlots([account], send, signal);
    const partition = partitions.get(id) ?? new Slots(partitionMax, clock);
    partitions.set(id, partition);
    try {
      return await inSlots([partition, account], send, signal);
    } finally {
      // A request that was aborted may end when the partition already has other slots.
      if (partition.isUnused && partitions.get(id) === partition) partitions.delete(id);
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
