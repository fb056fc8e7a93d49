import type { HeatHistory } from "@rowhouse/server/insight/partition-load";
import { adviseOn } from "./advice.ts";
import { sampleOf } from "./advisor-screen.tsx";
import { loadOf } from "./heat-data.ts";
import { insight, session } from "./session.ts";

/** What happens to a table, as far as the server watched. */
export interface TableLoad {
  /** Entities a second that were read and written in the last minute. */
  readonly rate: number;
  /** The partition with the most of it, and its share. */
  readonly hottest: { readonly partitionKey: string; readonly share: number } | undefined;
  /** Queries across partitions, and how many entities they read. */
  readonly scansToday: number;
  readonly scannedToday: number;
}

const NOW_MS = 60_000;

/**
 * The load of all tables, by name.
 * @throws ServerError
 */
export async function readLoads(now: number): Promise<ReadonlyMap<string, TableLoad>> {
  const answer = await insight("heat");
  const { parts } = (await answer.json()) as { readonly parts: readonly HeatHistory[] };
  return loadsOf(parts, now);
}

/** @param now milliseconds since 1970; a day begins at midnight, here */
export function loadsOf(
  parts: readonly HeatHistory[],
  now: number,
): ReadonlyMap<string, TableLoad> {
  const { load, scanned } = loadOf(parts, "both", "");
  const recent = sumOf(load, now - NOW_MS);
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const today = sumOf(scanned, midnight);
  const scans = sumOf(
    parts.flatMap((part) => part.scans.map(({ end, queries }) => ({ end, entities: queries }))),
    midnight,
  );
  const loads = new Map<string, TableLoad>();
  const of = (table: string): TableLoad =>
    loads.get(table) ?? {
      ...{ rate: 0, hottest: undefined },
      scansToday: scans.get(table) ?? 0,
      scannedToday: today.get(table) ?? 0,
    };
  for (const [table, entities] of sumOf(scanned, now - NOW_MS))
    loads.set(table, { ...of(table), rate: (1000 * entities) / NOW_MS });
  for (const table of today.keys()) loads.set(table, of(table));
  // The busiest first: the first partition of a table is its hottest.
  for (const [name, entities] of [...recent].sort(([, a], [, b]) => b - a)) {
    const slash = name.indexOf("/");
    const table = name.slice(0, slash);
    const before = of(table);
    const hottest = before.hottest ?? { partitionKey: name.slice(slash + 1), share: entities };
    loads.set(table, { ...before, rate: before.rate + (1000 * entities) / NOW_MS, hottest });
  }
  return new Map(
    [...loads].map(([table, { hottest, ...rest }]) => {
      const share = hottest && (1000 * hottest.share) / NOW_MS / rest.rate;
      return [table, { ...rest, hottest: hottest && { ...hottest, share: share! } }];
    }),
  );
}

interface Counted {
  readonly end: number;
  readonly entities: Iterable<readonly [name: string, count: number]>;
}

/** Counts by name, in slots that end after a time. */
function sumOf(slots: readonly Counted[], from: number): Map<string, number> {
  const sums = new Map<string, number>();
  for (const { end, entities } of slots)
    if (end > from) for (const [name, n] of entities) sums.set(name, (sums.get(name) ?? 0) + n);
  return sums;
}

/**
 * How many findings the advisor has of each table.
 * @throws ServerError
 */
export async function readFindings(): Promise<ReadonlyMap<string, number>> {
  const account = session.value?.account ?? "";
  const text = await (await insight("recordings")).text();
  const { advice } = await adviseOn(text, account, sampleOf);
  const counts = new Map<string, number>();
  for (const { table } of advice.findings) {
    const name = table.slice(account.length + 1);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}
