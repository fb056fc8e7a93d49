import type { RequestRecord } from "../wire/observer.ts";
import { LATE_MS_MAX } from "./decay.ts";
import type { Insight, QueryCost, QueryFacts, WriteFacts } from "./insight.ts";
import { LAYERS, LayeredSlots, type TimeSlot } from "./layered-slots.ts";
import { NotableQueries, type NotableQuery } from "./notable-queries.ts";

/** What an account's clients did in a time. */
export interface ActivitySlot extends TimeSlot {
  requests: number;
  /** Requests by operation: of a bounded number of names. */
  operations: Record<string, number>;
  /** Refusals by error code. */
  errors: Record<string, number>;
  /** Requests by duration: `durations[i]` took from `durationOf(i)` to `durationOf(i + 1)` microseconds. */
  durations: number[];
  entitiesRead: number;
  entitiesReturned: number;
  entitiesWritten: number;
  /** Of the whole server, whose accounts share them. */
  flushes: number;
  commits: number;
}

export interface ActivityReport {
  /** Milliseconds since 1970 since which it is counted. */
  readonly since: number;
  readonly slots: readonly ActivitySlot[];
  /** The queries of the last hour whose pages took longest, and read most: one of each kind. */
  readonly slowest: readonly NotableQuery[];
  readonly widest: readonly NotableQuery[];
}

/** Counts that only grow, of an engine that has such. */
export type CountFlushes = () => { readonly flushes: number; readonly commits: number } | undefined;

const STEPS_PER_DOUBLING = 4;
/** Up to half a minute. */
const DURATIONS = 100;

/** Where a step of the durations begins, in microseconds. */
export function durationOf(step: number): number {
  return 2 ** (step / STEPS_PER_DOUBLING);
}

/** Rates and durations of an account's requests, in the layers of `LAYERS`: at most a MiB. */
export class Activity implements Partial<Insight> {
  readonly #since: number;
  readonly #countFlushes: CountFlushes;
  readonly #slots = new LayeredSlots<ActivitySlot>(LAYERS, joinSlots);
  readonly #slowest = new NotableQueries((cost) => cost.engineMicros);
  readonly #widest = new NotableQueries((cost) => cost.entitiesRead);
  #current: ActivitySlot = emptySlot(Number.NEGATIVE_INFINITY);
  #flushed: ReturnType<CountFlushes>;

  constructor(now: number, countFlushes: CountFlushes = () => undefined) {
    this.#since = now;
    this.#countFlushes = countFlushes;
    this.#flushed = countFlushes();
  }

  finished({ operation, errorCode, durationMs }: RequestRecord, now: number): void {
    const slot = this.#slotAt(now);
    const step = Math.floor(STEPS_PER_DOUBLING * Math.log2(Math.max(1, durationMs * 1000)));
    slot.requests++;
    slot.durations[Math.min(step, DURATIONS - 1)]!++;
    slot.operations[operation] = (slot.operations[operation] ?? 0) + 1;
    if (errorCode !== undefined) slot.errors[errorCode] = (slot.errors[errorCode] ?? 0) + 1;
  }

  queried(query: QueryFacts, cost: QueryCost): void {
    const slot = this.#slotAt(query.at);
    slot.entitiesRead += cost.entitiesRead;
    slot.entitiesReturned += cost.entitiesReturned;
    this.#slowest.offer(query, cost);
    this.#widest.offer(query, cost);
  }

  admitWrite({ at, mutations }: WriteFacts): void {
    this.#slotAt(at).entitiesWritten += mutations.length;
  }

  report(now: number): ActivityReport {
    this.#settleFlushes();
    return {
      since: this.#since,
      slots: this.#slots.all(),
      slowest: this.#slowest.list(now),
      widest: this.#widest.list(now),
    };
  }

  #slotAt(now: number): ActivitySlot {
    const { begin, end } = this.#current;
    const isSetBack = now < begin - LATE_MS_MAX;
    if (now < end && !isSetBack) return this.#current;
    // After the clock was set back, the recorded slots lie in the future.
    if (isSetBack) this.#slots.clear();
    this.#settleFlushes();
    this.#current = emptySlot(now - (now % LAYERS[0].slotMs));
    this.#slots.push(this.#current);
    return this.#current;
  }

  /** What was flushed since the last time counts for the slot that ends. */
  #settleFlushes(): void {
    const flushed = this.#countFlushes();
    this.#current.flushes += (flushed?.flushes ?? 0) - (this.#flushed?.flushes ?? 0);
    this.#current.commits += (flushed?.commits ?? 0) - (this.#flushed?.commits ?? 0);
    this.#flushed = flushed;
  }
}

function emptySlot(begin: number): ActivitySlot {
  return {
    ...{ begin, end: begin + LAYERS[0].slotMs, requests: 0, operations: {}, errors: {} },
    durations: new Array<number>(DURATIONS).fill(0),
    ...{ entitiesRead: 0, entitiesReturned: 0, entitiesWritten: 0, flushes: 0, commits: 0 },
  };
}

function joinSlots(into: ActivitySlot, from: ActivitySlot): void {
  into.requests += from.requests;
  into.entitiesRead += from.entitiesRead;
  into.entitiesReturned += from.entitiesReturned;
  into.entitiesWritten += from.entitiesWritten;
  into.flushes += from.flushes;
  into.commits += from.commits;
  for (let i = 0; i < DURATIONS; i++) into.durations[i]! += from.durations[i]!;
  addCounts(into.operations, from.operations);
  addCounts(into.errors, from.errors);
}

function addCounts(into: Record<string, number>, from: Record<string, number>): void {
  for (const [name, count] of Object.entries(from)) into[name] = (into[name] ?? 0) + count;
}

/** One report of several processes, whose slots begin at the same times; only the joined ones of old times may not. */
export function joinActivities(reports: readonly ActivityReport[]): ActivityReport {
  const [first, ...others] = reports;
  if (!first || others.length === 0)
    return first ?? { since: 0, slots: [], slowest: [], widest: [] };
  const slots = new Map<number, ActivitySlot>();
  for (const slot of reports.flatMap((each) => each.slots)) {
    const known = slots.get(slot.begin);
    if (!known) slots.set(slot.begin, structuredClone(slot));
    else {
      joinSlots(known, slot);
      known.end = Math.max(known.end, slot.end);
    }
  }
  const most = (of: "slowest" | "widest", by: "engineMicros" | "entitiesRead") =>
    reports.flatMap((each) => each[of]).sort((a, b) => b[by] - a[by]);
  return {
    since: Math.min(...reports.map(({ since }) => since)),
    slots: [...slots.values()].sort((a, b) => a.begin - b.begin),
    slowest: most("slowest", "engineMicros"),
    widest: most("widest", "entitiesRead"),
  };
}
