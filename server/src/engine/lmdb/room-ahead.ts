import { closeSync, constants, fstatSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { DATA_FILE, freeBytes, PAGE_BYTES } from "./data-file.ts";
import type { MemoryMap } from "./memory-map.ts";

/** With fewer pages left behind the last one in use, the file is made longer by as many. */
const PAGES = 128;
/** What has less room is a small disk, where nothing is taken before it is needed. */
const FREE_BYTES_MIN = 2 ** 30;

/**
 * Keeps the data file longer than LMDB needs it, by zeros that are written page by page.
 *
 * Linux caches a file in pieces as large as the writes that made it longer, up to megabytes, and ext4
 * looks at every block of a piece when a page in it is written, and again when it is flushed. LMDB
 * makes the file longer by many pages at once, so that to write one of them anew took 30 µs of a
 * processor; in pieces of one page it takes 11. Besides, a flush that finds the file as long as it
 * was has no journal to write. Of 64 clients an insert takes 0.80 of the processor that it took, an
 * upsert or merge 0.85.
 *
 * Zeros are appended, which the system does behind all that anybody wrote: no page can be overwritten,
 * whoever else makes the file longer at this moment. LMDB never asks how long it is.
 */
export class RoomAhead {
  readonly #folder: string;
  readonly #map: MemoryMap;
  readonly #file: number;
  /** So many pages the file has at least. */
  #pages = 0;

  constructor(folder: string, map: MemoryMap) {
    this.#folder = folder;
    this.#map = map;
    this.#file = openSync(join(folder, DATA_FILE), constants.O_WRONLY | constants.O_APPEND);
  }

  /** To be called before each commit. */
  keep(): void {
    const wanted = this.#map.pagesUsed() + PAGES;
    if (wanted <= this.#pages) return;
    try {
      this.#pages = Math.floor(fstatSync(this.#file).size / PAGE_BYTES);
      if (wanted > this.#pages && freeBytes(this.#folder) >= FREE_BYTES_MIN) this.#append();
    } catch {
      // No room for so much: LMDB will find out what there is room for.
      this.#pages = Number.POSITIVE_INFINITY;
    }
  }

  close(): void {
    closeSync(this.#file);
  }

  #append(): void {
    for (let i = 0; i < PAGES; i++) writeSync(this.#file, ZEROS);
    this.#pages += PAGES;
  }
}

const ZEROS = new Uint8Array(PAGE_BYTES);
