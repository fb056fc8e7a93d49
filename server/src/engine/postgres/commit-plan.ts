import { toBuffer } from "../../byte-views.ts";
import type { AtomicWrite, Check, Key } from "../engine.ts";
import { assertKeyFits } from "../engine-rules.ts";
import { equalBytes } from "../key-codec.ts";
import { identify } from "./get.ts";

/** Longest pair of keys: a B-tree entry of PostgreSQL holds 2,704 bytes, measured with its header. */
export const KEY_BYTES_MAX = 2688;

/** What a commit does with one key. */
export interface PlannedKey {
  readonly partition: Buffer;
  readonly sort: Buffer;
  /**
   * What the key must be now: as the caller requires, or as the plan supposes of a deletion without a check.
   */
  expected: Check["expected"] | undefined;
  write: "put" | "delete" | undefined;
  value: Uint8Array;
}

/**
 * How a commit holds a key until it is over. Three holds need a row. "share present": the row stays, while
 * its value may change. "share": nothing about the row changes. "own": no other commit may read it to write.
 * Without a row there is "claim": our row takes the key's place in the index. "put" holds the key in either
 * case, as the value is written.
 */
export type KeyHold = "share present" | "share" | "own" | "claim" | "put";

/** Neighbouring keys of one partition with the same hold: one statement. */
export interface Run {
  readonly hold: KeyHold;
  readonly keys: readonly PlannedKey[];
}

/** The statements of one partition in order; keys in the order of their bytes. */
export interface PlannedPartition {
  readonly partition: Buffer;
  /** Every key is held, in key order, so that no two commits wait for each other in a cycle. */
  readonly runs: readonly Run[];
  /** Held rows that are to be put. */
  readonly updates: readonly PlannedKey[];
  /** Held rows that are to be deleted, among them claims of keys that are only checked. */
  readonly deletes: readonly PlannedKey[];
}

/** Partitions in the order of their bytes. */
export interface CommitPlan {
  readonly write: AtomicWrite;
  readonly partitions: readonly PlannedPartition[];
  /** Two checks of one key contradict each other: one of them fails in any case. */
  readonly isContradictory: boolean;
}

/** The versions that a read found, by `identify` of the key; undefined where there was no row. */
export type SeenVersions = ReadonlyMap<string, number | undefined>;

/** More runs than this are not worth their statements. */
const RUNS_MAX = 8;
const EMPTY = Buffer.alloc(0);
const NOTHING_SEEN: SeenVersions = new Map();

/**
 * Plans the statements of a commit.
 *
 * A deletion without a check does not say whether there is a row to hold or a place to claim. The plan
 * supposes a row, unless `seen` shows none; a wrong guess fails the attempt. Leaving it open would break
 * atomicity: of two rows that a rival puts in the meantime, the commit would miss one and delete the other.
 */
export function planCommit(write: AtomicWrite, seen: SeenVersions = NOTHING_SEEN): CommitPlan {
  const all = write.checks.map(({ key, expected }) => planKey(key, { expected }));
  for (const [index, { key, value }] of write.puts.entries()) {
    // Most puts have the check of their key at the same index: no keys to compare then.
    const planned = write.checks[index]?.key === key ? all[index]! : planKey(key);
    if (planned !== all[index]) all.push(planned);
    planned.write = "put";
    planned.value = value;
  }
  for (const key of write.deletes) all.push(planKey(key, { write: "delete" }));
  all.sort(compare);

  let isContradictory = false;
  const byPartition: PlannedKey[][] = [];
  for (const planned of all) {
    const keys = byPartition.at(-1);
    const last = keys?.at(-1);
    if (!keys || !last || !isSame(last.partition, planned.partition)) {
      byPartition.push([planned]);
    } else if (!equalBytes(last.sort, planned.sort)) {
      keys.push(planned);
    } else if (!mergeInto(last, planned)) {
      isContradictory = true;
    }
  }
  const partitions = byPartition.map((keys) => {
    for (const planned of keys) suppose(planned, seen);
    return planPartition(keys);
  });
  return { write, partitions, isContradictory };
}

function planKey(
  key: Key,
  { expected, write }: Partial<Pick<PlannedKey, "expected" | "write">> = {},
): PlannedKey {
  assertKeyFits(key, KEY_BYTES_MAX);
  const { partition, sort } = key;
  return { partition: toBuffer(partition), sort: toBuffer(sort), expected, write, value: EMPTY };
}

function compare(a: PlannedKey, b: PlannedKey): number {
  if (a.partition === b.partition) return Buffer.compare(a.sort, b.sort);
  return Buffer.compare(a.partition, b.partition) || Buffer.compare(a.sort, b.sort);
}

/** Partitions of one commit are mostly the same object. */
function isSame(a: Buffer, b: Buffer): boolean {
  return a === b || equalBytes(a, b);
}

/** Merges the requirements of one key from two places; returns false if they contradict each other. */
function mergeInto(planned: PlannedKey, other: PlannedKey): boolean {
  if (other.write !== undefined) {
    planned.write = other.write;
    planned.value = other.value;
  }
  if (other.expected === undefined) return true;
  const merged = mergeExpected(planned.expected, other.expected);
  planned.expected = merged ?? planned.expected;
  return merged !== undefined;
}

function suppose(planned: PlannedKey, seen: SeenVersions): void {
  if (planned.write !== "delete" || planned.expected !== undefined) return;
  const id = identify(planned.partition, planned.sort);
  planned.expected = seen.has(id) && seen.get(id) === undefined ? "absent" : "present";
}

/** A requirement that meets both; undefined if none can. */
function mergeExpected(
  known: Check["expected"] | undefined,
  added: Check["expected"],
): Check["expected"] | undefined {
  if (known === undefined || known === added) return added;
  if (known === "present" && added !== "absent") return added;
  if (added === "present" && known !== "absent") return known;
  return undefined;
}

function planPartition(keys: readonly PlannedKey[]): PlannedPartition {
  return {
    partition: keys[0]!.partition,
    runs: runsOf(keys),
    updates: keys.filter((key) => key.write === "put" && holdOf(key) === "own"),
    deletes: keys.filter((key) => key.write === "delete" || isClaimOnly(key)),
  };
}

function holdOf({ write, expected }: PlannedKey): KeyHold {
  if (expected === "absent") return "claim";
  if (expected === undefined) return "put";
  if (write !== undefined) return "own";
  // With "own" every writer of a table would wait for the previous one's flush, since each checks the same
  // row of the table.
  return expected === "present" ? "share present" : "share";
}

function isClaimOnly(key: PlannedKey): boolean {
  return holdOf(key) === "claim" && key.write !== "put";
}

function runsOf(keys: readonly PlannedKey[]): readonly Run[] {
  const runs: { hold: KeyHold; keys: PlannedKey[] }[] = [];
  for (const key of keys) {
    const hold = holdOf(key);
    const last = runs.at(-1);
    if (last?.hold === hold) last.keys.push(key);
    else runs.push({ hold, keys: [key] });
  }
  if (runs.length <= RUNS_MAX) return runs;
  // One run for each hold. Two such commits may wait for each other; the server then breaks the deadlock.
  const holds = new Set(runs.map(({ hold }) => hold));
  return [...holds].map((hold) => ({ hold, keys: keys.filter((key) => holdOf(key) === hold) }));
}
