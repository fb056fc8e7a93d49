import { EngineError, type Entry, type Key, type KeyRange, type OnDamaged } from "../engine.ts";
import { equalBytes, joinKey, KeySplitter } from "../key-codec.ts";
import {
  lastVersion,
  type RangeItem,
  type RangeOptions,
  type ReadTransaction,
  type Snapshot,
  type Store,
} from "./binding.ts";
import { FLAT_KEY_BYTES_MAX } from "./data-file.ts";
import { openSealed, type Seals } from "./sealed-value.ts";

/** The entries of a range as a cursor of the binding reads them; used if there is no map to walk. */
export class CursorEntries {
  readonly entry: LentEntry;
  readonly #items: Iterator<RangeItem>;
  readonly #onDamaged: OnDamaged | undefined;

  constructor(
    { store, seals }: { readonly store: Store; readonly seals: Seals },
    snapshot: Snapshot,
    range: KeyRange,
    onDamaged: OnDamaged | undefined,
  ) {
    const options = rangeOptions(range, snapshot.transaction);
    this.entry = new LentEntry(seals);
    this.#items = store.getRange(options)[Symbol.iterator]();
    this.#onDamaged = onDamaged;
  }

  next(): boolean {
    for (;;) {
      const item = this.#items.next();
      if (item.done) return false;
      try {
        this.entry.lend(item.value);
        return true;
      } catch (error) {
        if (!this.#onDamaged || !(error instanceof EngineError)) throw error;
        this.#onDamaged(error);
      }
    }
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
  readonly #splitter = new KeySplitter();
  #key: Key | undefined;
  #value: Uint8Array = NOTHING;
  readonly #seals: Seals;

  constructor(seals: Seals) {
    this.#seals = seals;
  }

  get key(): Key {
    this.#key ??= this.#splitter.split(this.#keyBuffer, this.#keyStart, this.#keyEnd);
    return this.#key;
  }

  get value(): Uint8Array {
    return this.#value;
  }

  /** @throws EngineError Corrupt if the value is damaged. */
  lend({ key, value }: RangeItem): void {
    const stored = lastVersion();
    this.version = Math.abs(stored);
    this.#keyBuffer = key.bytes;
    this.#keyStart = key.start;
    this.#keyEnd = key.end;
    this.#key = undefined;
    this.#value = openSealed(this.key, value, stored, this.#seals);
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
