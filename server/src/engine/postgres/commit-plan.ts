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
  expected: Check["expected"] | undefined;
  write: "put" | "delete" | undefined;
  value: Uint8Array;
  /** Its place among the puts of the write. */
  putIndex: number;
}

/** The keys of one partition, in the order of their bytes. */
export interface PlannedPartition {
  readonly partition: Buffer;
  readonly keys: readonly PlannedKey[];
  /** Existing rows in key order, as runs that take the same lock: the order is that of all keys. */
  readonly locks: readonly LockRun[];
  /** Must be present, perhaps at a version. */
  readonly checked: readonly PlannedKey[];
  /** What is put or claimed, in key order, as runs of one statement each. */
  readonly inserts: readonly InsertRun[];
  readonly deletes: readonly PlannedKey[];
}

export type LockStrength = "present" | "checked" | "written";

export interface LockRun {
  readonly strength: LockStrength;
  readonly keys: readonly PlannedKey[];
}

export interface InsertRun {
  /**
   * The keys must be absent, and those that are not put are inserted all the same and deleted again;
   * else they may be there, or are known to be.
   */
  readonly mustBeAbsent: boolean;
  readonly keys: readonly PlannedKey[];
}

/** Partitions in the order of their bytes. */
export interface CommitPlan {
  readonly write: AtomicWrite;
  readonly partitions: readonly PlannedPartition[];
  /** Two checks of one key contradict each other: one of them fails whatever is there. */
  readonly isContradictory: boolean;
}

/** More runs than this are not worth their statements. */
const LOCK_RUNS_MAX = 4;
const INSERT_RUNS_MAX = 8;
const EMPTY = Buffer.alloc(0);

/** Sorts what is to be done by partition and key. */
export function planCommit(write: AtomicWrite): CommitPlan {
  const byKey = new Map<string, PlannedKey>();
  let isContradictory = false;
  for (const { key, expected } of write.checks) {
    const planned = plannedKey(byKey, key);
    const merged = mergeExpected(planned.expected, expected);
    if (merged === undefined) isContradictory = true;
    else planned.expected = merged;
  }
  for (const [putIndex, { key, value }] of write.puts.entries()) {
    const planned = plannedKey(byKey, key);
    planned.write = "put";
    planned.value = value;
    planned.putIndex = putIndex;
  }
  for (const key of write.deletes) plannedKey(byKey, key).write = "delete";

  const byPartition = new Map<string, PlannedKey[]>();
  for (const planned of byKey.values()) {
    const id = planned.partition.toString("latin1");
    const keys = byPartition.get(id);
    if (keys) keys.push(planned);
    else byPartition.set(id, [planned]);
  }
  const partitions = [...byPartition.values()].map(planPartition);
  partitions.sort((a, b) => Buffer.compare(a.partition, b.partition));
  return { write, partitions, isContradictory };
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
    putIndex: -1,
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
    keys,
    locks: planLocks(keys),
    checked: keys.filter(isCheckedPresent),
    inserts: planInserts(keys),
    deletes: keys.filter((key) => key.write === "delete" || isClaimOnly(key)),
  };
}

/** Rows are locked in key order, so that two commits never wait for each other in a circle. */
function planLocks(keys: readonly PlannedKey[]): readonly LockRun[] {
  const runs = runsOf(keys, lockStrength);
  if (runs.length > LOCK_RUNS_MAX) return [{ strength: "written", keys }];
  return runs.map(({ kind, keys }) => ({ strength: kind, keys }));
}

function lockStrength({ write, expected }: PlannedKey): LockStrength {
  if (write !== undefined || expected === "absent") return "written";
  return expected === "present" ? "present" : "checked";
}

/** Keys that are not there cannot be locked: they are claimed in key order, for the same reason. */
function planInserts(keys: readonly PlannedKey[]): readonly InsertRun[] {
  const inserted = keys.filter(({ write, expected }) => write === "put" || expected === "absent");
  const toRun = ({ kind, keys }: { kind: boolean; keys: readonly PlannedKey[] }): InsertRun => ({
    mustBeAbsent: kind,
    keys,
  });
  const runs = runsOf(inserted, mustBeAbsent);
  if (runs.length <= INSERT_RUNS_MAX) return runs.map(toRun);
  return [true, false].map((kind) =>
    toRun({ kind, keys: inserted.filter((key) => mustBeAbsent(key) === kind) }),
  );
}

function mustBeAbsent({ expected }: PlannedKey): boolean {
  return expected === "absent";
}

function isCheckedPresent({ expected }: PlannedKey): boolean {
  return expected !== undefined && expected !== "absent";
}

function isClaimOnly({ write, expected }: PlannedKey): boolean {
  return expected === "absent" && write !== "put";
}

/** Neighbours of one kind, together. */
function runsOf<Kind>(
  keys: readonly PlannedKey[],
  kindOf: (key: PlannedKey) => Kind,
): { kind: Kind; keys: PlannedKey[] }[] {
  const runs: { kind: Kind; keys: PlannedKey[] }[] = [];
  for (const key of keys) {
    const kind = kindOf(key);
    const last = runs.at(-1);
    if (last?.kind === kind) last.keys.push(key);
    else runs.push({ kind, keys: [key] });
  }
  return runs;
}
