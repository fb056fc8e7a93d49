import { realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { EngineError } from "../engine.ts";
import { type Store, viewMemory } from "./binding.ts";
import { LOCK_FILE, MAGIC } from "./data-file.ts";
import { largestMapping } from "./mapping.ts";

/**
 * The number of the newest durable commit, which LMDB keeps in the shared memory of the lock file. Readers and the next
 * writer begin there.
 *
 * It may fall: a process that opens the folder sets it to what it read from the file a moment before, without a lock, and
 * so takes back what others committed in between (`mdb_env_open2` of LMDB 1.0). A writer that began there would write
 * over acknowledged commits. So each write transaction compares it with the file, and each read with a number of our own:
 * the newest commit that any process was about to acknowledge, in bytes that pad a slot of LMDB's table of readers.
 * Whoever sees that it has fallen raises it.
 *
 * Numbers are compared in 32 bits: commits are numbered without a gap.
 */
export class CommitNumbers {
  readonly #store: Store;
  readonly #folder: string;
  readonly #shared: SharedNumbers | undefined;

  /** @param store open in this folder */
  constructor(store: Store, folder: string) {
    this.#store = store;
    this.#folder = folder;
    this.#shared = SharedNumbers.of(folder);
  }

  /** Whether the shared memory was found: the system is Linux, and has /proc. */
  get areShared(): boolean {
    return this.#shared !== undefined;
  }

  /** A snapshot that begins now shows this commit or a newer one. Other processes change it. */
  newest(): number {
    const shared = this.#sharedNumbers();
    if (shared.hasFallen()) this.raise();
    return shared.newest();
  }

  /** Whether a snapshot that has just begun may lack an acknowledged commit. */
  hasFallen(): boolean {
    return this.#shared?.hasFallen() ?? false;
  }

  raise(): void {
    this.#sharedNumbers().raise(this.#written());
  }

  /**
   * Whether the write transaction that has just begun follows the newest commit. If not, end it without a change, and
   * begin another one.
   * @throws EngineError Unavailable if the number cannot be raised
   */
  isFollowedBy(transaction: number): boolean {
    const written = this.#written();
    if (transaction === written + 1) return true;
    if (this.#shared === undefined) {
      throw new EngineError(
        "Unavailable",
        `Another process opened ${this.#folder} during a commit: nothing can be written until all are restarted, one after the other.`,
      );
    }
    this.#shared.settle(written);
    return false;
  }

  /** Call it inside a write transaction: an earlier file may have left larger numbers in the shared memory. */
  settle(): void {
    this.#shared?.settle(this.#written());
  }

  /** Call it when the commit is durable, before it is acknowledged. */
  acknowledge(commit: number): void {
    this.#shared?.acknowledge(commit);
  }

  /** The newest commit in the file. Until LMDB's lock was free, it may be not durable yet. */
  #written(): number {
    return this.#store.env.info().lastTxnId;
  }

  #sharedNumbers(): SharedNumbers {
    if (this.#shared === undefined) throw new Error("The shared memory was not found.");
    return this.#shared;
  }
}

class SharedNumbers {
  readonly #words: Int32Array;
  readonly #newest: BigInt64Array;
  readonly #acknowledgedAt: number;

  private constructor(page: Uint8Array, acknowledgedAt: number) {
    this.#words = new Int32Array(page.buffer, page.byteOffset, page.length / 4);
    this.#newest = new BigInt64Array(page.buffer, page.byteOffset + NEWEST_AT, 1);
    this.#acknowledgedAt = acknowledgedAt / 4;
  }

  static of(folder: string): SharedNumbers | undefined {
    const file = join(realpathSync(folder), LOCK_FILE);
    const mapping = largestMapping(file);
    if (mapping === undefined) return undefined;
    // The table ends with the file. Its first page is always on disk: a full disk has no room for the page of a hole, and
    // would end the process.
    const { size } = statSync(file);
    const slotsBeyond = Math.max(0, Math.ceil((size - MEMORY_PAGE_BYTES) / SLOT_BYTES));
    const acknowledgedAt = size - slotsBeyond * SLOT_BYTES - 4;
    const page = viewMemory(mapping.start, MEMORY_PAGE_BYTES);
    const numbers = new SharedNumbers(page, acknowledgedAt);
    return numbers.#words[0]! >>> 0 === MAGIC ? numbers : undefined;
  }

  /** Loaded atomically each time, after all earlier loads. */
  newest(): number {
    return Atomics.load(this.#words, NEWEST_AT / 4);
  }

  hasFallen(): boolean {
    return this.#isOld(this.newest());
  }

  raise(written: number): void {
    const fallen = Atomics.load(this.#newest, 0);
    if (!this.#isOld(Number(BigInt.asIntN(32, fallen)))) return;
    // The one before is durable, as its successor was begun.
    const durable = this.#isOld(written - 1) ? written : written - 1;
    Atomics.compareExchange(this.#newest, 0, fallen, BigInt(durable));
  }

  settle(written: number): void {
    Atomics.store(this.#newest, 0, BigInt(written));
    Atomics.store(this.#words, this.#acknowledgedAt, written | 0);
  }

  acknowledge(commit: number): void {
    for (;;) {
      const stored = Atomics.load(this.#words, this.#acknowledgedAt);
      if (!isBefore(stored, commit)) return;
      const before = Atomics.compareExchange(this.#words, this.#acknowledgedAt, stored, commit | 0);
      if (before === stored) return;
    }
  }

  #isOld(commit: number): boolean {
    return isBefore(commit, Atomics.load(this.#words, this.#acknowledgedAt));
  }
}

const MEMORY_PAGE_BYTES = 4096;
/** Behind magic and format. */
const NEWEST_AT = 8;
/** A cache line, of which a reader uses 24 bytes. */
const SLOT_BYTES = 64;

function isBefore(a: number, b: number): boolean {
  return ((a - b) | 0) < 0;
}
