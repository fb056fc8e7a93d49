import type { Entry, Key, KeyRange, ScanEnd, Visit } from "../engine.ts";
import { after, equalBytes, joinKey, splitKey } from "../key-codec.ts";
import { ScanBudget } from "../scan-budget.ts";
import {
  FLAT_KEY_BYTES_MAX,
  lastVersion,
  type RangeItem,
  type RangeOptions,
  type ReadTransaction,
  type Store,
} from "./binding.ts";
import { toEngineError } from "./lmdb-errors.ts";

/**
 * One scan: a read transaction, a cursor and the entry it lends out. It works in turns of a few
 * milliseconds. Whatever happens, `release` lets the transaction go: LMDB cannot use pages again
 * that a snapshot still shows.
 */
export class EntryScan {
  readonly entry = new LentEntry();
  readonly #transaction: ReadTransaction;
  readonly #items: Iterator<RangeItem>;
  readonly #visit: Visit;
  readonly #budget = new ScanBudget();
  readonly #endsAt: number;

  constructor(store: Store, range: KeyRange, visit: Visit, snapshotMsMax: number) {
    this.#visit = visit;
    this.#endsAt = performance.now() + snapshotMsMax;
    // What other processes committed meanwhile is seen only by a new transaction.
    store.resetReadTxn();
    this.#transaction = store.useReadTransaction();
    try {
      this.#items = store.getRange(rangeOptions(range, this.#transaction))[Symbol.iterator]();
    } catch (error) {
      this.#transaction.done();
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
    this.#transaction.done();
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
  #valueBuffer: Uint8Array = NOTHING;
  #key: Key | undefined;
  #value: Uint8Array | undefined;

  get key(): Key {
    this.#key ??= splitKey(this.#keyBuffer.subarray(this.#keyStart, this.#keyEnd));
    return this.#key;
  }

  get value(): Uint8Array {
    this.#value ??= this.#valueBuffer.subarray(0, this.#valueBuffer.length);
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

const NOTHING = new Uint8Array(0);

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

function copyKey({ partition, sort }: Key): Key {
  return { partition: Uint8Array.from(partition), sort: Uint8Array.from(sort) };
}
