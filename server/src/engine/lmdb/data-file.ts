import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statfsSync,
  writeSync,
} from "node:fs";
import { endianness } from "node:os";
import { join } from "node:path";
import { EngineError } from "../engine.ts";

export const DATA_FILE = "data.mdb";
export const LOCK_FILE = "lock.mdb";

/** The page size of a new environment; it determines the limit on key length. */
export const PAGE_BYTES = 8192;
/** LMDB's own limit with pages of this size. */
export const FLAT_KEY_BYTES_MAX = 4026;

/**
 * A disk with less free space is full. Creating the data file and the table of readers takes this much, with
 * a margin; once there is data, writes that only add leave this much to writes that free.
 */
export const SPARE_BYTES = 2 ** 20;
/** More than the initial length of either file. */
const FIRST_FILE_BYTES = 2 ** 17;

// Offsets used by lmdb-js's LMDB, from the beginning of each of the two meta pages, in the machine's byte order.
const LITTLE = endianness() === "LE";
const META_BYTES = 168;
const PAGE_FLAGS_AT = 18;
const BRANCH_PAGE = 1;
const LEAF_PAGE = 2;
const META_PAGE = 8;
const WRITTEN_BY_AT = 8;
const MAGIC_AT = 24;
/** Both files of an environment begin with it. */
export const MAGIC = 0xbeefc0de;
const VERSION_AT = 28;
const DATA_VERSION = 2;
const ADDRESS_AT = 32;
const MAP_BYTES_AT = 40;
const PAGE_SIZE_AT = 48;
/** The trees of free pages and of entries: numbers of branch, leaf and overflow pages, of entries, the root. */
const TREES_AT = [48, 96];
const TREE_OVERFLOW_PAGES_AT = 24;
const TREE_PAGES_AT = [8, 16, TREE_OVERFLOW_PAGES_AT];
const TREE_FLAGS_AT = 4;
const TREE_DEPTH_AT = 6;
const TREE_ROOT_AT = 40;
/** Of these only integer keys occur, in the tree of free pages. */
const KEY_ORDER_FLAGS = 0x7e;
const INTEGER_KEYS = 8;
/** LMDB's own limit on the levels of a tree. */
const DEPTH_MAX = 32;
const LAST_PAGE_AT = 144;
const TRANSACTION_AT = 152;
const NO_ROOT = 2n ** 64n - 1n;
// Of branch and leaf pages.
const LIST_END_AT = 20;
const LIST_AT = 24;
const NODE_HEAD_BYTES = 8;
const NODE_OVERFLOW = 1;

/**
 * Refuses a folder that would crash the process: lmdb-js maps the data file and the table of readers, and a
 * file that is not LMDB's, is truncated or cannot grow shows as a signal, not as an error.
 * @throws EngineError Corrupt, Unavailable.
 */
export function assertCanBeOpened(folder: string): void {
  assertRoomToBegin(folder);
  const file = join(folder, DATA_FILE);
  if (!existsSync(file)) return;
  const descriptor = openSync(file, "r");
  try {
    assertWhole(file, descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Refuses a map that the system would refuse: lmdb-js does not survive that.
 * @throws EngineError Unavailable.
 */
export function assertCanBeMapped(folder: string, mapSizeBytes: number): void {
  const limit = numberIn("/proc/self/limits", /^Max address space +(\d+)/m);
  if (limit === undefined) return;
  const used = (numberIn("/proc/self/status", /^VmSize:\s*(\d+) kB/m) ?? 0) * 1024;
  if (used + mapSizeBytes <= limit) return;
  throw new EngineError(
    "Unavailable",
    `open ${folder}: this process may use ${limit} bytes of address space (ulimit -v); it needs ${used + mapSizeBytes}, of which ${mapSizeBytes} map the data, whatever its size.`,
  );
}

/** A number from a system file; undefined if the file is absent or does not contain it. */
function numberIn(file: string, pattern: RegExp): number | undefined {
  try {
    const found = pattern.exec(readFileSync(file, "latin1"));
    return found ? Number(found[1]) : undefined;
  } catch {
    return undefined;
  }
}

/** The reason a write to this folder fails, if that is a lack of space. */
export function noSpaceLeft(folder: string): string | undefined {
  return freeBytes(folder) < SPARE_BYTES ? `no space left on ${folder}` : undefined;
}

export function freeBytes(folder: string): number {
  return freeBytesOf(statfsSync(folder));
}

/** Infinite if the file system does not report its size: one without any blocks is not full. */
export function freeBytesOf({
  bavail,
  blocks,
  bsize,
}: Readonly<Record<"bavail" | "blocks" | "bsize", number>>): number {
  return blocks === 0 ? Number.POSITIVE_INFINITY : bavail * bsize;
}

function assertRoomToBegin(folder: string): void {
  if (existsSync(join(folder, LOCK_FILE))) return;
  const free = freeBytes(folder);
  if (free < SPARE_BYTES) {
    throw new EngineError(
      "Unavailable",
      `open ${folder}: the disk has ${free} bytes free; at least ${SPARE_BYTES} are required to start.`,
    );
  }
  assertTakesFiles(folder);
}

/** Detects what free space does not show: a quota, a limit on files, a failing disk. */
function assertTakesFiles(folder: string): void {
  const file = join(folder, `trial-${process.pid}`);
  try {
    const descriptor = openSync(file, "w", 0o600);
    try {
      const bytes = new Uint8Array(FIRST_FILE_BYTES);
      for (let at = 0; at < bytes.length; at += writeSync(descriptor, bytes, at));
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
  } finally {
    rmSync(file, { force: true });
  }
}

/** Bytes of the pages in the file that nothing refers to, though a snapshot may still show some of them. */
export function unusedBytes(folder: string): number {
  const descriptor = openSync(join(folder, DATA_FILE), "r");
  try {
    const meta = newerOf(readMeta(descriptor, 0), readMeta(descriptor, PAGE_BYTES));
    let pages = meta.getUint64(LAST_PAGE_AT) + 1n - 2n;
    for (const tree of TREES_AT) {
      for (const at of TREE_PAGES_AT) pages -= meta.getUint64(tree + at);
    }
    return Number(pages) * PAGE_BYTES;
  } finally {
    closeSync(descriptor);
  }
}

/**
 * How many pages the longest lists of free pages take. Each transaction reads and writes such a list again: more than
 * `LONG_FREE_LIST_PAGES` come from a transaction of tens of thousands of scattered entries, or from a snapshot that was held
 * for as many.
 */
export function freeListPages(folder: string): number {
  const descriptor = openSync(join(folder, DATA_FILE), "r");
  try {
    const meta = newerOf(readMeta(descriptor, 0), readMeta(descriptor, PAGE_BYTES));
    return Number(meta.getUint64(TREES_AT[0]! + TREE_OVERFLOW_PAGES_AT));
  } finally {
    closeSync(descriptor);
  }
}

/** 32,000 pages, each listed by itself. */
export const LONG_FREE_LIST_PAGES = 32;

function newerOf(first: Meta, second: Meta): Meta {
  return second.getUint64(TRANSACTION_AT) > first.getUint64(TRANSACTION_AT) ? second : first;
}

/** Processes that write to the file may reuse a page that the meta page read before still refers to. */
function assertWhole(file: string, descriptor: number): void {
  for (let attempt = 1; ; attempt++) {
    const before = readTransactions(descriptor);
    const found = damageOf(descriptor);
    if (found === undefined) return;
    if (attempt === READ_AGAIN_MAX || readTransactions(descriptor) === before) {
      throw corrupt(file, found);
    }
  }
}

/** Two reads in a row that no commit of others disturbed come much sooner. */
const READ_AGAIN_MAX = 1000;

/** What changes with each commit. */
function readTransactions(descriptor: number): string {
  const first = readMeta(descriptor, 0);
  if (first.length < META_BYTES) return "";
  const second = readMeta(descriptor, first.getUint32(PAGE_SIZE_AT));
  return [first, second]
    .map((meta) => (meta.length < META_BYTES ? "" : meta.getUint64(TRANSACTION_AT)))
    .join();
}

function damageOf(descriptor: number): string | undefined {
  const first = readMeta(descriptor, 0);
  // Another process may have just created it.
  if (first.length === 0) return undefined;
  const pageSize = first.length === META_BYTES ? first.getUint32(PAGE_SIZE_AT) : 0;
  const isPageSize = pageSize >= 256 && pageSize <= 2 ** 16 && (pageSize & (pageSize - 1)) === 0;
  if (!isPageSize || first.getUint32(MAGIC_AT) !== MAGIC) return "is not an LMDB file";
  const second = readMeta(descriptor, pageSize);
  if (second.length < META_BYTES || second.getUint32(MAGIC_AT) !== MAGIC) {
    return "lacks its second meta page";
  }
  const newest = newerOf(first, second);
  if (!areInStep(first, second) || !isPlausible(newest, pageSize)) return "has a damaged meta page";
  // Read after the pages: other processes may be writing, and they write a page before they refer to it.
  const { size } = fstatSync(descriptor);
  const pages = Math.floor(size / pageSize);
  const last = Number(newest.getUint64(LAST_PAGE_AT));
  // LMDB does not write free pages at the end, though that is rare.
  if (last >= pages) {
    const missing = firstMissing(descriptor, newest, { pageSize, pages });
    if (missing !== undefined) {
      return `ends after ${size} bytes, before page ${missing}, which it refers to`;
    }
  }
  for (const tree of TREES_AT) {
    const root = newest.getUint64(tree + TREE_ROOT_AT);
    if (root !== NO_ROOT && !isRoot(descriptor, newest, tree, Number(root))) {
      return `has a damaged meta page, or page ${root} is damaged`;
    }
  }
  return undefined;
}

/** Whether the page is one that the meta page can have as the root of a tree. */
function isRoot(descriptor: number, meta: Meta, tree: number, number: number): boolean {
  const page = new DataView(new ArrayBuffer(LIST_AT));
  readSync(descriptor, page, 0, LIST_AT, number * meta.getUint32(PAGE_SIZE_AT));
  const kind = meta.getUint16(tree + TREE_DEPTH_AT) > 1 ? BRANCH_PAGE : LEAF_PAGE;
  return (
    page.getBigUint64(0, LITTLE) === BigInt(number) &&
    page.getBigUint64(WRITTEN_BY_AT, LITTLE) <= meta.getUint64(TRANSACTION_AT) &&
    page.getUint16(PAGE_FLAGS_AT, LITTLE) === kind
  );
}

/** Pages with even transactions are written by turns with those of odd ones. A new file begins with two zeros. */
function areInStep(first: Meta, second: Meta): boolean {
  const even = first.getUint64(TRANSACTION_AT);
  const odd = second.getUint64(TRANSACTION_AT);
  const isNew = even === 0n && odd === 0n;
  return isNew || (even % 2n === 0n && (even === odd + 1n || odd === even + 1n));
}

function isPlausible(meta: Meta, pageSize: number): boolean {
  const last = meta.getUint64(LAST_PAGE_AT);
  const mapped = meta.getUint64(MAP_BYTES_AT);
  if (last > 2n ** 47n / BigInt(pageSize) || mapped > 2n ** 47n) return false;
  if ((meta.getUint32(VERSION_AT) & 0xffff) !== DATA_VERSION || meta.getUint64(ADDRESS_AT) !== 0n) {
    return false;
  }
  if (meta.getUint32(PAGE_SIZE_AT) !== pageSize || meta.getUint16(PAGE_FLAGS_AT) !== META_PAGE) {
    return false;
  }
  return TREES_AT.every((tree, index) => {
    const flags = meta.getUint16(tree + TREE_FLAGS_AT);
    const depth = meta.getUint16(tree + TREE_DEPTH_AT);
    const root = meta.getUint64(tree + TREE_ROOT_AT);
    const pages = TREE_PAGES_AT.reduce((sum, at) => sum + meta.getUint64(tree + at), 0n);
    if ((flags & KEY_ORDER_FLAGS) !== (index === 0 ? INTEGER_KEYS : 0)) return false;
    if (root === NO_ROOT) return depth === 0;
    return root >= 2n && root <= last && depth >= 1 && depth <= DEPTH_MAX && pages <= last + 1n;
  });
}

interface Extent {
  readonly pageSize: number;
  /** How many pages the file has. */
  readonly pages: number;
}

/** The first page found that a tree refers to and the file lacks. Reads all others. */
function firstMissing(descriptor: number, meta: Meta, extent: Extent): number | undefined {
  for (const tree of TREES_AT) {
    const root = meta.getUint64(tree + TREE_ROOT_AT);
    if (root === NO_ROOT) continue;
    const depth = meta.getUint16(tree + TREE_DEPTH_AT);
    const missing = missingBelow(descriptor, Number(root), depth, extent);
    if (missing !== undefined) return missing;
  }
  return undefined;
}

function missingBelow(
  descriptor: number,
  number: number,
  levels: number,
  extent: Extent,
): number | undefined {
  if (number >= extent.pages) return number;
  const page = new DataView(new ArrayBuffer(extent.pageSize));
  readSync(descriptor, page, 0, extent.pageSize, number * extent.pageSize);
  const count = page.getUint16(LIST_END_AT, LITTLE) >> 1;
  for (let index = 0; index < count && LIST_AT + index * 2 + 2 <= extent.pageSize; index++) {
    const node = LIST_AT + page.getUint16(LIST_AT + index * 2, LITTLE);
    if (node + NODE_HEAD_BYTES > extent.pageSize) continue;
    const low = page.getUint32(node, LITTLE);
    const high = page.getUint16(node + 4, LITTLE);
    if (levels > 1) {
      const missing = missingBelow(descriptor, low + high * 2 ** 32, levels - 1, extent);
      if (missing !== undefined) return missing;
    } else if ((high & NODE_OVERFLOW) !== 0) {
      const at = node + NODE_HEAD_BYTES + page.getUint16(node + 6, LITTLE);
      if (at + 8 > extent.pageSize) continue;
      const lastOf = Math.ceil((LIST_AT + low) / extent.pageSize) - 1;
      const last = Number(page.getBigUint64(at, LITTLE)) + lastOf;
      if (last >= extent.pages) return last;
    }
  }
  return undefined;
}

interface Meta {
  readonly length: number;
  getUint16(at: number): number;
  getUint32(at: number): number;
  getUint64(at: number): bigint;
}

function readMeta(descriptor: number, position: number): Meta {
  const bytes = new DataView(new ArrayBuffer(META_BYTES));
  const length = readSync(descriptor, bytes, 0, META_BYTES, position);
  return {
    length,
    getUint16: (at) => bytes.getUint16(at, LITTLE),
    getUint32: (at) => bytes.getUint32(at, LITTLE),
    getUint64: (at) => bytes.getBigUint64(at, LITTLE),
  };
}

function corrupt(file: string, what: string): EngineError {
  return new EngineError("Corrupt", `${file} ${what}. Restore it from a backup.`);
}
