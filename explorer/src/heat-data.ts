import type { NamedLoad } from "@rowhouse/server/insight/heat-map";
import type { HeatHistory } from "@rowhouse/server/insight/partition-load";

/** Entities by `table/partition key`, between two times. */
export interface LoadSlot {
  readonly begin: number;
  end: number;
  readonly entities: Map<string, number>;
}

/** Rows of the map: a partition, or a range of them. */
export interface HeatRow {
  readonly first: string;
  readonly last: string;
  readonly names: number;
}

/** Where time or keys are cut. */
export interface Window {
  readonly from: number;
  readonly to: number;
}

export interface Heat {
  readonly rows: readonly HeatRow[];
  /** Each column lasts `stepMs`, the first one from `from`. */
  readonly from: number;
  readonly stepMs: number;
  readonly columns: number;
  /** Entities a second, by row and then column. */
  readonly rates: Float64Array;
  /** Of the busiest partition of each cell: what the cloud's target limits. */
  readonly peaks: Float64Array;
  /** Of queries across partitions, by column. */
  readonly scanned: Float64Array;
}

/** Entities a second that the cloud serves of one partition. */
export const PARTITION_TARGET = 2000;

/** What happened in the same slots is added: by the processes of a server, and read to written. */
export function joinLoads(loads: readonly (readonly NamedLoad[])[]): LoadSlot[] {
  const slots = new Map<number, LoadSlot>();
  for (const { begin, end, entities } of loads.flat()) {
    const slot = slots.get(begin) ?? { begin, end, entities: new Map<string, number>() };
    slots.set(begin, slot);
    slot.end = Math.max(slot.end, end);
    for (const [name, count] of entities)
      slot.entities.set(name, (slot.entities.get(name) ?? 0) + count);
  }
  return [...slots.values()].sort((a, b) => a.begin - b.begin);
}

export type HeatKind = "both" | "read" | "written";

/** The load of a table's partitions, by partition key; of all tables, if it is "", by `table/partition key`. */
export function loadOf(
  parts: readonly Omit<HeatHistory, "scans">[],
  kind: HeatKind,
  table: string,
): { readonly load: LoadSlot[]; readonly scanned: LoadSlot[] } {
  const kinds = kind === "both" ? (["read", "written"] as const) : [kind];
  const prefix = table === "" ? "" : `${table}/`;
  const mine = (loads: readonly NamedLoad[]) =>
    loads.map((each) => ({
      ...each,
      entities: each.entities
        .filter(([name]) => name.startsWith(prefix))
        .map(([name, count]) => [name.slice(prefix.length), count] as const),
    }));
  const scanned = parts.map((part) =>
    part.scanned.map((each) => ({
      ...each,
      entities: each.entities.filter(([name]) => table === "" || name === table),
    })),
  );
  return {
    load: joinLoads(parts.flatMap((part) => kinds.map((each) => mine(part[each])))),
    scanned: kind === "written" ? [] : joinLoads(scanned),
  };
}

/** Steps of time that a column may last, as the server keeps them. */
const STEPS = [10_000, 60_000, 600_000, 3_600_000, 14_400_000];
const COLUMNS_MAX = 130;

/** The shortest step of which few enough fill a window, and the window in whole steps. */
export function columnsOf({ from, to }: Window): { from: number; stepMs: number; columns: number } {
  const stepMs = STEPS.find((step) => (to - from) / step <= COLUMNS_MAX) ?? STEPS.at(-1)!;
  const first = Math.floor(from / stepMs) * stepMs;
  return { from: first, stepMs, columns: Math.max(1, Math.ceil((to - first) / stepMs)) };
}

const ROWS_MAX = 48;

/**
 * A row for each partition, in the order of keys. Where there are too many, the busiest keep one of their own, and others
 * share one with their neighbors.
 */
export function rowsOf(totals: ReadonlyMap<string, number>, rowsMax = ROWS_MAX): HeatRow[] {
  const names = [...totals.keys()].sort((a, b) => (a < b ? -1 : 1));
  if (names.length <= rowsMax) return names.map((name) => ({ first: name, last: name, names: 1 }));
  const third = Math.floor(rowsMax / 3);
  const busiest = [...totals].sort((a, b) => b[1] - a[1]).slice(0, third);
  const hot = new Set(busiest.map(([name]) => name));
  const shared = Math.ceil((names.length - third) / third);
  const rows: HeatRow[] = [];
  for (const name of names) {
    const last = rows.at(-1);
    const joins = last && !hot.has(name) && !hot.has(last.first) && last.names < shared;
    if (joins) rows[rows.length - 1] = { first: last.first, last: name, names: last.names + 1 };
    else rows.push({ first: name, last: name, names: 1 });
  }
  return rows;
}

/** @param keys the first and last name that are shown; undefined for all */
export function drawHeat(
  { load, scanned }: { readonly load: readonly LoadSlot[]; readonly scanned: readonly LoadSlot[] },
  time: Window,
  keys: readonly [first: string, last: string] | undefined,
): Heat {
  const grid = columnsOf(time);
  const to = grid.from + grid.columns * grid.stepMs;
  const isInTime = (slot: LoadSlot) => slot.end > grid.from && slot.begin < to;
  const slots = load.filter(isInTime);
  const totals = new Map<string, number>();
  for (const { entities } of slots)
    for (const [name, count] of entities)
      if (!keys || (name >= keys[0] && name <= keys[1]))
        totals.set(name, (totals.get(name) ?? 0) + count);
  const rows = rowsOf(totals);
  const rowOf = new Map<string, number>();
  let row = 0;
  for (const name of [...totals.keys()].sort((a, b) => (a < b ? -1 : 1))) {
    while (name > rows[row]!.last) row++;
    rowOf.set(name, row);
  }
  const { columns } = grid;
  const rates = new Float64Array(rows.length * columns);
  const peaks = new Float64Array(rows.length * columns);
  for (const slot of slots) {
    const seconds = (slot.end - slot.begin) / 1000;
    const sums = new Map<number, number>();
    const most = new Map<number, number>();
    for (const [name, count] of slot.entities) {
      const at = rowOf.get(name);
      if (at === undefined) continue;
      sums.set(at, (sums.get(at) ?? 0) + count / seconds);
      most.set(at, Math.max(most.get(at) ?? 0, count / seconds));
    }
    for (const column of columnsIn(slot, grid))
      for (const [at, rate] of sums) {
        const cell = at * columns + column;
        // A column shows its worst moment: an average would hide it.
        rates[cell] = Math.max(rates[cell]!, rate);
        peaks[cell] = Math.max(peaks[cell]!, most.get(at)!);
      }
  }
  const across = new Float64Array(columns);
  for (const slot of scanned.filter(isInTime)) {
    const sum = [...slot.entities.values()].reduce((all, count) => all + count, 0);
    for (const column of columnsIn(slot, grid))
      across[column] = Math.max(across[column]!, (1000 * sum) / (slot.end - slot.begin));
  }
  return { rows, ...grid, rates, peaks, scanned: across };
}

function* columnsIn(
  { begin, end }: LoadSlot,
  grid: { readonly from: number; readonly stepMs: number; readonly columns: number },
): Iterable<number> {
  const first = Math.max(0, Math.floor((begin - grid.from) / grid.stepMs));
  const last = Math.min(grid.columns - 1, Math.ceil((end - grid.from) / grid.stepMs) - 1);
  for (let column = first; column <= last; column++) yield column;
}

/** From 0 to 1, in steps of equal ratio. @param most the rate that is 1 */
export function warmthOf(rate: number, most: number): number {
  return rate <= 0 ? 0 : Math.min(1, Math.log1p(rate) / Math.log1p(Math.max(most, 1)));
}

export interface Diagnosis {
  readonly tone: "free" | "cheap" | "fair" | "dear";
  readonly text: string;
}

/** What is wrong with the load, in a sentence; the worst first. Names are shown by `print`. */
export function diagnose(
  { load, scanned }: { readonly load: readonly LoadSlot[]; readonly scanned: readonly LoadSlot[] },
  written: readonly LoadSlot[],
  time: Window,
  print: (name: string) => string,
): Diagnosis[] {
  const isInTime = (slot: LoadSlot) => slot.end > time.from && slot.begin < time.to;
  const slots = load.filter(isInTime);
  const total = sumOf(slots);
  const across = sumOf(scanned.filter(isInTime));
  if (total + across === 0) return [];
  const found: Diagnosis[] = [];
  const peak = peakOf(slots);
  if (peak && peak.rate > PARTITION_TARGET / 2) {
    const seconds = Math.round(peak.overMs / 1000);
    const isOver = peak.rate > PARTITION_TARGET;
    found.push({
      tone: isOver ? "dear" : "fair",
      text: `${print(peak.name)} had ≈ ${rounded(peak.rate)} entities/s at ${clockTime(peak.at)}${isOver ? `, and was for ${seconds} s above` : ": near"} the ${rounded(PARTITION_TARGET)}/s that the cloud serves of one partition.`,
    });
  }
  if (isAppended(written.filter(isInTime)))
    found.push({
      tone: "fair",
      text: "New entities always go to the end of the keys (the diagonal): one partition takes all writes, and the next one after it.",
    });
  if (across > (total + across) / 4)
    found.push({
      tone: "fair",
      text: `Queries across partitions read ${Math.round((100 * across) / (total + across))} % of all entities (the band at the bottom): no key answers them.`,
    });
  if (found.length > 0 || !peak) return found;
  return [
    {
      tone: "free",
      text: `Nothing comes near the cloud's limits. The busiest is ${print(peak.name)} with ≈ ${rounded(peak.rate)} entities/s at ${clockTime(peak.at)}, of ${rounded(PARTITION_TARGET)}.`,
    },
  ];
}

function peakOf(
  slots: readonly LoadSlot[],
): { name: string; rate: number; at: number; overMs: number } | undefined {
  let peak: { name: string; rate: number; at: number } | undefined;
  for (const { begin, end, entities } of slots)
    for (const [name, count] of entities) {
      const rate = (1000 * count) / (end - begin);
      if (!peak || rate > peak.rate) peak = { name, rate, at: begin };
    }
  if (!peak) return undefined;
  const { name } = peak;
  const overMs = slots.reduce((sum, { begin, end, entities }) => {
    const rate = (1000 * (entities.get(name) ?? 0)) / (end - begin);
    return rate > PARTITION_TARGET ? sum + end - begin : sum;
  }, 0);
  return { ...peak, overMs };
}

const APPENDED_MIN = 6;

/** Whether the partition that takes most of the writes is, time after time, one further down. */
function isAppended(written: readonly LoadSlot[]): boolean {
  const leaders = written.flatMap(({ entities }) => {
    const [leader] = [...entities].sort((a, b) => b[1] - a[1]);
    const all = [...entities.values()].reduce((sum, count) => sum + count, 0);
    return leader && leader[1] > all / 2 ? [leader[0]] : [];
  });
  const distinct = leaders.filter((name, i) => name !== leaders[i - 1]);
  const rising = distinct.filter((name, i) => i > 0 && name > distinct[i - 1]!).length;
  return distinct.length >= APPENDED_MIN && rising >= 0.85 * (distinct.length - 1);
}

function sumOf(slots: readonly LoadSlot[]): number {
  return slots.reduce(
    (sum, { entities }) => sum + [...entities.values()].reduce((all, count) => all + count, 0),
    0,
  );
}

export function rounded(rate: number): string {
  if (rate > 0 && rate < 10) return rate.toFixed(1);
  return Math.round(rate).toLocaleString("en-US");
}

export function clockTime(at: number, hasSeconds = true): string {
  const time = new Date(at).toLocaleTimeString("en-GB");
  return hasSeconds ? time : time.slice(0, 5);
}

/** What a map looks like: a table where one partition is too hot for a minute, and logs are appended. */
export function exampleHistory(now: number): HeatHistory {
  const begin = now - (now % 10_000) - 900_000;
  const slots = Array.from({ length: 90 }, (_, i) => i);
  const times = (i: number) => ({ begin: begin + i * 10_000, end: begin + (i + 1) * 10_000 });
  return {
    read: slots.map((i) => ({
      ...times(i),
      entities: Array.from({ length: 12 }, (_, p) => {
        const isHot = p === 7 && i > 50 && i < 58;
        const wave = 400 + 350 * Math.sin(i / 9 + p * 2.4);
        return [`Orders/region-${String(p).padStart(2, "0")}`, isHot ? 26_000 : wave] as const;
      }),
    })),
    written: slots.map((i) => ({
      ...times(i),
      entities: [[`Orders/day-${String(Math.floor(i / 8)).padStart(2, "0")}`, 3000] as const],
    })),
    scanned: slots.flatMap((i) =>
      i % 30 > 2 ? [] : [{ ...times(i), entities: [["Orders", 9000] as const] }],
    ),
    scans: [],
  };
}
