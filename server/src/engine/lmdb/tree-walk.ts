import { EngineError, type Entry, type Key, type KeyRange } from "../engine.ts";
import { joinKey, KeySplitter } from "../key-codec.ts";
import { PAGE_BYTES } from "./data-file.ts";
import { type MemoryMap, PAGE_HEAD_BYTES } from "./memory-map.ts";

/**
 * Walks the entries of a range in the pages of the memory map. Each page on the path is copied first: copied
 * in one block, which the processor prefetches, a page takes half the time of reading seven entries of 1 KB
 * in place. A walk is created once and used for many ranges, one after the other.
 */
export class TreeWalk implements Entry {
  readonly entry: Entry = this;
  readonly #map: MemoryMap;
  /** The pages from the root down. */
  readonly #path: TreePage[] = [new TreePage()];
  #leaf = this.#path[0]!;
  #depth = 0;
  #end: Uint8Array | undefined;
  /** How many entries of the leaf lie before the end of the range. */
  #leafEnd = 0;
  #isLastLeaf = false;
  readonly #splitter = new KeySplitter();
  #key: Key | undefined;
  #value: Uint8Array | undefined;

  constructor(map: MemoryMap) {
    this.#map = map;
  }

  /**
   * Moves in front of the first entry, or returns false if the map cannot be read now. A snapshot must have
   * been begun, and is held until the end of the walk.
   */
  begin({ start, end }: KeyRange): boolean {
    const root = this.#map.root();
    if (root === undefined) return false;
    const first = joinKey(start);
    this.#end = end && joinKey(end);
    this.#descend(root, 0, first);
    this.#leaf.index = this.#leaf.firstNotBefore(first) - 1;
    return true;
  }

  /** Moves to the next entry, if there is one; the walk itself then is that entry. */
  next(): boolean {
    this.#key = undefined;
    this.#value = undefined;
    while (++this.#leaf.index >= this.#leafEnd) {
      if (this.#isLastLeaf || !this.#nextLeaf()) return false;
    }
    return true;
  }

  get key(): Key {
    const leaf = this.#leaf;
    this.#key ??= this.#splitter.split(leaf.bytes, leaf.keyAt(leaf.index), leaf.keyEnd(leaf.index));
    return this.#key;
  }

  get value(): Uint8Array {
    this.#value ??= this.#leaf.value(this.#map);
    return this.#value;
  }

  get version(): number {
    return this.#leaf.version(this.#map);
  }

  /** Descends to the leaf where `key` belongs, or without a key to the first leaf. */
  #descend(number: number, depth: number, key: Uint8Array | undefined): void {
    const page = this.#path[depth] ?? new TreePage();
    this.#path[depth] = page;
    page.load(this.#map, number);
    if (page.isBranch) {
      if (depth === DEPTH_MAX) throw corrupt(number);
      page.index = key === undefined ? 0 : page.childWith(key);
      this.#descend(page.child(page.index), depth + 1, key);
      return;
    }
    this.#depth = depth;
    this.#leaf = page;
    page.index = -1;
    const end = this.#end;
    const { count } = page;
    this.#isLastLeaf = end !== undefined && count > 0 && page.compare(count - 1, end) >= 0;
    this.#leafEnd = end !== undefined && this.#isLastLeaf ? page.firstNotBefore(end) : count;
  }

  #nextLeaf(): boolean {
    for (let depth = this.#depth - 1; depth >= 0; depth--) {
      const page = this.#path[depth]!;
      if (++page.index < page.count) {
        this.#descend(page.child(page.index), depth + 1, undefined);
        return true;
      }
    }
    return false;
  }
}

/** A copy of one page of the tree, and the index of a node on it. */
class TreePage {
  readonly bytes = new Uint8Array(PAGE_BYTES);
  readonly #halves = new Uint16Array(this.bytes.buffer);
  readonly #data = new DataView(this.bytes.buffer);
  /**
   * The views last created for the value of each node, reused on the next pages: neighbours of equal size
   * have equal offsets.
   */
  readonly #views: Uint8Array[] = [];
  /** The offsets at which these views begin. */
  readonly #viewStarts: number[] = [];
  index = 0;

  load(map: MemoryMap, number: number): void {
    map.copyPage(number, this.bytes);
    const flags = this.#halves[FLAGS_AT >> 1]!;
    if (flags !== BRANCH && flags !== LEAF) throw corrupt(number);
  }

  get isBranch(): boolean {
    return this.#halves[FLAGS_AT >> 1] === BRANCH;
  }

  /** The number of nodes. */
  get count(): number {
    return this.#halves[LIST_END_AT >> 1]! >> 1;
  }

  /** The child that contains `key` if any does. The first child has no key: it begins before all keys. */
  childWith(key: Uint8Array): number {
    let low = 1;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.compare(middle, key) <= 0) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  firstNotBefore(key: Uint8Array): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.compare(middle, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Negative, zero or positive, by the unsigned bytes of the node's key and `key`. */
  compare(index: number, key: Uint8Array): number {
    const { bytes } = this;
    const at = this.keyAt(index);
    const length = this.keyEnd(index) - at;
    const common = Math.min(length, key.length);
    for (let i = 0; i < common; i++) {
      const difference = bytes[at + i]! - key[i]!;
      if (difference !== 0) return difference;
    }
    return length - key.length;
  }

  keyAt(index: number): number {
    return this.#nodeAt(index) + NODE_HEAD_BYTES;
  }

  keyEnd(index: number): number {
    const at = this.#nodeAt(index);
    return at + NODE_HEAD_BYTES + this.#halves[(at + NODE_KEY_BYTES_AT) >> 1]!;
  }

  /** The page number of a branch's child. */
  child(index: number): number {
    const half = this.#nodeAt(index) >> 1;
    const halves = this.#halves;
    return halves[half]! + halves[half + 1]! * 2 ** 16 + halves[half + 2]! * 2 ** 32;
  }

  value(map: MemoryMap): Uint8Array {
    const bytes = this.#valueBytes();
    if (this.#isOverflow()) return this.#overflow(map).subarray(VERSION_BYTES);
    const start = this.keyEnd(this.index) + VERSION_BYTES;
    const length = bytes - VERSION_BYTES;
    const { index } = this;
    const view = this.#views[index];
    // 5 ns instead of 50 for a new view.
    if (view?.length === length && this.#viewStarts[index] === start) return view;
    const fresh = this.bytes.subarray(start, start + length);
    this.#views[index] = fresh;
    this.#viewStarts[index] = start;
    return fresh;
  }

  version(map: MemoryMap): number {
    if (!this.#isOverflow()) return this.#data.getFloat64(this.keyEnd(this.index), true);
    const value = this.#overflow(map);
    return new DataView(value.buffer, value.byteOffset).getFloat64(0, true);
  }

  #overflow(map: MemoryMap): Uint8Array {
    const at = this.keyEnd(this.index);
    const number = this.#data.getUint32(at, true) + this.#data.getUint32(at + 4, true) * 2 ** 32;
    return map.overflow(number, this.#valueBytes());
  }

  #isOverflow(): boolean {
    return (this.#halves[(this.#nodeAt(this.index) + NODE_FLAGS_AT) >> 1]! & OVERFLOW) !== 0;
  }

  /** Includes the version in front of the value. */
  #valueBytes(): number {
    const half = this.#nodeAt(this.index) >> 1;
    return this.#halves[half]! + this.#halves[half + 1]! * 2 ** 16;
  }

  #nodeAt(index: number): number {
    return PAGE_HEAD_BYTES + this.#halves[(PAGE_HEAD_BYTES >> 1) + index]!;
  }
}

function corrupt(number: number): EngineError {
  return new EngineError("Corrupt", `Page ${number} is not part of the tree of entries.`);
}

const FLAGS_AT = 18;
const BRANCH = 1;
const LEAF = 2;
const LIST_END_AT = 20;
const NODE_FLAGS_AT = 4;
const OVERFLOW = 1;
const NODE_KEY_BYTES_AT = 6;
const NODE_HEAD_BYTES = 8;
const VERSION_BYTES = 8;
/** A tree of this depth has more leaves than there are page numbers; LMDB's own limit. */
const DEPTH_MAX = 32;
