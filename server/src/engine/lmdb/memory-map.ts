import { realpathSync } from "node:fs";
import { join } from "node:path";
import { EngineError } from "../engine.ts";
import { viewMemory } from "./binding.ts";
import type { CommitNumbers } from "./commit-numbers.ts";
import { DATA_FILE, LOCK_FILE, MAGIC, PAGE_BYTES } from "./data-file.ts";
import { largestMapping, type Mapping } from "./mapping.ts";

/**
 * The data file as LMDB has it mapped, read without calls into the native layer. Scans read it: one call per
 * entry and a copy of its value take 350 ns, walking the pages 100.
 *
 * Why this is safe: pages are copied on write and reused only when no reader shows them, and the caller holds
 * a snapshot, begun by LMDB, for as long as it reads; lmdb-js unmaps nothing before the environment is closed,
 * not even when the file outgrows the map. `docs/internals/storage-format.md` draws meta pages and all others.
 * If the map cannot be found (the system is not Linux) or is not as drawn there, scans go through the binding.
 */
export class MemoryMap {
  readonly #folder: string;
  #start: number;
  #bytes: number;
  readonly #commits: CommitNumbers;
  #windows: Window[] = [];

  private constructor(folder: string, data: Mapping, commits: CommitNumbers) {
    this.#folder = folder;
    this.#start = data.start;
    this.#bytes = data.bytes;
    this.#commits = commits;
  }

  /** @param folder of an environment that is open and has been written to */
  static of(folder: string, commits: CommitNumbers): MemoryMap | undefined {
    if (!commits.areShared) return undefined;
    const place = realpathSync(folder);
    const data = largestMapping(join(place, DATA_FILE));
    if (data === undefined) return undefined;
    const map = new MemoryMap(place, data, commits);
    return map.#isKnown() ? map : undefined;
  }

  /**
   * The tree of entries as of the newest durable commit. A snapshot must have been begun:
   * it protects this commit's pages too, even if it is older. Undefined if the file has outgrown the map and
   * LMDB has not mapped it again yet.
   */
  tree(): Tree | undefined {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      // LMDB raises this number once the meta page is on disk; until then no reader may see the commit.
      const commit = this.#commits.newest();
      const { words } = this.#windowOf(0);
      const meta = ((commit & 1) * PAGE_BYTES + META_AT) >> 2;
      const isThere = words[meta + META_COMMIT]! === commit >>> 0;
      const root = readPageNumber(words, meta + META_ROOT);
      const depth = words[meta + META_FLAGS_AND_DEPTH]! >>> 16;
      const last = readPageNumber(words, meta + META_LAST_PAGE);
      // The second commit after this one overwrites its meta page, but only once the next one's number is
      // out: if the number has not changed, what was read is whole.
      if (!isThere || this.#commits.newest() !== commit) continue;
      const bytes = (last + 1) * PAGE_BYTES;
      if (bytes > this.#bytes) this.#follow();
      return bytes > this.#bytes ? undefined : { root, depth, last };
    }
    throw new EngineError(
      "Unavailable",
      "The store commits faster than its meta page can be read.",
    );
  }

  /** Copies a page to `out`. */
  copyPage(number: number, out: Uint8Array): void {
    const { bytes, start } = this.#windowOf(number);
    const at = number * PAGE_BYTES - start;
    out.set(bytes.subarray(at, at + PAGE_BYTES));
  }

  /**
   * The bytes on overflow pages, the header of the first one included. They never change and are read-only.
   */
  overflow(number: number, length: number): Uint8Array {
    const { bytes, start } = this.#windowOf(number);
    const at = number * PAGE_BYTES - start;
    if (at + length <= bytes.length) return bytes.subarray(at, at + length);
    return viewMemory(this.#start + start + at, length);
  }

  #windowOf(page: number): Window {
    const index = Math.floor(page / WINDOW_PAGES);
    return this.#windows[index] ?? this.#open(index);
  }

  #open(index: number): Window {
    const start = index * WINDOW_PAGES * PAGE_BYTES;
    const length = Math.min(WINDOW_PAGES * PAGE_BYTES, this.#bytes - start);
    if (length <= 0) throw new EngineError("Corrupt", "A page is beyond the end of the data file.");
    const bytes = viewMemory(this.#start + start, length);
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, length >> 2);
    const window = { start, bytes, words };
    this.#windows[index] = window;
    return window;
  }

  /** Switches to the new map that LMDB made because the file has outgrown the old one. */
  #follow(): void {
    const data = largestMapping(join(this.#folder, DATA_FILE));
    if (data === undefined)
      throw new EngineError("Unavailable", "The data file is no longer mapped into memory.");
    this.#start = data.start;
    this.#bytes = data.bytes;
    this.#windows = [];
  }

  #isKnown(): boolean {
    const { words } = this.#windowOf(0);
    const meta = META_AT >> 2;
    return (
      words[meta] === MAGIC &&
      words[meta + META_VERSION] === DATA_VERSION &&
      words[meta + META_PAGE_BYTES] === PAGE_BYTES
    );
  }
}

/**
 * Makes the disk allocate the whole table of readers. LMDB creates the file as one hole, which readers fill
 * through memory; if a full disk has no room for such a page, a signal ends the process.
 */
export function fillReaderTable(folder: string): void {
  const table = largestMapping(join(realpathSync(folder), LOCK_FILE));
  if (table === undefined) return;
  const { buffer, byteOffset } = viewMemory(table.start, table.bytes);
  const words = new Int32Array(buffer, byteOffset, table.bytes >> 2);
  // A write that changes nothing, even while other processes read and write there.
  for (let at = 0; at < words.length; at += 1024) Atomics.add(words, at, 0);
}

export const PAGE_HEAD_BYTES = 24;

/** The tree of entries in one state of the file. */
export interface Tree {
  /** Its root page; meaningless if the tree has no levels. */
  readonly root: number;
  /** The number of levels: the leaves are all on the last one. */
  readonly depth: number;
  /** The last page of the file: no page of the tree has a larger number. */
  readonly last: number;
}

/** A part of the map, short enough for small integers. */
interface Window {
  /** The offset in the file at which it begins. */
  readonly start: number;
  readonly bytes: Uint8Array;
  readonly words: Uint32Array;
}

/** 1 GiB; positions in larger windows would not be small integers in V8. */
const WINDOW_PAGES = 2 ** 30 / PAGE_BYTES;

const META_AT = PAGE_HEAD_BYTES;
const DATA_VERSION = 2;
// In words of four bytes from the start of the meta data.
const META_VERSION = 1;
const META_PAGE_BYTES = 6;
const META_FLAGS_AND_DEPTH = 19;
const META_ROOT = 28;
const META_LAST_PAGE = 30;
const META_COMMIT = 32;

/** A try fails only if a commit finishes within the time of a few loads. */
const TRIES_MAX = 1000;

function readPageNumber(words: Uint32Array, at: number): number {
  return words[at]! + words[at + 1]! * 2 ** 32;
}
