import type { KeyRange, OnDamaged, ScanEnd, Visit } from "../engine.ts";
import { after, copyKey } from "../key-codec.ts";
import { TimeSlice } from "../time-slice.ts";
import type { Snapshot, Snapshots, Store } from "./binding.ts";
import { CursorEntries } from "./cursor-entries.ts";
import { toReadError } from "./lmdb-errors.ts";
import type { Seals } from "./sealed-value.ts";
import { TreeWalk, type WalkSource } from "./tree-walk.ts";

/** The source that scans read. */
export interface ScanSource {
  readonly store: Store;
  readonly snapshots: Snapshots;
  /** After this time a scan ends with `resumeAt`. */
  readonly snapshotMsMax: number;
  readonly seals: Seals;
  /** If there is one, scans walk its memory map. */
  readonly walk: WalkSource | undefined;
  /** Walks that are not in use. */
  readonly walks: TreeWalk[];
}

/**
 * One scan: a read transaction, a walk through its entries, and the entry it lends. It works in turns of a
 * few milliseconds. Whatever happens, `release` must end the transaction: LMDB cannot reuse pages that a
 * snapshot still shows.
 */
export class EntryScan {
  readonly #source: ScanSource;
  readonly #snapshot: Snapshot;
  readonly #entries: TreeWalk | CursorEntries;
  readonly #visit: Visit;
  readonly #budget = new TimeSlice();
  readonly #endsAt: number;

  constructor(source: ScanSource, range: KeyRange, visit: Visit, onDamaged?: OnDamaged) {
    this.#visit = visit;
    const now = performance.now();
    this.#endsAt = now + source.snapshotMsMax;
    this.#source = source;
    try {
      this.#snapshot = source.snapshots.take();
    } catch (error) {
      throw toReadError(error, "scan");
    }
    try {
      this.#entries =
        this.#walk(range, now, onDamaged) ??
        new CursorEntries(source, this.#snapshot, range, onDamaged);
    } catch (error) {
      source.snapshots.giveBack(this.#snapshot);
      throw toReadError(error, "scan");
    }
  }

  /** Visits entries until the end, which it returns, or until the event loop must have its turn. */
  runTurn(): ScanEnd | undefined {
    const { entry } = this.#entries;
    for (;;) {
      if (!this.#next()) return "complete";
      if (!this.#visit(entry)) return "stopped";
      if (!this.#budget.isSpent()) continue;
      if (performance.now() < this.#endsAt) return undefined;
      return { resumeAt: after(copyKey(entry.key)) };
    }
  }

  nextTurn(): Promise<void> {
    return this.#budget.nextTurn();
  }

  /** Reads something else while `visit` runs, then restores the entry lent to it. */
  lendAgainAfter<T>(read: () => T): T {
    const entries = this.#entries;
    return entries instanceof TreeWalk ? read() : entries.entry.restoreAfter(read);
  }

  release(): void {
    const entries = this.#entries;
    if (entries instanceof TreeWalk) this.#source.walks.push(entries);
    else entries.release();
    this.#source.snapshots.giveBack(this.#snapshot);
  }

  #walk(range: KeyRange, now: number, onDamaged?: OnDamaged): TreeWalk | undefined {
    const { walk: source, walks } = this.#source;
    if (source === undefined) return undefined;
    this.#snapshot.begin();
    const walk = walks.pop() ?? new TreeWalk(source);
    if (walk.begin(range, now, onDamaged)) return walk;
    walks.push(walk);
    return undefined;
  }

  #next(): boolean {
    try {
      return this.#entries.next();
    } catch (error) {
      throw toReadError(error, "scan");
    }
  }
}
