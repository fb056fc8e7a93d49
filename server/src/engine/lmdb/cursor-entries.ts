import type { Entry, Key, KeyRange } from "../engine.ts";
import { equalBytes, joinKey, KeySplitter } from "../key-codec.ts";
import {
  lastVersion,
  type RangeItem,
  type RangeOptions,
  type ReadTransaction,
  type Snapshot,
  type Store,
  viewOf,
} from "./binding.ts";
import { FLAT_KEY_BYTES_MAX } from "./data-file.ts";

/** The entries of a range as a cursor of the binding reads them; used if there is no map to walk. */
export class CursorEntries {
  readonly entry = new LentEntry();
  readonly #items: Iterator<RangeItem>;

  constructor(store: Store, snapshot: Snapshot, range: KeyRange) {
    const options = rangeOptions(range, snapshot.transaction);
    this.#items = store.getRange(options)[Symbol.iterator]();
  }

  next(): boolean {
    const item = this.#items.next();
    if (item.done) return false;
    this.entry.lend(item.value);
    return true;
  }

  release(): void {
    this.#items.return?.();
  }
}

/**
 * The entry lent to `visit`, one object for the whole scan. Its bytes lie in buffers that lmdb-js shares
 * among all reads; parts that the visitor does not use are never cut out of them.
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

  /** Runs a read that the visitor makes meanwhile, then restores the shared buffers that it overwrote. */
  restoreAfter<T>(read: () => T): T {
    const lentKey = this.#keyBuffer.subarray(this.#keyStart, this.#keyEnd);
    const lentValue = this.value;
    const keyCopy = Uint8Array.from(lentKey);
    const valueCopy = Uint8Array.from(lentValue);
    try {
      return read();
    } finally {
      lentKey.set(keyCopy);
      // A very large value lies in the memory map, which never changes and must not be written to.
      if (!equalBytes(lentValue, valueCopy)) lentValue.set(valueCopy);
    }
  }
}

const NOTHING = Buffer.alloc(0);

/**
 * A bound may be longer than any key that can be stored. Cut to the maximum length, it becomes `cut`: the
 * bound lies right behind `cut` and before all other keys behind `cut`, since no longer key begins with `cut`.
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
