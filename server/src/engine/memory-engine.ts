import type { Awaitable } from "../awaitable.ts";
import { latin1 } from "../byte-views.ts";
import { type Clock, systemClock } from "../clock.ts";
import {
  type AtomicWrite,
  type Change,
  type CommitResult,
  type Engine,
  EngineError,
  type Entry,
  type Key,
  type KeyRange,
  PREMISE_FAILED,
  type Premise,
  type ScanEnd,
  type Supports,
  type Updated,
  type Visit,
} from "./engine.ts";
import { assertKeyFits, assertWrite, holds } from "./engine-rules.ts";
import { copyKey, joinKey, pairBytesMax } from "./key-codec.ts";
import { FLAT_KEY_BYTES_MAX } from "./lmdb/data-file.ts";
import { TimeSlice } from "./time-slice.ts";
import { VersionClock } from "./version-clock.ts";

/** As in the LMDB engine: every key that is legal in the services then fits here too. */
const KEY_BYTES_MAX = pairBytesMax(FLAT_KEY_BYTES_MAX);
const LEAF_ENTRIES_MAX = 256;

/** An entry and the flat key it is found by: a string of one byte per character, fast to compare. */
interface Stored extends Entry {
  readonly flat: string;
}

/**
 * A run of neighbouring entries. Once `generation` is past, scans may be reading it: copy it before a change.
 */
interface Leaf {
  generation: number;
  entries: Stored[];
}

/**
 * An engine that holds everything in memory: for tests and for `--inMemoryPersistence`.
 *
 * A map answers point reads; ordered leaves answer scans. Stored entries never change, and a scan begins a
 * new generation: a commit copies each leaf of an older generation before changing it, so the leaves that a
 * scan started with are its snapshot.
 */
export class MemoryEngine implements Engine {
  readonly name = "memory";
  readonly keyBytesMax = KEY_BYTES_MAX;
  readonly supports: Supports = {
    update: true,
    scanRanges: false,
    sharing: false,
    sealing: false,
    freePremises: true,
  };
  readonly #versions: VersionClock;
  readonly #byKey = new Map<string, Stored>();
  #leaves: Leaf[] = [];
  #leavesGeneration = 0;
  #generation = 0;
  #commits = 0;
  /** The last commit that was more than a write with `heldAt`. */
  #changedAt = 0;
  #closed = false;

  constructor(options: { clock?: Clock } = {}) {
    this.#versions = new VersionClock(options.clock ?? systemClock);
  }

  nextVersion(): number {
    return this.#versions.next();
  }

  newestCommit(): number | undefined {
    this.#assertOpen();
    return this.#commits;
  }

  get(keys: readonly Key[], bytesMax = Number.POSITIVE_INFINITY): (Entry | undefined)[] {
    this.#assertOpen();
    const flat = keys.map((key) => this.#flat(key));
    const entries: (Entry | undefined)[] = [];
    for (let index = 0, bytes = 0; index < flat.length; index++) {
      const entry = this.#byKey.get(flat[index]!);
      entries.push(entry);
      bytes += entry?.value.length ?? 0;
      if (bytes >= bytesMax) break;
    }
    return entries;
  }

  scan(range: KeyRange, visit: Visit): Awaitable<ScanEnd> {
    this.#assertOpen();
    const scan = this.#beginScan(range, visit);
    return this.#runTurn(scan) ?? this.#runTurns(scan);
  }

  commit(write: AtomicWrite): Promise<CommitResult> {
    try {
      return Promise.resolve(this.#apply(write));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async update(key: Key, change: Change, premise?: Premise): Promise<Updated | undefined> {
    this.#assertOpen();
    if (premise && !this.#isTrue(premise)) return undefined;
    const flat = this.#flat(key);
    const stored = this.#byKey.get(flat);
    const version = this.#versions.nextAbove(stored?.version ?? 0);
    const value = Uint8Array.from(change(stored?.value, version));
    this.#changedAt = ++this.#commits;
    this.#put({ flat, key: copyKey(key), value, version });
    return { version, value };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#byKey.clear();
    this.#leaves = [];
  }

  #apply(write: AtomicWrite): CommitResult {
    this.#assertOpen();
    assertWrite(write);
    const checked = write.checks.map(({ key }) => this.#flat(key));
    const put = write.puts.map(({ key }) => this.#flat(key));
    const deleted = write.deletes.map((key) => this.#flat(key));

    if (write.premise && !this.#isTrue(write.premise)) {
      return { committed: false, failedCheck: PREMISE_FAILED };
    }
    const { heldAt } = write;
    if (heldAt === undefined || heldAt < this.#changedAt) {
      const failedCheck = write.checks.findIndex(
        (check, index) => !holds(check, this.#byKey.get(checked[index]!)?.version),
      );
      if (failedCheck >= 0) return { committed: false, failedCheck };
    }
    this.#commits++;
    if (heldAt === undefined) this.#changedAt = this.#commits;

    const versions = write.puts.map(({ key, value }, index) => {
      const flat = put[index]!;
      const stored = this.#byKey.get(flat)?.version ?? 0;
      const version = write.version > stored ? write.version : this.#versions.nextAbove(stored);
      this.#put({ flat, key: copyKey(key), value: Uint8Array.from(value), version });
      return version;
    });
    for (const flat of deleted) this.#delete(flat);
    return { committed: true, versions };
  }

  #isTrue({ key, version }: Premise): boolean {
    return this.#byKey.get(this.#flat(key))?.version === version;
  }

  #put(stored: Stored): void {
    this.#byKey.set(stored.flat, stored);
    const leafIndex = this.#leafIndex(stored.flat);
    const { entries } = this.#leafToChange(leafIndex);
    const at = lowerBound(entries, stored.flat);
    if (entries[at]?.flat === stored.flat) {
      entries[at] = stored;
      return;
    }
    entries.splice(at, 0, stored);
    if (entries.length <= LEAF_ENTRIES_MAX) return;
    // Keys that arrive in order fill their leaves: a split at the end leaves the old leaf full.
    const isLast = leafIndex === this.#leaves.length - 1 && at === entries.length - 1;
    const upper = entries.splice(isLast ? at : LEAF_ENTRIES_MAX / 2);
    this.#leavesToChange().splice(leafIndex + 1, 0, {
      generation: this.#generation,
      entries: upper,
    });
  }

  #delete(flat: string): void {
    if (!this.#byKey.delete(flat)) return;
    const leafIndex = this.#leafIndex(flat);
    const { entries } = this.#leafToChange(leafIndex);
    entries.splice(lowerBound(entries, flat), 1);
    if (entries.length === 0) this.#leavesToChange().splice(leafIndex, 1);
  }

  /** The last leaf that begins at or before `flat`, else the first one. */
  #leafIndex(flat: string): number {
    let low = 0;
    let high = this.#leaves.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#leaves[middle]!.entries[0]!.flat <= flat) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }

  #leavesToChange(): Leaf[] {
    if (this.#leavesGeneration !== this.#generation) {
      this.#leaves = this.#leaves.slice();
      this.#leavesGeneration = this.#generation;
    }
    return this.#leaves;
  }

  #leafToChange(index: number): Leaf {
    const leaf = this.#leaves[index];
    if (leaf?.generation === this.#generation) return leaf;
    const own: Leaf = { generation: this.#generation, entries: leaf?.entries.slice() ?? [] };
    this.#leavesToChange()[index] = own;
    return own;
  }

  #beginScan(range: KeyRange, visit: Visit): Scan {
    const start = latin1(joinKey(range.start));
    const leafIndex = this.#leafIndex(start);
    this.#generation++;
    return {
      leaves: this.#leaves,
      leafIndex,
      entryIndex: lowerBound(this.#leaves[leafIndex]?.entries ?? [], start),
      end: range.end && latin1(joinKey(range.end)),
      visit,
      budget: new TimeSlice(),
      loan: new Loan(),
    };
  }

  /** Visits entries until the end, which it returns, or until the event loop must have its turn. */
  #runTurn(scan: Scan): ScanEnd | undefined {
    const { leaves, end, visit, budget, loan } = scan;
    for (; scan.leafIndex < leaves.length; scan.leafIndex++, scan.entryIndex = 0) {
      const { entries } = leaves[scan.leafIndex]!;
      while (scan.entryIndex < entries.length) {
        const entry = entries[scan.entryIndex++]!;
        if (end !== undefined && entry.flat >= end) return "complete";
        if (!loan.during(entry, visit)) return "stopped";
        if (budget.isSpent()) return undefined;
      }
    }
    return "complete";
  }

  async #runTurns(scan: Scan): Promise<ScanEnd> {
    for (;;) {
      await scan.budget.nextTurn();
      this.#assertOpen();
      const end = this.#runTurn(scan);
      if (end !== undefined) return end;
    }
  }

  #flat(key: Key): string {
    assertKeyFits(key, KEY_BYTES_MAX);
    return latin1(joinKey(key));
  }

  #assertOpen(): void {
    if (this.#closed) throw new EngineError("Closed", "The memory engine is closed.");
  }
}

interface Scan {
  readonly leaves: readonly Leaf[];
  leafIndex: number;
  entryIndex: number;
  readonly end: string | undefined;
  readonly visit: Visit;
  readonly budget: TimeSlice;
  readonly loan: Loan;
}

/**
 * Lends a visitor copies and overwrites them when it returns. Other engines lend bytes that the next entry
 * overwrites; a visitor that retains such bytes must fail here too, where tests run.
 */
class Loan {
  #bytes = new Uint8Array(1024);

  during({ key, value, version }: Entry, visit: Visit): boolean {
    const sortAt = key.partition.length;
    const valueAt = sortAt + key.sort.length;
    const end = valueAt + value.length;
    if (this.#bytes.length < end) this.#bytes = new Uint8Array(end * 2);
    const bytes = this.#bytes;
    bytes.set(key.partition);
    bytes.set(key.sort, sortAt);
    bytes.set(value, valueAt);
    const partition = bytes.subarray(0, sortAt);
    const sort = bytes.subarray(sortAt, valueAt);
    try {
      return visit({ key: { partition, sort }, value: bytes.subarray(valueAt, end), version });
    } finally {
      bytes.fill(SPOILT, 0, end);
    }
  }
}

/** Invalid in UTF-8 and in JSON. */
const SPOILT = 0xff;

/** The first place in `entries` whose key is not below `flat`. */
function lowerBound(entries: readonly Stored[], flat: string): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (entries[middle]!.flat < flat) low = middle + 1;
    else high = middle;
  }
  return low;
}
