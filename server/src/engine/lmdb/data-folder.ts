import { statSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import type { Store } from "./binding.ts";
import { DATA_FILE, freeBytes, LOCK_FILE, noSpaceLeft, unusedBytes } from "./data-file.ts";

/** A look takes 7 µs: too much for every commit. */
const LOOK_EVERY_MS = 1000;
const READERS_EVERY_MS = 60_000;
/** No disk is filled so far in that time. */
const PLENTY_BYTES = 4 * 2 ** 30;
/** Pages that nothing refers to lie apart, or are shown by a snapshot: so many times what is needed is enough. */
const UNUSED_TIMES = 4;

/** The folder of an environment that is open, and what can happen to it meanwhile. */
export class DataFolder {
  readonly path: string;
  readonly #clock: Clock;
  readonly #opened: string;
  readonly #store: Store;
  #lookedAt: number;
  #readersAt: number;
  /** When there was last seen to be plenty of room. */
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
   * Lets go of the snapshots of processes that were killed, which would keep their pages for ever and
   * have the file grow. Looked for once a minute at most.
   */
  letDeadReadersGo(): void {
    const now = this.#clock.now();
    if (Math.abs(now - this.#readersAt) < READERS_EVERY_MS) return;
    this.#readersAt = now;
    this.#store.readerCheck();
  }

  /**
   * Whether the files are no longer those that were opened. What is written to a data file that was
   * removed is gone with the process; with another lock file, another process would write beside this
   * one and break the tree of both. Looked at once a second at most.
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

  /** Whether a commit finds room for so many bytes, on the disk or in the file. To be asked where LMDB's lock is held. */
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
      // The folder is gone, which is not for want of space.
      return undefined;
    }
  }

  #fileIdentities(): string {
    return [DATA_FILE, LOCK_FILE].map((name) => identityOf(join(this.path, name))).join();
  }
}

/** Undefined where there is no file, or where it cannot be looked at: for all we know it is another one then. */
function identityOf(file: string): string | undefined {
  try {
    const { dev, ino } = statSync(file);
    return `${dev}:${ino}`;
  } catch {
    return undefined;
  }
}
