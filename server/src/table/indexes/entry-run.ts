import { copyBytes } from "@rowhouse/protocol/json-value";
import type { Check, Key, Put } from "../../engine/engine.ts";
import { stampRecord } from "../entity-record.ts";
import type { IndexEntry } from "./open-index.ts";

/** An entry to write, and what its entity must be: the one that it was computed from. */
export interface CheckedPut {
  readonly put: Put;
  readonly check: Check;
}

/** In front of each row: the lengths of the four parts of its keys and of the value, then the version. */
const LENGTHS = 5;
const VERSION_AT = LENGTHS * 4;
const HEAD_BYTES = VERSION_AT + 8;
const FIRST_BYTES = 64 << 10;
/** Rows are sorted by numbers, which is native code: four bytes of the key, then which row it is. */
const SORTED_BYTES = 4;
const ROWS_MAX = 2 ** 20;
/** Rows that need no order among themselves: they share a page. */
const UNSORTED_MAX = 50;
/** How long others wait while rows are sorted: in one piece, that takes up to 115 ms of 100,000. */
const TURN_MS = 3;
/** Keys that agree in more than eight times four bytes where others differ stay as they are: sorting is bounded. */
const DEPTH_MAX = 8;

/** Rows that agree so far. */
interface Group {
  readonly from: number;
  readonly to: number;
  readonly depth: number;
}

/**
 * Entries that wait to be written about in the order of the index, each with the key and version of its entity. All are
 * in one piece of memory: as objects they would need four times as much, and keep the garbage collector busy.
 */
export class EntryRun {
  #bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #end = 0;
  #starts: number[] = [];
  #taken = 0;

  get bytes(): number {
    return this.#end;
  }

  get length(): number {
    return this.#starts.length;
  }

  /** Copies what it is given. */
  add({ key, value }: IndexEntry, base: Key, version: number): void {
    const start = this.#end;
    const bytes = this.#withRoomFor(
      HEAD_BYTES +
        key.partition.length +
        key.sort.length +
        base.partition.length +
        base.sort.length +
        value.length,
    );
    let at = this.#addPart(start, start + HEAD_BYTES, key.partition);
    at = this.#addPart(start + 4, at, key.sort);
    at = this.#addPart(start + 8, at, base.partition);
    at = this.#addPart(start + 12, at, base.sort);
    this.#end = this.#addPart(start + 16, at, value);
    bytes.writeDoubleLE(version, start + VERSION_AT);
    this.#starts.push(start);
  }

  #addPart(lengthAt: number, at: number, part: Uint8Array): number {
    this.#bytes.writeUInt32LE(part.length, lengthAt);
    return copyBytes(this.#bytes, at, part, 0, part.length);
  }

  /** Keeps the memory. Whatever was taken is used no longer. */
  clear(): void {
    this.#end = 0;
    this.#starts = [];
    this.#taken = 0;
  }

  /**
   * Call it once, after the last `add`.
   * @param rest lets others work in between, after work that began at this time
   */
  async sort(rest: (from: number) => Promise<void>): Promise<void> {
    const groups: Group[] = [{ from: 0, to: this.#starts.length, depth: 0 }];
    let from = performance.now();
    for (let group = groups.pop(); group; group = groups.pop()) {
      this.#sort(group, groups);
      if (performance.now() < from + TURN_MS) continue;
      await rest(from);
      from = performance.now();
    }
  }

  /** The next rows, with this version as the Timestamp of their entries. Their bytes stay as they are. */
  take(max: number, version: number): readonly CheckedPut[] {
    const rows = this.#starts.slice(this.#taken, this.#taken + max);
    this.#taken += rows.length;
    return rows.map((start) => this.#row(start, version));
  }

  #row(start: number, version: number): CheckedPut {
    const bytes = this.#bytes;
    let lengthAt = start;
    let at = start + HEAD_BYTES;
    const read = () => {
      const from = at;
      at += bytes.readUInt32LE(lengthAt);
      lengthAt += 4;
      return bytes.subarray(from, at);
    };
    const key = { partition: read(), sort: read() };
    const base = { partition: read(), sort: read() };
    const value = read();
    stampRecord(value, version);
    return { put: { key, value }, check: { key: base, expected: bytes.readDoubleLE(lengthAt) } };
  }

  /** Sorts some rows by the bytes behind those that all of them have in common. Adds those that agree in them. */
  #sort({ from, to, depth }: Group, groups: Group[]): void {
    if (to - from <= UNSORTED_MAX || depth === DEPTH_MAX) return;
    const bytes = this.#bytes;
    const keysAt = HEAD_BYTES + this.#commonBytes(from, to);
    const starts = this.#starts.slice(from, to);
    const numbers = new Float64Array(starts.length);
    for (let row = 0; row < starts.length; row++) {
      numbers[row] = bytes.readUInt32BE(starts[row]! + keysAt) * ROWS_MAX + row;
    }
    numbers.sort();
    let groupAt = from;
    let group = -1;
    for (let at = 0; at < numbers.length; at++) {
      const number = numbers[at]!;
      this.#starts[from + at] = starts[number % ROWS_MAX]!;
      const own = Math.floor(number / ROWS_MAX);
      if (own === group) continue;
      if (from + at - groupAt > UNSORTED_MAX) {
        groups.push({ from: groupAt, to: from + at, depth: depth + 1 });
      }
      groupAt = from + at;
      group = own;
    }
    groups.push({ from: groupAt, to, depth: depth + 1 });
  }

  #commonBytes(from: number, to: number): number {
    const bytes = this.#bytes;
    const starts = this.#starts;
    const first = starts[from]! + HEAD_BYTES;
    let common = Number.POSITIVE_INFINITY;
    for (let row = from + 1; row < to; row++) {
      const own = starts[row]! + HEAD_BYTES;
      let at = 0;
      while (at < common && bytes[own + at] === bytes[first + at]) at++;
      common = at;
    }
    return common;
  }

  /** There is always room to read a few bytes behind the last row. */
  #withRoomFor(size: number): Buffer {
    const needed = this.#end + size + SORTED_BYTES;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#bytes.length));
      larger.set(this.#bytes.subarray(0, this.#end));
      this.#bytes = larger;
    }
    return this.#bytes;
  }
}
