import { type ProfileName, profileOf } from "../ports/profile.ts";
import { type Clock, type Random, systemClock } from "../store/clock.ts";
import type { Computed } from "../store/session.ts";
import { checkedTwice } from "./checked-twice.ts";
import { FakeClock, seededRandom } from "./fake-clock.ts";
import { MemoryBlobs } from "./memory-blobs.ts";
import { MemoryQueues } from "./memory-queues.ts";
import { MemoryTables, type MemoryTablesOptions } from "./memory-tables.ts";

export interface MemoryOptions extends Partial<Omit<MemoryTablesOptions, "profile" | "clock">> {
  /**
   * Default: a clock that only tests and sleeping code move. "real" is the system's, for a program that runs
   * without a server.
   */
  readonly clock?: FakeClock | "real";
  /** Default: "rowhouse". */
  readonly profile?: ProfileName;
  /** The seed for everything random. Default: 1. */
  readonly seed?: number;
  /** The most blocks in an append blob. Default: 50,000. */
  readonly blocksMax?: number;
}

/** Everything `connect` needs, in memory: `connect(memory())`. */
export interface Memory<Time extends Clock = FakeClock> {
  readonly tables: MemoryTables;
  readonly queues: MemoryQueues;
  readonly blobs: MemoryBlobs;
  readonly clock: Time;
  readonly random: Random;
  readonly computed: Computed;
  /** It begins empty, so no index is older than it. */
  readonly indexStates: "trusted";
}

/** New, empty endpoints that share one clock. @throws TypeError for an unknown profile. */
export function memory(options: MemoryOptions & { readonly clock: "real" }): Memory<Clock>;
export function memory(options?: MemoryOptions & { readonly clock?: FakeClock }): Memory;
export function memory(options: MemoryOptions = {}): Memory<Clock> {
  const clock = options.clock === "real" ? systemClock : (options.clock ?? new FakeClock());
  const random = options.random ?? seededRandom(options.seed ?? 1);
  const { profile, clock: _, ...rest } = options;
  return {
    computed: checkedTwice,
    indexStates: "trusted",
    clock,
    random,
    tables: new MemoryTables({ ...rest, clock, random, profile: profileOf(profile ?? "rowhouse") }),
    queues: new MemoryQueues(clock),
    blobs: new MemoryBlobs({ clock, ...(options.blocksMax && { blocksMax: options.blocksMax }) }),
  };
}
