import { type AtomicWrite, type Check, EngineError, type Key } from "../engine.ts";
import { keyBytes } from "../key-codec.ts";
import { identify, toBuffer } from "./get.ts";

/** Longest pair of keys: a B-tree entry of PostgreSQL takes 2,704 bytes, measured with its header. */
export const KEY_BYTES_MAX = 2688;

/** What a commit does with one key. */
export interface PlannedKey {
  readonly key: Key;
  readonly partition: Buffer;
  readonly sort: Buffer;
  /** What it must be now: as the caller asks, or as we suppose of a deletion without a check. */
  expected: Check["expected"] | undefined;
  write: "put" | "delete" | undefined;
  value: Uint8Array;
}

/**
 * How a commit takes hold of a key until it is over. "share present": it is there and stays, while
 * its value may change. "share": nothing about it changes. "own": nobody else reads it to write.
 * These need a row. "claim": there is none, and ours takes its place in the index. "put": either, as
 * the value is written.
 */
export type Hold = "share present" | "share" | "own" | "claim" | "put";

/** Neighbouring keys of one partition that are held alike: one statement. */
export interface Run {
  readonly hold: Hold;
  readonly keys: readonly PlannedKey[];
}

/** The statements of one partition in their order; keys in the order of their bytes. */
export interface PlannedPartition {
  readonly partition: Buffer;
  /** Every key is held, in key order, so that no two commits wait for each other in a circle. */
  readonly runs: readonly Run[];
  /** Rows that are held, to be put. */
  readonly updates: readonly PlannedKey[];
  /** Rows that are held, to be deleted; among them claims of keys that are only checked. */
  readonly deletes: readonly PlannedKey[];
}

/** Partitions in the order of their bytes. */
export interface CommitPlan {
  readonly write: AtomicWrite;
  readonly partitions: readonly PlannedPartition[];
  /** Two checks of one key contradict each other: one of them fails whatever is there. */
  readonly isContradictory: boolean;
}

/** What a read found: the version of each key by `identify`, undefined where there was no row. */
export type Sight = ReadonlyMap<string, number | undefined>;

/** More runs than this are not worth their statements. */
const RUNS_MAX = 8;
const EMPTY = Buffer.alloc(0);
const UNSEEN: Sight = new Map();

/**
 * Plans the statements of a commit.
 *
 * A deletion without a check does not say whether there is a row to hold or a place to claim. It is
 * supposed to find a row, unless `sight` says otherwise; a wrong guess fails the attempt. To leave it
 * open would tear commits apart: of two rows that a rival puts meanwhile, one would be missed and the
 * other deleted.
 */
export function planCommit(write: AtomicWrite, sight: Sight = UNSEEN): CommitPlan {
  const byKey = new Map<string, PlannedKey>();
  let isContradictory = false;
  for (const { key, expected } of write.checks) {
    const planned = plannedKey(byKey, key);
    const merged = mergeExpected(planned.expected, expected);
    if (merged === undefined) isContradictory = true;
    else planned.expected = merged;
  }
  for (const { key, value } of write.puts) {
    const planned = plannedKey(byKey, key);
    planned.write = "put";
    planned.value = value;
  }
  for (const key of write.deletes) plannedKey(byKey, key).write = "delete";

  const byPartition = new Map<string, PlannedKey[]>();
  for (const [id, planned] of byKey) {
    if (planned.write === "delete" && planned.expected === undefined) {
      planned.expected = sight.has(id) && sight.get(id) === undefined ? "absent" : "present";
    }
    const partitionId = planned.partition.toString("latin1");
    const keys = byPartition.get(partitionId);
    if (keys) keys.push(planned);
    else byPartition.set(partitionId, [planned]);
  }
  const partitions = [...byPartition.values()].map(planPartition);
  partitions.sort((a, b) => Buffer.compare(a.partition, b.partition));
  return { write, partitions, isContradictory };
}

/**
 * The write with its checks for presence made checks for the version that was seen, for servers where
 * a row is compared later than it is locked: one that comes in between would pass unlocked. A version
 * that was there before the lock cannot come in between.
 */
export function pinVersions(write: AtomicWrite, sight: Sight): AtomicWrite {
  const seen = ({ partition, sort }: Key) => sight.get(identify(partition, sort));
  const checks = write.checks.map(
    ({ key, expected }): Check => ({
      key,
      expected: expected === "present" ? (seen(key) ?? expected) : expected,
    }),
  );
  const deletions = write.deletes.map((key): Check => ({ key, expected: seen(key) ?? "absent" }));
  return { ...write, checks: [...checks, ...deletions] };
}

/** Throws for a key that cannot be stored, before anything is sent. */
export function assertStorable(key: Key): void {
  if (keyBytes(key) > KEY_BYTES_MAX) {
    throw new EngineError(
      "KeyTooLong",
      `A key of ${keyBytes(key)} bytes; at most ${KEY_BYTES_MAX} are allowed.`,
    );
  }
}

function plannedKey(byKey: Map<string, PlannedKey>, key: Key): PlannedKey {
  const id = identify(key.partition, key.sort);
  const known = byKey.get(id);
  if (known) return known;
  assertStorable(key);
  const planned: PlannedKey = {
    key,
    partition: toBuffer(key.partition),
    sort: toBuffer(key.sort),
    expected: undefined,
    write: undefined,
    value: EMPTY,
  };
  byKey.set(id, planned);
  return planned;
}

/** What both ask for; undefined when nothing can be both. */
function mergeExpected(
  known: Check["expected"] | undefined,
  added: Check["expected"],
): Check["expected"] | undefined {
  if (known === undefined || known === added) return added;
  if (known === "present" && added !== "absent") return added;
  if (added === "present" && known !== "absent") return known;
  return undefined;
}

function planPartition(keys: PlannedKey[]): PlannedPartition {
  keys.sort((a, b) => Buffer.compare(a.sort, b.sort));
  return {
    partition: keys[0]!.partition,
    runs: runsOf(keys),
    updates: keys.filter((key) => key.write === "put" && holdOf(key) === "own"),
    deletes: keys.filter((key) => key.write === "delete" || isClaimOnly(key)),
  };
}

function holdOf({ write, expected }: PlannedKey): Hold {
  if (expected === "absent") return "claim";
  if (expected === undefined) return "put";
  if (write !== undefined) return "own";
  // With "own" every writer of a table would wait for the flush of the one before, if each checked
  // the same row of the table.
  return expected === "present" ? "share present" : "share";
}

function isClaimOnly(key: PlannedKey): boolean {
  return holdOf(key) === "claim" && key.write !== "put";
}

function runsOf(keys: readonly PlannedKey[]): readonly Run[] {
  const runs: { hold: Hold; keys: PlannedKey[] }[] = [];
  for (const key of keys) {
    const hold = holdOf(key);
    const last = runs.at(-1);
    if (last?.hold === hold) last.keys.push(key);
    else runs.push({ hold, keys: [key] });
  }
  if (runs.length <= RUNS_MAX) return runs;
  // One run of each kind. Two such commits may wait for each other, and the server breaks the circle.
  const byHold = new Map<Hold, PlannedKey[]>();
  for (const { hold, keys } of runs) byHold.set(hold, [...(byHold.get(hold) ?? []), ...keys]);
  return [...byHold].map(([hold, keys]) => ({ hold, keys }));
}
