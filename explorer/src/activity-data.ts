import type { ActivitySlot } from "@rowhouse/server/insight/activity";

/** A value over time; a time without a value has no step. */
export interface Step {
  readonly begin: number;
  readonly end: number;
  readonly value: number;
}

export interface Series {
  readonly name: string;
  readonly steps: readonly Step[];
}

/** @param value undefined where there is none, such as a duration without requests */
export function seriesOf(
  name: string,
  slots: readonly ActivitySlot[],
  value: (slot: ActivitySlot, seconds: number) => number | undefined,
): Series {
  return {
    name,
    steps: slots.flatMap((slot) => {
      const found = value(slot, (slot.end - slot.begin) / 1000);
      return found === undefined ? [] : [{ begin: slot.begin, end: slot.end, value: found }];
    }),
  };
}

/** Where a share of the requests was answered, in milliseconds; undefined without requests. */
export function quantileOf(
  { durations }: Pick<ActivitySlot, "durations">,
  share: number,
): number | undefined {
  const all = durations.reduce((sum, count) => sum + count, 0);
  if (all === 0) return undefined;
  let left = share * all;
  for (let step = 0; step < durations.length; step++) {
    const count = durations[step]!;
    if (left <= count && count > 0) return durationOf(step + left / count) / 1000;
    left -= count;
  }
  return durationOf(durations.length) / 1000;
}

/** As the server counts: four steps for each doubling of the microseconds. */
function durationOf(step: number): number {
  return 2 ** (step / 4);
}

/** All slots of a time as one. */
export function totalOf(slots: readonly ActivitySlot[]): ActivitySlot | undefined {
  const [first] = slots;
  if (!first) return undefined;
  const sum = (of: (slot: ActivitySlot) => number) =>
    slots.reduce((all, slot) => all + of(slot), 0);
  return {
    begin: first.begin,
    end: slots.at(-1)!.end,
    requests: sum((slot) => slot.requests),
    operations: countsOf(slots.map(({ operations }) => operations)),
    errors: countsOf(slots.map(({ errors }) => errors)),
    durations: first.durations.map((_, i) => sum((slot) => slot.durations[i] ?? 0)),
    entitiesRead: sum((slot) => slot.entitiesRead),
    entitiesReturned: sum((slot) => slot.entitiesReturned),
    entitiesWritten: sum((slot) => slot.entitiesWritten),
    flushes: sum((slot) => slot.flushes),
    commits: sum((slot) => slot.commits),
  };
}

function countsOf(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const counts = new Map<string, number>();
  for (const each of all)
    for (const [name, count] of Object.entries(each))
      counts.set(name, (counts.get(name) ?? 0) + count);
  return Object.fromEntries(counts);
}

/** A path of steps in a box of 1000 × 100, with a gap where there is no value. */
export function pathOf(steps: readonly Step[], from: number, to: number, most: number): string {
  const x = (at: number) => Math.round((10_000 * (at - from)) / (to - from)) / 10;
  const y = (value: number) => Math.round(1000 - (1000 * value) / most) / 10;
  let path = "";
  let end = Number.NEGATIVE_INFINITY;
  for (const step of steps) {
    if (step.end <= from || step.begin >= to) continue;
    const begin = Math.max(step.begin, from);
    path += `${begin === end ? "V" : `M${x(begin)} `}${y(step.value)}H${x(Math.min(step.end, to))}`;
    end = step.end;
  }
  return path;
}

export function milliseconds(value: number | undefined): string {
  if (value === undefined) return "—";
  if (value < 1) return `${value.toFixed(2)} ms`;
  return value < 100 ? `${value.toFixed(1)} ms` : `${Math.round(value).toLocaleString("en-US")} ms`;
}
