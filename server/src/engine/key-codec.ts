import { toBuffer } from "../byte-views.ts";
import type { Key, KeyRange } from "./engine.ts";

/**
 * The bytes of keys: text, ids, one flat string for a pair, and positions between keys. Every encoding here
 * preserves order: its unsigned bytes compare as the values do.
 */

const NOTHING = new Uint8Array(0);

// --- Text ------------------------------------------------------------------------------------

/**
 * `prefix` followed by an encoding of `text` that sorts as its UTF-16 code units do. The encoding is UTF-8,
 * except that the first byte of U+E000–U+FFFF is F5 or F6 instead of EE or EF: these code units are larger
 * than surrogates, so they must sort after F0–F4, the supplementary characters. Text without U+0000 is
 * encoded without a byte 00.
 *
 * Measured against UTF-16 with the high byte first, which sorts the same way (bytes; encode, decode in ns):
 *
 *   36 ASCII characters      36 / 72     143 / 162   103 / 232
 *   512 ASCII characters    512 / 1024   305 / 353   143 / 494
 *   24 German characters     29 / 48     168 / 142   167 / 189
 *   24 Chinese characters    75 / 50     241 / 147   373 / 191
 *
 * Keys are mostly ASCII, and half the bytes fit twice the keys on a page: hence this encoding.
 *
 * @throws RangeError for a lone surrogate: it has no UTF-8.
 */
export function encodeText(text: string, prefix: Uint8Array = NOTHING): Uint8Array {
  const start = prefix.length;
  const textBytes = Buffer.byteLength(text, "utf8");
  const bytes = Buffer.allocUnsafe(start + textBytes);
  if (start > 0) bytes.set(prefix);
  if (textBytes === text.length) {
    bytes.write(text, start, "latin1");
    return bytes;
  }
  bytes.write(text, start, "utf8");
  if (SURROGATE_OR_ABOVE.test(text)) moveUp(text, bytes, start);
  return bytes;
}

const SURROGATE_OR_ABOVE = /[\ud800-\uffff]/;
const LONE_SURROGATE = /\p{Surrogate}/u;

function moveUp(text: string, bytes: Uint8Array, start: number): void {
  if (LONE_SURROGATE.test(text)) {
    throw new RangeError("A key holds a lone surrogate; only well-formed text has a code.");
  }
  for (let at = start; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === 0xee || byte === 0xef) bytes[at] = byte + 7;
  }
}

/** The text whose encoding begins at `start`. */
export function decodeText(bytes: Uint8Array, start = 0): string {
  const text = toBuffer(bytes).toString("utf8", start);
  // F5 and F6 are not valid UTF-8, so they became U+FFFD. Nothing else does: an encoded U+FFFD begins with F6
  // too.
  return text.includes("\ufffd") ? decodeMoved(bytes, start) : text;
}

function decodeMoved(bytes: Uint8Array, start: number): string {
  const utf8 = Buffer.from(bytes.subarray(start));
  for (let at = 0; at < utf8.length; at++) {
    const byte = utf8[at]!;
    if (byte >= 0xf5) utf8[at] = byte - 7;
  }
  return utf8.toString("utf8");
}

// --- Ids -------------------------------------------------------------------------------------

/**
 * An unsigned integer as its number of digits (one byte) followed by the digits, most significant first:
 * bijective base 255, digits 1 to 255. Shorter numbers are smaller, so order holds, and no byte is 00, so ids
 * never need an escape in `joinKey`. 0–254 take 2 bytes, up to 65,279 take 3.
 */
export function encodeId(id: number): Uint8Array {
  if (!Number.isSafeInteger(id) || id < 0) throw new RangeError(`${id} is not an id.`);
  const digits: number[] = [];
  // In bijective base 255 zero has no digits; id + 1 always has at least one.
  for (let rest = id + 1; rest > 0; ) {
    const digit = ((rest - 1) % 255) + 1;
    digits.push(digit);
    rest = (rest - digit) / 255;
  }
  digits.push(digits.length);
  return Uint8Array.from(digits.reverse());
}

/** Reads the id that begins at `start`. */
export function decodeId(bytes: Uint8Array, start = 0): { id: number; end: number } {
  const end = start + 1 + (bytes[start] ?? 0);
  let value = 0;
  for (let at = start + 1; at < end; at++) {
    const digit = bytes[at] ?? 0;
    if (digit === 0) throw new RangeError("The bytes are not an id.");
    value = value * 255 + digit;
  }
  if (value === 0) throw new RangeError("The bytes are not an id.");
  return { id: value - 1, end };
}

// --- Flat keys -------------------------------------------------------------------------------

/*
 * A flat key is the partition, then a terminator, then the sort part unchanged:
 *
 *   partition without 00:  <partition> 00 01 <sort>
 *   partition with a 00:   <bytes before the first 00> 00 02 <group>… <sort>
 *
 * Groups hold the bytes after that first 00, sixteen at a time, padded with 00, each followed by one byte:
 * how many of them count (0–16) in the last group, 17 when another group follows.
 *
 * Doubling each 00, the usual escape, would double the worst key. Groups add a sixteenth, so the longest key
 * that an engine can promise to accept whatever its bytes are stays close to the longest it can hold. Entity
 * keys contain no 00 and pay two bytes. A flat key never begins with 00 00: an engine may store its own
 * records there.
 */
const PARTITION_END = 1;
const PARTITION_ZERO = 2;
const GROUP_BYTES = 16;
const MORE_GROUPS = GROUP_BYTES + 1;

/** One byte string for a pair; flat keys compare as their pairs do. */
export function joinKey(key: Key): Uint8Array {
  const flat = Buffer.allocUnsafe(flatKeyBytes(key));
  writeFlatKey(key, flat, 0);
  return flat;
}

/** Writes the flat key into `target` from `start` on, and returns its end. */
export function writeFlatKey({ partition, sort }: Key, target: Uint8Array, start: number): number {
  const zeroAt = partition.indexOf(0);
  if (zeroAt >= 0) return writeWithZero(partition, sort, zeroAt, target, start);
  const end = start + partition.length;
  target.set(partition, start);
  target[end] = 0;
  target[end + 1] = PARTITION_END;
  target.set(sort, end + 2);
  return end + 2 + sort.length;
}

function flatKeyBytes({ partition, sort }: Key): number {
  const zeroAt = partition.indexOf(0);
  if (zeroAt < 0) return partition.length + 2 + sort.length;
  const groups = groupCount(partition.length - zeroAt - 1);
  return zeroAt + 2 + groups * (GROUP_BYTES + 1) + sort.length;
}

function writeWithZero(
  partition: Uint8Array,
  sort: Uint8Array,
  zeroAt: number,
  target: Uint8Array,
  start: number,
): number {
  target.set(partition.subarray(0, zeroAt), start);
  target[start + zeroAt] = 0;
  target[start + zeroAt + 1] = PARTITION_ZERO;
  let from = zeroAt + 1;
  let to = start + zeroAt + 2;
  for (let more = true; more; from += GROUP_BYTES, to += GROUP_BYTES + 1) {
    const bytes = partition.subarray(from, from + GROUP_BYTES);
    more = from + GROUP_BYTES < partition.length;
    target.set(bytes, to);
    target.fill(0, to + bytes.length, to + GROUP_BYTES);
    target[to + GROUP_BYTES] = more ? MORE_GROUPS : bytes.length;
  }
  target.set(sort, to);
  return to + sort.length;
}

/** The pair of a flat key. Its parts share the bytes of `flat` where they can. */
export function splitKey(flat: Uint8Array): Key {
  const zeroAt = flat.indexOf(0);
  const mark = zeroAt < 0 ? undefined : flat[zeroAt + 1];
  if (mark === PARTITION_END) {
    return { partition: flat.subarray(0, zeroAt), sort: flat.subarray(zeroAt + 2) };
  }
  if (mark !== PARTITION_ZERO) throw new RangeError("The bytes are not a flat key.");
  const partition = Buffer.alloc(flat.length);
  partition.set(flat.subarray(0, zeroAt));
  let to = zeroAt + 1;
  let from = zeroAt + 2;
  for (let more = true; more; from += GROUP_BYTES + 1) {
    const count = flat[from + GROUP_BYTES];
    if (count === undefined || count > MORE_GROUPS) {
      throw new RangeError("The bytes are not a flat key.");
    }
    more = count === MORE_GROUPS;
    const bytes = flat.subarray(from, from + (more ? GROUP_BYTES : count));
    partition.set(bytes, to);
    to += bytes.length;
  }
  return { partition: partition.subarray(0, to), sort: flat.subarray(from) };
}

/**
 * Splits flat keys that occupy the same buffer one after the other, as a cursor's do. The pair is valid until
 * the next call: neighbours mostly have parts of the same lengths, and then the views made for the last pair
 * show the next one too. 60 ns instead of 270.
 */
export class KeySplitter {
  #bytes: Uint8Array | undefined;
  #start = 0;
  #end = 0;
  #zeroAt = 0;
  #pair: Key | undefined;

  split(bytes: Uint8Array, start: number, end: number): Key {
    const zeroAt = bytes.indexOf(0, start);
    if (
      this.#pair !== undefined &&
      zeroAt === this.#zeroAt &&
      bytes[zeroAt + 1] === PARTITION_END &&
      end === this.#end &&
      start === this.#start &&
      bytes === this.#bytes
    ) {
      return this.#pair;
    }
    const pair = splitKey(bytes.subarray(start, end));
    this.#bytes = bytes;
    this.#start = start;
    this.#end = end;
    this.#zeroAt = zeroAt;
    this.#pair = bytes[zeroAt + 1] === PARTITION_END ? pair : undefined;
    return pair;
  }
}

/** The longest pair whose flat key fits `flatBytesMax` whatever its bytes are. */
export function pairBytesMax(flatBytesMax: number): number {
  let bytes = flatBytesMax;
  while (longestFlatBytes(bytes) > flatBytesMax) bytes--;
  return bytes;
}

/** The worst pair of this many bytes begins with 00 and has one byte alone in its last group. */
function longestFlatBytes(pairBytes: number): number {
  let longest = 2 + pairBytes;
  for (let alone = 0; alone < GROUP_BYTES && alone < pairBytes; alone++) {
    const partitionBytes = pairBytes - alone;
    const groups = groupCount(partitionBytes - 1);
    longest = Math.max(longest, 2 + groups * (GROUP_BYTES + 1) + alone);
  }
  return longest;
}

function groupCount(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / GROUP_BYTES));
}

// --- Order and positions ---------------------------------------------------------------------

/** Negative, zero or positive, by unsigned bytes of the partition, then of the sort part. */
export function compareKeys(a: Key, b: Key): number {
  return Buffer.compare(a.partition, b.partition) || Buffer.compare(a.sort, b.sort);
}

export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

/** Copies a key that a scan lends. Not with `slice`: a Buffer's would share the bytes. */
export function copyKey({ partition, sort }: Key): Key {
  return { partition: Uint8Array.from(partition), sort: Uint8Array.from(sort) };
}

/** Length of both parts, which `Engine.keyBytesMax` limits. */
export function keyBytes(key: Key): number {
  return key.partition.length + key.sort.length;
}

/** The next possible key: nothing lies between `key` and it. It may be one byte too long to be stored. */
export function after(key: Key): Key {
  return { partition: key.partition, sort: next(key.sort) };
}

/** The first position of `partition`. */
export function startOfPartition(partition: Uint8Array): Key {
  return { partition, sort: NOTHING };
}

/** The first position behind every key of `partition`. */
export function afterPartition(partition: Uint8Array): Key {
  return { partition: next(partition), sort: NOTHING };
}

/** From the first key to the last. */
export const EVERYTHING: KeyRange = {
  start: startOfPartition(NOTHING),
};

/** All of one partition. */
export function partitionRange(partition: Uint8Array): KeyRange {
  return { start: startOfPartition(partition), end: afterPartition(partition) };
}

/** The keys of a partition whose sort part begins with `prefix`. */
export function sortPrefixRange(partition: Uint8Array, prefix: Uint8Array): KeyRange {
  const end = prefixEnd(prefix);
  return {
    start: { partition, sort: prefix },
    end: end ? { partition, sort: end } : afterPartition(partition),
  };
}

/** All partitions that begin with `prefix`. */
export function partitionPrefixRange(prefix: Uint8Array): KeyRange {
  const end = prefixEnd(prefix);
  return { start: startOfPartition(prefix), end: end && startOfPartition(end) };
}

/** The smallest bytes above everything that begins with `prefix`; undefined when there are none. */
export function prefixEnd(prefix: Uint8Array): Uint8Array | undefined {
  let last = prefix.length - 1;
  while (last >= 0 && prefix[last] === 0xff) last--;
  if (last < 0) return undefined;
  // Not with `slice`: a Buffer's would share the bytes.
  const end = Uint8Array.from(prefix.subarray(0, last + 1));
  end[last] = end[last]! + 1;
  return end;
}

function next(bytes: Uint8Array): Uint8Array {
  const longer = Buffer.allocUnsafe(bytes.length + 1);
  longer.set(bytes);
  longer[bytes.length] = 0;
  return longer;
}
