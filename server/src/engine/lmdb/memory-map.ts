import { readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { EngineError } from "../engine.ts";
import { viewMemory } from "./binding.ts";
import { DATA_FILE, LOCK_FILE, MAGIC, PAGE_BYTES } from "./data-file.ts";

/**
 * The data file as LMDB has it mapped, read without a call into the native layer. Scans read in it:
 * a call for each entry and a copy of its value take 350 ns, walking the pages 100.
 *
 * What makes that safe: pages are copied on write and used again only when no reader shows them, and
 * the caller holds a snapshot, begun by LMDB, for as long as it reads; lmdb-js unmaps nothing before
 * the environment is closed, when its file outgrows the map neither. `docs/internals/storage-format.md`
 * draws meta pages and all others. Where the map cannot be found (the system is not Linux) or is not
 * what is drawn there, scans go through the binding.
 */
export class MemoryMap {
  readonly #folder: string;
  #start: number;
  #bytes: number;
  readonly #commits: Int32Array;
  #windows: Window[] = [];

  private constructor(folder: string, data: Mapping, lock: Mapping) {
    this.#folder = folder;
    this.#start = data.start;
    this.#bytes = data.bytes;
    const { buffer, byteOffset } = viewMemory(lock.start, COMMITS_BYTES);
    this.#commits = new Int32Array(buffer, byteOffset, COMMITS_BYTES / 4);
  }

  /** @param folder of an environment that is open and has been written to */
  static of(folder: string): MemoryMap | undefined {
    if (process.platform !== "linux") return undefined;
    const place = realpathSync(folder);
    const data = largestMapping(join(place, DATA_FILE));
    const lock = largestMapping(join(place, LOCK_FILE));
    if (data === undefined || lock === undefined) return undefined;
    const map = new MemoryMap(place, data, lock);
    return map.#isKnown() ? map : undefined;
  }

  /**
   * The number of the newest commit that is durable, in 32 bits; a snapshot that begins now shows it
   * or a newer one. Loaded anew each time, behind everything before it: other processes write it.
   */
  newestCommit(): number {
    return Atomics.load(this.#commits, COMMITS_NEWEST);
  }

  /**
   * The page at which the tree of entries begins, of the newest commit that is durable. A snapshot
   * must have been begun: it keeps this commit's pages, too, should it be older. Undefined when the
   * file has outgrown the map and LMDB has not yet made another.
   */
  root(): number | undefined {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      // LMDB raises this number when the meta page is on disk; until then nobody may see the commit.
      const commit = this.newestCommit();
      const { words } = this.#windowOf(0);
      const meta = ((commit & 1) * PAGE_BYTES + META_AT) >> 2;
      const isThere = words[meta + META_COMMIT]! === commit >>> 0;
      const root = readPageNumber(words, meta + META_ROOT);
      const last = readPageNumber(words, meta + META_LAST_PAGE);
      // The page of a commit is written again by the second one after it, so not before the next is known.
      if (!isThere || this.newestCommit() !== commit) continue;
      const bytes = (last + 1) * PAGE_BYTES;
      if (bytes > this.#bytes) this.#follow();
      return bytes > this.#bytes ? undefined : root;
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

  /** What stands on overflow pages, behind the head of the first. It changes for nobody and takes no writes. */
  overflow(number: number, length: number): Uint8Array {
    const { bytes, start } = this.#windowOf(number);
    const at = number * PAGE_BYTES - start + PAGE_HEAD_BYTES;
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
    if (length <= 0) throw new EngineError("Corrupt", "A page lies behind the end of the store.");
    const bytes = viewMemory(this.#start + start, length);
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, length >> 2);
    const window = { start, bytes, words };
    this.#windows[index] = window;
    return window;
  }

  /** The file has outgrown the map, and LMDB has made another. */
  #follow(): void {
    const data = largestMapping(join(this.#folder, DATA_FILE));
    if (data === undefined) throw new EngineError("Unavailable", "The map of the store is gone.");
    this.#start = data.start;
    this.#bytes = data.bytes;
    this.#windows = [];
  }

  #isKnown(): boolean {
    const { words } = this.#windowOf(0);
    const meta = META_AT >> 2;
    return (
      this.#commits[0]! >>> 0 === MAGIC &&
      words[meta] === MAGIC &&
      words[meta + META_VERSION] === DATA_VERSION &&
      words[meta + META_PAGE_BYTES] === PAGE_BYTES
    );
  }
}

/**
 * Has the disk set aside all that the table of readers takes. LMDB makes its file as one hole, which
 * readers fill as memory, and memory that a full disk has no room for is a signal that ends the process.
 */
export function fillReaderTable(folder: string): void {
  if (process.platform !== "linux") return;
  const table = largestMapping(join(realpathSync(folder), LOCK_FILE));
  if (table === undefined) return;
  const { buffer, byteOffset } = viewMemory(table.start, table.bytes);
  const words = new Int32Array(buffer, byteOffset, table.bytes >> 2);
  // A write that changes nothing, whoever reads and writes there meanwhile.
  for (let at = 0; at < words.length; at += 1024) Atomics.add(words, at, 0);
}

export const PAGE_HEAD_BYTES = 24;

/** A part of the map. */
interface Window {
  /** Where in the file it begins. */
  readonly start: number;
  readonly bytes: Uint8Array;
  readonly words: Uint32Array;
}

/** One GiB; positions in larger ones are no small integers to V8. */
const WINDOW_PAGES = 2 ** 30 / PAGE_BYTES;

const META_AT = PAGE_HEAD_BYTES;
const DATA_VERSION = 2;
// In words of four bytes from the start of the meta.
const META_VERSION = 1;
const META_PAGE_BYTES = 6;
const META_ROOT = 28;
const META_LAST_PAGE = 30;
const META_COMMIT = 32;

/** What the lock file begins with: magic, format, number of the newest commit. */
const COMMITS_BYTES = 16;
const COMMITS_NEWEST = 2;

/** Each takes two commits in the time of a few loads. */
const TRIES_MAX = 1000;

function readPageNumber(words: Uint32Array, at: number): number {
  return words[at]! + words[at + 1]! * 2 ** 32;
}

interface Mapping {
  readonly start: number;
  readonly bytes: number;
}

/** Of all that is mapped of a file, the largest: it is the newest, for the smaller ones were outgrown. */
function largestMapping(path: string): Mapping | undefined {
  let largest: Mapping | undefined;
  for (const line of mappings().split("\n")) {
    // The path was escaped as bytes, and comes after five fields.
    if (!Buffer.from(line, "latin1").toString("utf8").endsWith(` ${path}`)) continue;
    const [start = 0, end = 0] = line
      .slice(0, line.indexOf(" "))
      .split("-")
      .map((hex) => Number.parseInt(hex, 16));
    if (largest === undefined || end - start > largest.bytes) {
      largest = { start, bytes: end - start };
    }
  }
  return largest;
}

function mappings(): string {
  try {
    return readFileSync("/proc/self/maps", "latin1");
  } catch {
    // A container may have no /proc.
    return "";
  }
}
