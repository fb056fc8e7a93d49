import type { AtomicWrite, Change, CommitResult, Key, Premise, Updated } from "../engine.ts";
import { EngineError } from "../engine.ts";
import type { VersionClock } from "../version-clock.ts";
import { type Store, WriteTransactions } from "./binding.ts";
import type { CommitNumbers } from "./commit-numbers.ts";
import { PAGE_BYTES, SPARE_BYTES } from "./data-file.ts";
import type { DataFolder } from "./data-folder.ts";
import { toEngineError } from "./lmdb-errors.ts";
import { readMeta, writeMeta } from "./meta-record.ts";
import type { Seals } from "./sealed-value.ts";
import { type Thrown, WriteApplier } from "./write-applier.ts";

/** A group stops growing at this size: applying it blocks the event loop, 3 µs per key. */
const GROUP_KEYS_MAX = 2000;
/** … and at this one: LMDB holds the changed pages of a transaction in memory. */
const GROUP_BYTES_MAX = 16 << 20;

/**
 * Groups up to this size in which no write only adds are tried even on a full disk: they may fit, and failing
 * is harmless.
 */
const SMALL_BYTES = 64 << 10;
/** What a key may take in addition to its value: its leaf is copied, and may be split. */
const KEY_BYTES = 2 * PAGE_BYTES;
/** … and a commit: branches, and the list of pages that it frees. */
const COMMIT_BYTES = 32 * PAGE_BYTES;

/**
 * Versions are reserved on disk this many microseconds ahead, so that the record is written at most ten times
 * a second. After a restart versions continue above the reserved one.
 */
const VERSIONS_AHEAD = 100_000;

/** Why commits are refused, and whether that lasts until a restart. */
export interface Refusal {
  readonly reason: string;
  readonly untilRestart: boolean;
}

interface Waiting {
  /** Runs inside the transaction. */
  apply(): void;
  /** Reports the result, once it is on disk. */
  answer(): void;
  reject(error: EngineError): void;
}

/**
 * Group commit: commits that arrive while a transaction is being flushed wait, and share the next one. Inside
 * it they are applied one after the other, each seeing the ones before it. All are answered after its flush,
 * which happens on a thread of libuv's pool.
 *
 *   idle ──commit──▶ requested ──begun──▶ applied ──flushed──▶ on disk ──▶ answered
 *                        ▲                                                   │
 *                        └──────────────── if commits wait ──────────────────┘
 *
 * Up to "applied" nothing is on disk and no reader sees anything: the changed pages are in memory. The thread
 * writes and flushes them, then writes and flushes the meta page that makes them visible. From then on the
 * group is on disk, readers see it, and it may be answered, never before.
 *
 * A group is answered as soon as it is on disk, and the next one is requested a turn of the event loop later:
 * some of the writers that were answered have then committed again, and share it. Requesting it before
 * answering, so that the disk is never idle, does not pay: groups are halved, and 16 writers lose up to a tenth.
 */
export class GroupCommit {
  /** Transactions that were flushed, the commits in them, and the most commits that shared one. */
  readonly counts = { groups: 0, commits: 0, groupCommitsMax: 0 };
  readonly #store: Store;
  readonly #transactions: WriteTransactions;
  readonly #folder: DataFolder;
  readonly #writes: WriteApplier;
  readonly #numbers: CommitNumbers;
  #versionsReserved: number;
  /** The last transaction of this process that wrote something. */
  #lastTransaction = -1;
  #waiting: Waiting[] = [];
  /** How many of the waiting commits are tried one by one, because their group failed. */
  #alone = 0;
  #running: Promise<void> | undefined;
  #broken: EngineError | undefined;
  /** The failure of the last group, if it failed. */
  #failure: EngineError | undefined;

  constructor(
    store: Store,
    folder: DataFolder,
    versions: VersionClock,
    {
      versionsReserved,
      seals,
      numbers,
    }: {
      readonly versionsReserved: number;
      readonly seals: Seals;
      readonly numbers: CommitNumbers;
    },
  ) {
    this.#store = store;
    this.#transactions = new WriteTransactions(store);
    this.#folder = folder;
    this.#writes = new WriteApplier(store, versions, seals);
    this.#versionsReserved = versionsReserved;
    this.#numbers = numbers;
  }

  commit(write: AtomicWrite): Promise<CommitResult> {
    let result: CommitResult;
    return new Promise((resolve, reject) => {
      this.#join({
        apply: () => {
          result = this.#writes.commit(write);
        },
        answer: () => resolve(result),
        reject,
      });
    });
  }

  /** If `change` throws, only this update fails, with that error. */
  update(
    key: Key,
    version: number,
    change: Change,
    premise?: Premise,
  ): Promise<Updated | undefined> {
    let outcome: Updated | Thrown | undefined;
    return new Promise((resolve, reject) => {
      this.#join({
        apply: () => {
          outcome = this.#writes.update(key, version, change, premise);
        },
        answer: () => (outcome && "thrown" in outcome ? reject(outcome.thrown) : resolve(outcome)),
        reject,
      });
    });
  }

  /** @param keys at most `COMMIT_KEYS_MAX` */
  seal(keys: readonly Key[]): Promise<void> {
    return this.#inTransaction(() => this.#writes.seal(keys));
  }

  /** Records that every value has a checksum. */
  endSealing(): Promise<void> {
    return this.#inTransaction(() => {
      const stored = readMeta(this.#store);
      if (stored) writeMeta(this.#store, { ...stored, lacksChecksums: false });
    });
  }

  #inTransaction(apply: () => void): Promise<void> {
    return new Promise((answer, reject) => this.#join({ apply, answer, reject }));
  }

  #join(waiting: Waiting): void {
    if (this.#broken) {
      waiting.reject(this.#broken);
      return;
    }
    this.#waiting.push(waiting);
    this.#running ??= this.#run();
  }

  refusal(): Refusal | undefined {
    if (!this.#broken && this.#folder.isGoneNow()) this.#broken = this.#folderGone();
    if (this.#broken) return { reason: this.#broken.message, untilRestart: true };
    const reason = this.#folder.noSpaceLeft() ?? this.#failure?.message;
    return reason === undefined ? undefined : { reason, untilRestart: false };
  }

  /** Resolves once every commit has been answered. */
  async whenIdle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  /** Runs one transaction after the other while commits wait: LMDB has one writer. */
  async #run(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#broken) {
      await nextTurn();
      await this.#runGroup();
    }
    this.#running = undefined;
    if (this.#broken) refuse(this.#waiting.splice(0), this.#broken);
  }

  async #runGroup(): Promise<void> {
    if (this.#folder.isGone()) {
      this.#broken = this.#folderGone();
      return;
    }
    this.#folder.releaseDeadReaders();
    const group: Waiting[] = [];
    let transaction: number | undefined;
    let hasWritten = false;
    try {
      await this.#transactions.run(() => {
        transaction = this.#store.getWriteTxnId();
        if (!this.#numbers.isFollowedBy(transaction)) throw BEGIN_AGAIN;
        this.#writes.begin(transaction, this.#othersNewest(transaction));
        this.#applyTo(group);
        this.#assertRoom();
        this.#reserveVersions();
        hasWritten = this.#writes.extent.hasWritten;
      });
    } catch (error) {
      // No commit was taken from the queue.
      if (error === BEGIN_AGAIN) return;
      const hasBegun = transaction !== undefined;
      const canGoOn = hasBegun && (await this.#canBegin());
      const mayHaveHappened = hasBegun && !canGoOn;
      // If the transaction could not begin, no commit was taken from the queue.
      const failed = group.length > 0 ? group : this.#waiting.splice(0);
      this.#fail(failed, error, { canGoOn, mayHaveHappened });
      return;
    }
    if (hasWritten && transaction !== undefined) {
      this.#lastTransaction = transaction;
      this.#numbers.acknowledge(transaction);
    }
    this.#failure = undefined;
    this.counts.groups++;
    this.counts.commits += group.length;
    this.counts.groupCommitsMax = Math.max(this.counts.groupCommitsMax, group.length);
    for (const each of group) each.answer();
  }

  /** Applies waiting commits, as many as a group may hold, but at least one, whatever its size. */
  #applyTo(group: Waiting[]): void {
    const { extent } = this.#writes;
    const isAlone = this.#alone > 0;
    if (isAlone) this.#alone--;
    try {
      for (const each of this.#waiting) {
        if (isAlone && group.length > 0) break;
        if (extent.keys > GROUP_KEYS_MAX || extent.bytes > GROUP_BYTES_MAX) break;
        group.push(each);
        each.apply();
      }
    } finally {
      this.#waiting.splice(0, group.length);
    }
  }

  /**
   * A large write that the disk would refuse must not be tried: lmdb-js formats its positions and sizes into
   * 100 bytes, which large numbers overflow, and this has crashed the process. And writes that only add must
   * leave some room: a delete needs pages too, and without any the server could never free space on its disk.
   */
  #assertRoom(): void {
    const { bytes, keys, onlyAdds } = this.#writes.extent;
    if (bytes <= SMALL_BYTES && !onlyAdds) return;
    const spare = onlyAdds ? SPARE_BYTES : COMMIT_BYTES;
    if (this.#folder.hasRoomFor(bytes + keys * KEY_BYTES + spare)) return;
    throw new EngineError("Unavailable", `no space left on ${this.#folder.path}`);
  }

  /**
   * The last step of a commit writes the page that makes it visible. If that fails, the commit may have
   * happened all the same, and LMDB lets no transaction begin again. If anything else fails, such as writing
   * to a full disk, nothing happened, and the next commit may succeed.
   */
  #fail(
    group: Waiting[],
    error: unknown,
    { canGoOn, mayHaveHappened }: { canGoOn: boolean; mayHaveHappened: boolean },
  ): void {
    // The reservation of the failed transaction was not written either.
    this.#versionsReserved = 0;
    const { code, message } = toEngineError(error, "Unavailable", "commit");
    const failure = new EngineError(
      mayHaveHappened && code !== "Corrupt" ? "Unknown" : code,
      // LMDB reports an input/output error if part of a write still found room.
      this.#folder.noSpaceLeft() ?? message,
      { cause: error },
    );
    this.#failure = failure;
    if (!canGoOn || failure.code === "Corrupt") {
      this.#broken = new EngineError(
        "Unavailable",
        "An earlier commit failed: nothing can be written until a restart.",
        { cause: failure },
      );
    }
    // A commit too large for the space left must not fail the deletes that share its group.
    if (!this.#broken && group.length > 1) {
      this.#waiting.unshift(...group);
      this.#alone = group.length;
    } else refuse(group, failure);
  }

  #folderGone(): EngineError {
    return new EngineError(
      "Unavailable",
      `The data in ${this.#folder.path} was removed or replaced: nothing can be written until a restart.`,
    );
  }

  async #canBegin(): Promise<boolean> {
    // The worker that failed is cleaned up in this turn of the event loop.
    await nextTurn();
    try {
      this.#store.transactionSync(() => {});
      return true;
    } catch {
      return false;
    }
  }

  /**
   * An upper bound of the versions that other processes wrote since our last transaction. If none wrote, the
   * newest version is one of ours, and a put with a newer one need not read the entry it replaces: 3 % of an
   * upsert. Otherwise the bound is the reserved version.
   */
  #othersNewest(transaction: number): number | undefined {
    if (transaction === this.#lastTransaction + 1) return undefined;
    return readMeta(this.#store)?.versionsReserved ?? 0;
  }

  /** Other processes reserve too, so the record must only rise. */
  #reserveVersions(): void {
    const { newest } = this.#writes.extent;
    if (newest <= this.#versionsReserved) return;
    const stored = readMeta(this.#store);
    if (stored === undefined)
      throw new EngineError("Corrupt", "The record of the storage format is missing.");
    const versionsReserved = Math.max(stored.versionsReserved, newest + VERSIONS_AHEAD);
    if (versionsReserved > stored.versionsReserved) {
      writeMeta(this.#store, { ...stored, versionsReserved });
    }
    this.#versionsReserved = versionsReserved;
  }
}

/** The transaction began at a commit that is not the newest one. */
const BEGIN_AGAIN = Symbol("begin again");

function refuse(group: readonly Waiting[], error: EngineError): void {
  for (const { reject } of group) reject(error);
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
