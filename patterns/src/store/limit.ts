import { PortError } from "../ports/port-error.ts";
import type { Clock } from "./clock.ts";
import { type Layer, mutationsOf, type PortCall } from "./layer.ts";

export interface LimitOptions {
  /** Requests under way at once. */
  readonly account?: number;
  /** Requests under way at once to one partition. */
  readonly partition?: number;
}

const RAMP_START = 8;
const RAMP_STEP_MS = 2000;
const QUIET_STEP_MS = 1000;

/**
 * Slots given out first come, first served. The number starts low and doubles while all is well,
 * because spikes are throttled until the service has rebalanced; it halves when the service pushes
 * back, then grows by one each quiet second.
 */
export class Slots {
  readonly #max: number;
  readonly #clock: Clock;
  readonly #waiting: (() => void)[] = [];
  #open: number;
  #taken = 0;
  #changedAt: number;
  #ramping = true;

  constructor(max: number, clock: Clock) {
    this.#max = max;
    this.#clock = clock;
    this.#open = Math.min(max, RAMP_START);
    this.#changedAt = clock.now();
  }

  /** A signal ends the wait for a slot, not the work. @throws the signal's reason, before `work` began. */
  async run<Result>(work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    signal?.throwIfAborted();
    if (this.#taken >= this.#width()) await this.#turn(signal);
    else this.#taken++;
    try {
      signal?.throwIfAborted();
      return await work();
    } catch (error) {
      if (isPushback(error)) this.#narrow();
      throw error;
    } finally {
      this.#taken--;
      while (this.#taken < this.#width() && this.#waiting.length > 0) {
        this.#taken++;
        this.#waiting.shift()!();
      }
    }
  }

  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const go = () => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(go), 1);
        reject(signal?.reason);
      };
      this.#waiting.push(go);
      signal?.addEventListener("abort", leave, { once: true });
    });
  }

  #width(): number {
    const step = this.#ramping ? RAMP_STEP_MS : QUIET_STEP_MS;
    for (
      ;
      this.#open < this.#max && this.#clock.now() - this.#changedAt >= step;
      this.#changedAt += step
    ) {
      this.#open = Math.min(this.#max, this.#ramping ? this.#open * 2 : this.#open + 1);
    }
    return this.#open;
  }

  #narrow(): void {
    this.#ramping = false;
    this.#open = Math.max(1, this.#open >> 1);
    this.#changedAt = this.#clock.now();
  }
}

function isPushback(error: unknown): boolean {
  if (!(error instanceof PortError)) return false;
  const { status, code } = error;
  return status === 503 || status === 429 || (status === 500 && code === "OperationTimedOut");
}

/**
 * The partition's slot first: whoever waits for a hot partition must not hold up the others. The layers it
 * makes, for one signal each, share the slots.
 */
export function limiter(
  clock: Clock,
  options: LimitOptions = {},
): (signal: AbortSignal | undefined) => Layer {
  const account = new Slots(options.account ?? 64, clock);
  const partitions = new Map<string, { readonly slots: Slots; users: number }>();
  return (signal) => async (call, send) => {
    const id = partitionOf(call);
    if (id === undefined) return account.run(send, signal);
    const partition = partitions.get(id) ?? {
      slots: new Slots(options.partition ?? 8, clock),
      users: 0,
    };
    partitions.set(id, partition);
    partition.users++;
    try {
      return await partition.slots.run(() => account.run(send, signal), signal);
    } finally {
      if (--partition.users === 0) partitions.delete(id);
    }
  };
}

/** Point reads and commits say where they go. */
function partitionOf(call: PortCall): string | undefined {
  const key = mutationsOf(call)[0] ?? call.args[1];
  if (call.port !== "tables" || typeof key !== "object" || key === null) return undefined;
  return "partitionKey" in key ? `${call.args[0]}/${key.partitionKey}` : undefined;
}

/** Point queries that a pattern sends side by side for one call of its user. */
export const LOOKUPS_AT_ONCE = 16;

/**
 * Runs `work` over the items, at most `width` at a time; results keep the order of the items. After a failure
 * it begins no other, and waits for those under way.
 */
export async function mapBounded<Item, Result>(
  items: readonly Item[],
  width: number,
  work: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = new Array(items.length);
  let next = 0;
  let failure: { readonly error: unknown } | undefined;
  const worker = async () => {
    for (let i = next++; i < items.length && !failure; i = next++) {
      try {
        results[i] = await work(items[i]!, i);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, worker));
  if (failure) throw failure.error;
  return results;
}
