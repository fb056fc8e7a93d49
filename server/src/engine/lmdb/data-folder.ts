import { statSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import type { Store } from "./binding.ts";
import { DATA_FILE, freeBytes, LOCK_FILE, noSpaceLeft, unusedBytes } from "./data-file.ts";

/** A check takes 7 µs: too much for every commit. */
const LOOK_EVERY_MS = 1000;
const READERS_EVERY_MS = 60_000;
/** No disk loses this much free space in that time. */
const PLENTY_BYTES = 4 * 2 ** 30;
/** Unused pages may be scattered or still shown by a snapshot: this many times the bytes needed suffice. */
const UNUSED_TIMES = 4;

/**
 * The folder of an open environment, and what may happen to it: processes that read it are killed, its files
 * are removed or replaced, its disk fills up.
 */
export class DataFolder {
  readonly path: string;
  readonly #clock: Clock;
  readonly #opened: string;
  readonly #store: Store;
  #lookedAt: number;
  #readersAt: number;
  /** When the disk last had plenty of room. */
  #plentyAt = Number.NEGATIVE_INFINITY;

  constructor(path: string, clock: Clock, store: Store) {
    this.path = path;
    this.#clock = clock;
    this.#opened = this.#fileIdentities();
    this.#store = store;
    this.#lookedAt = clock.now();
    store.readerCheck();
    this.#readersAt = this.#lookedAt;
  }

  /**
   * Releases the snapshots of processes that were killed, which would hold their pages for ever and let the
   * file grow. Checks at most once a minute.
   */
  releaseDeadReaders(): void {
    const now = this.#clock.now();
    if (Math.abs(now - this.#readersAt) < READERS_EVERY_MS) return;
    this.#readersAt = now;
    this.#store.readerCheck();
  }

  /**
   * Whether the files are no longer those that were opened. Writes to a removed data file are lost when the
   * process ends; with another lock file, another process would write at the same time as this one and
   * corrupt the tree of both. Checks at most once a second.
   */
  isGone(): boolean {
    const now = this.#clock.now();
    if (Math.abs(now - this.#lookedAt) < LOOK_EVERY_MS) return false;
    this.#lookedAt = now;
    return this.isGoneNow();
  }

  isGoneNow(): boolean {
    return this.#fileIdentities() !== this.#opened;
  }

  /**
   * Whether a commit finds room for this many bytes, on the disk or in the file. Call it while LMDB's lock is held.
   */
  hasRoomFor(bytes: number): boolean {
    const now = this.#clock.now();
    if (Math.abs(now - this.#plentyAt) < LOOK_EVERY_MS) return true;
    try {
      const free = freeBytes(this.path);
      if (free > PLENTY_BYTES) this.#plentyAt = now;
      return free >= bytes || unusedBytes(this.path) >= bytes * UNUSED_TIMES;
    } catch {
      // The folder is gone: see `isGone`.
      return true;
    }
  }

  noSpaceLeft(): string | undefined {
    try {
      return noSpaceLeft(this.path);
    } catch {
      // The folder is gone, which is not a lack of space.
      return undefined;
    }
  }

  #fileIdentities(): string {
    return [DATA_FILE, LOCK_FILE].map((name) => identityOf(join(this.path, name))).join();
  }
}

/** Undefined if there is no file, or it cannot be read: it must then be assumed to be another one. */
function identityOf(file: string): string | undefined {
  try {
    const { dev, ino } = statSync(file);
    return `${dev}:${ino}`;
  } catch {
    return undefined;
  }
}
