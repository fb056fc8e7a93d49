import type { AtomicWrite, Change, CommitResult, Key, Updated } from "../engine.ts";
import { EngineError } from "../engine.ts";
import type { VersionClock } from "../version-clock.ts";
import { type Store, WriteTransactions } from "./binding.ts";
import { PAGE_BYTES, SPARE_BYTES } from "./data-file.ts";
import type { DataFolder } from "./data-folder.ts";
import { toEngineError } from "./lmdb-errors.ts";
import { FORMAT, readMeta, writeMeta } from "./meta-record.ts";
import { type Thrown, WriteApplier } from "./write-applier.ts";

/** A group stops growing here: the event loop stands still while it is applied, 3 µs a key. */
const GROUP_KEYS_MAX = 2000;
/** … and here: LMDB holds the changed pages of a transaction in memory. */
const GROUP_BYTES_MAX = 16 << 20;

/** Groups that free and put no more are tried on a full disk, too: they may fit, and to be refused harms nobody. */
const SMALL_BYTES = 64 << 10;
/** What a key may take beside its value: its leaf is written anew, and may be split. */
const KEY_BYTES = 2 * PAGE_BYTES;
/** … and a commit: branches, and the list of pages that it frees. */
const COMMIT_BYTES = 32 * PAGE_BYTES;

/**
 * Versions are reserved this many microseconds ahead, on disk, so that the record of it is written
 * ten times a second at most. After a restart they go on from there.
 */
const VERSIONS_AHEAD = 100_000;

/** Why commits are refused, and whether they are until a restart. */
export interface Refusal {
  readonly reason: string;
  readonly untilRestart: boolean;
}

interface Waiting {
  /** Inside the transaction. */
  apply(): void;
  /** Says what it came to, once that is on disk. */
  answer(): void;
  reject(error: EngineError): void;
}

/**
 * Group commit: the commits that come while a transaction is flushed wait, and share the next one.
 * Inside it they are applied one after the other, each seeing the ones before it, and all are
 * answered after its flush, which happens on a thread of libuv's pool.
 *
 *   idle ──commit──▶ asked for ──begun──▶ applied ──its thread──▶ on disk ──▶ answered
 *                        ▲                                           │
 *                        └───────────── when commits wait ───────────┘
 *
 * Up to "applied" nothing is on disk and no reader sees anything: changed pages are in memory. The
 * thread writes them, flushes them, and writes and flushes the page that shows them. Then the group
 * is on disk, readers see it, and it may be answered, never before.
 *
 * It is answered at once, and the next group is asked for a turn of the event loop later: some of
 * those who were answered are then back, and share it. To ask first and answer then, so that the disk
 * does not stand idle, pays for nobody: groups are halved, and 16 writers lose up to a tenth.
 */
export class GroupCommit {
  /** Transactions that were flushed, the commits in them, and the most that shared one. */
  readonly counts = { groups: 0, commits: 0, groupCommitsMax: 0 };
  readonly #store: Store;
  readonly #transactions: WriteTransactions;
  readonly #folder: DataFolder;
  readonly #writes: WriteApplier;
  #versionsReserved: number;
  /** The last transaction that wrote something here. */
  #lastTransaction = -1;
  #waiting: Waiting[] = [];
  /** So many of those that wait are tried one by one, for their group failed. */
  #alone = 0;
  #running: Promise<void> | undefined;
  #broken: EngineError | undefined;
  /** Of the last group, if it failed. */
  #failure: EngineError | undefined;

  constructor(store: Store, folder: DataFolder, versions: VersionClock, versionsReserved: number) {
    this.#store = store;
    this.#transactions = new WriteTransactions(store);
    this.#folder = folder;
    this.#writes = new WriteApplier(store, versions);
    this.#versionsReserved = versionsReserved;
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

  /** What `change` throws refuses the update alone, and rejects. */
  update(key: Key, version: number, change: Change): Promise<Updated> {
    let outcome: Updated | Thrown;
    return new Promise((resolve, reject) => {
      this.#join({
        apply: () => {
          outcome = this.#writes.update(key, version, change);
        },
        answer: () => ("thrown" in outcome ? reject(outcome.thrown) : resolve(outcome)),
        reject,
      });
    });
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

  /** Resolves when every commit was answered. */
  async whenIdle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  /** One transaction after the other while commits wait: LMDB has one writer. */
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
    this.#folder.letDeadReadersGo();
    const group: Waiting[] = [];
    let transaction: number | undefined;
    let hasWritten = false;
    try {
      await this.#transactions.run(() => {
        transaction = this.#store.getWriteTxnId();
        this.#writes.begin(this.#othersNewest(transaction));
        this.#applyTo(group);
        this.#assertRoom();
        hasWritten = this.#reserveVersions();
      });
    } catch (error) {
      const hasBegun = transaction !== undefined;
      const canGoOn = hasBegun && (await this.#canBegin());
      const mayHaveHappened = hasBegun && !canGoOn;
      // None was taken when the transaction could not begin.
      const failed = group.length > 0 ? group : this.#waiting.splice(0);
      this.#fail(failed, error, { canGoOn, mayHaveHappened });
      return;
    }
    // One that changes nothing leaves its number to the next, which may be another process's.
    if (hasWritten && transaction !== undefined) this.#lastTransaction = transaction;
    this.#failure = undefined;
    this.counts.groups++;
    this.counts.commits += group.length;
    this.counts.groupCommitsMax = Math.max(this.counts.groupCommitsMax, group.length);
    for (const each of group) each.answer();
  }

  /** Applies those that wait, as many as a group may hold: at least one, whatever its size. */
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
   * A large write that the disk refuses must not be tried: lmdb-js then writes past the end of its own
   * error text, by the digits of what is large in it, and has ended the process so. And whoever only adds leaves
   * some room: to delete takes pages too, and a disk without one could never be freed from here.
   */
  #assertRoom(): void {
    const { bytes, keys, onlyAdds } = this.#writes.extent;
    if (bytes <= SMALL_BYTES && !onlyAdds) return;
    const spare = onlyAdds ? SPARE_BYTES : COMMIT_BYTES;
    if (this.#folder.hasRoomFor(bytes + keys * KEY_BYTES + spare)) return;
    throw new EngineError("Unavailable", `no space left on ${this.#folder.path}`);
  }

  /**
   * The last step of a commit is to write the page that makes it visible. Where that failed it may
   * have happened all the same, and LMDB lets no transaction begin again; where anything else
   * failed, such as writing to a full disk, nothing happened, and the next commit may succeed.
   */
  #fail(
    group: Waiting[],
    error: unknown,
    { canGoOn, mayHaveHappened }: { canGoOn: boolean; mayHaveHappened: boolean },
  ): void {
    // What it reserved was not written either.
    this.#versionsReserved = 0;
    const { code, message } = toEngineError(error, "Unavailable", "commit");
    const failure = new EngineError(
      mayHaveHappened && code !== "Corrupt" ? "Unknown" : code,
      // LMDB calls it an input/output error when a part of a write still found room.
      this.#folder.noSpaceLeft() ?? message,
      { cause: error },
    );
    this.#failure = failure;
    if (!canGoOn || failure.code === "Corrupt") {
      this.#broken = new EngineError(
        "Unavailable",
        "After an earlier commit failed nothing can be written until a restart.",
        { cause: failure },
      );
    }
    // One that is too large for what the disk has left must not refuse the deletes beside it.
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
    // The worker that failed is cleared away in this turn of the event loop.
    await nextTurn();
    try {
      this.#store.transactionSync(() => {});
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Where no other process wrote since our last transaction, the newest version is one of ours, and a
   * put with a newer one need not look at what it replaces: 3 % of an upsert. Otherwise it is at most
   * what is reserved.
   */
  #othersNewest(transaction: number): number {
    if (transaction === this.#lastTransaction + 1) return 0;
    return readMeta(this.#store)?.versionsReserved ?? 0;
  }

  /** Other processes reserve too, so the record only ever rises. Answers whether anything was put. */
  #reserveVersions(): boolean {
    const { newest } = this.#writes.extent;
    if (newest <= this.#versionsReserved) return newest > 0;
    const stored = readMeta(this.#store)?.versionsReserved ?? 0;
    const versionsReserved = Math.max(stored, newest + VERSIONS_AHEAD);
    if (versionsReserved > stored) writeMeta(this.#store, { format: FORMAT, versionsReserved });
    this.#versionsReserved = versionsReserved;
    return true;
  }
}

function refuse(group: readonly Waiting[], error: EngineError): void {
  for (const { reject } of group) reject(error);
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
