import type { Entry, Key, KeyRange, ScanEnd, Visit } from "../engine.ts";
import { after, copyKey, equalBytes, joinKey, KeySplitter } from "../key-codec.ts";
import { ScanBudget } from "../scan-budget.ts";
import {
  FLAT_KEY_BYTES_MAX,
  lastVersion,
  type RangeItem,
  type RangeOptions,
  type ReadTransaction,
  type Snapshot,
  type Snapshots,
  type Store,
  viewOf,
} from "./binding.ts";
import { toEngineError } from "./lmdb-errors.ts";

/** What scans read. */
export interface ScanSource {
  readonly store: Store;
  readonly snapshots: Snapshots;
  /** After this time a scan ends with `resumeAt`. */
  readonly snapshotMsMax: number;
}

/**
 * One scan: a read transaction, a cursor and the entry it lends out. It works in turns of a few
 * milliseconds. Whatever happens, `release` lets the transaction go: LMDB cannot use pages again
 * that a snapshot still shows.
 */
export class EntryScan {
  readonly entry = new LentEntry();
  readonly #snapshots: Snapshots;
  readonly #snapshot: Snapshot;
  readonly #items: Iterator<RangeItem>;
  readonly #visit: Visit;
  readonly #budget = new ScanBudget();
  readonly #endsAt: number;

  constructor(source: ScanSource, range: KeyRange, visit: Visit) {
    this.#visit = visit;
    this.#endsAt = performance.now() + source.snapshotMsMax;
    this.#snapshots = source.snapshots;
    this.#snapshot = source.snapshots.take();
    try {
      const options = rangeOptions(range, this.#snapshot.transaction);
      this.#items = source.store.getRange(options)[Symbol.iterator]();
    } catch (error) {
      source.snapshots.giveBack(this.#snapshot);
      throw error;
    }
  }

  /** Visits until the end, which it answers, or until the event loop must have its turn. */
  runTurn(): ScanEnd | undefined {
    const { entry } = this;
    for (;;) {
      const item = this.#next();
      if (item.done) return "complete";
      entry.lend(item.value);
      if (!this.#visit(entry)) return "stopped";
      if (!this.#budget.isSpent()) continue;
      if (performance.now() < this.#endsAt) return undefined;
      return { resumeAt: after(copyKey(entry.key)) };
    }
  }

  #next(): IteratorResult<RangeItem> {
    try {
      return this.#items.next();
    } catch (error) {
      throw toEngineError(error, "Unavailable", "scan");
    }
  }

  nextTurn(): Promise<void> {
    return this.#budget.nextTurn();
  }

  release(): void {
    this.#items.return?.();
    this.#snapshots.giveBack(this.#snapshot);
  }
}

/**
 * The entry that `visit` is lent, one object for the whole scan. Its bytes stand in buffers that
 * lmdb-js shares among all reads; what a visitor does not ask for is never cut out of them.
 */
class LentEntry implements Entry {
  version = 0;
  #keyBuffer: Uint8Array = NOTHING;
  #keyStart = 0;
  #keyEnd = 0;
  #valueBuffer: Buffer = NOTHING;
  readonly #splitter = new KeySplitter();
  #key: Key | undefined;
  #value: Uint8Array | undefined;

  get key(): Key {
    this.#key ??= this.#splitter.split(this.#keyBuffer, this.#keyStart, this.#keyEnd);
    return this.#key;
  }

  get value(): Uint8Array {
    this.#value ??= viewOf(this.#valueBuffer);
    return this.#value;
  }

  lend({ key, value }: RangeItem): void {
    this.version = lastVersion();
    this.#keyBuffer = key.bytes;
    this.#keyStart = key.start;
    this.#keyEnd = key.end;
    this.#valueBuffer = value;
    this.#key = undefined;
    this.#value = undefined;
  }

  /** A visitor may read the engine: what that puts into the shared buffers is taken out again. */
  restoreAfter<T>(read: () => T): T {
    const lentKey = this.#keyBuffer.subarray(this.#keyStart, this.#keyEnd);
    const lentValue = this.value;
    const keyCopy = Uint8Array.from(lentKey);
    const valueCopy = Uint8Array.from(lentValue);
    try {
      return read();
    } finally {
      lentKey.set(keyCopy);
      // A very large value stands in the memory map, which changes for nobody and takes no writes.
      if (!equalBytes(lentValue, valueCopy)) lentValue.set(valueCopy);
    }
  }
}

const NOTHING = Buffer.alloc(0);

/**
 * A bound may be longer than any key that can be stored. Cut to the longest, `cut`, it lies just
 * behind `cut` and in front of all other keys behind that: nothing longer begins with `cut`.
 */
function rangeOptions({ start, end }: KeyRange, transaction: ReadTransaction): RangeOptions {
  const first = joinKey(start);
  const last = end && joinKey(end);
  return {
    transaction,
    start: first.subarray(0, FLAT_KEY_BYTES_MAX),
    exclusiveStart: first.length > FLAT_KEY_BYTES_MAX,
    end: last?.subarray(0, FLAT_KEY_BYTES_MAX),
    inclusiveEnd: last !== undefined && last.length > FLAT_KEY_BYTES_MAX,
  };
}
