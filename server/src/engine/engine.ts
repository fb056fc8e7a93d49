import type { Awaitable } from "../awaitable.ts";

/**
 * The storage contract: an ordered map from keys to byte values.
 *
 * Engines know nothing of tables, queues, blobs, JSON or HTTP. `conformance.ts` is the
 * executable half of this file: an engine is correct when that suite passes.
 *
 * Reads may answer at once or by promise (`Awaitable`): an engine that holds its data in this
 * process answers synchronously, and a point query then costs no promise at all.
 */
export interface Engine {
  /** How logs and metrics call it: "memory", "lmdb", "postgres". */
  readonly name: string;

  /**
   * Longest key (both parts together, in bytes) that this engine takes whatever the bytes are.
   * A longer key is refused with `EngineError("KeyTooLong")` by `get` and by `commit`, before
   * anything is written. The bounds of a range are positions, not keys: they may have any length.
   */
  readonly keyBytesMax: number;

  /**
   * The folder that holds the data, where one does. What is kept beside it belongs there too, or whoever opens
   * the folder next will not find it.
   */
  readonly path?: string;

  /**
   * A version for the next commit: microseconds since 1970, larger than every version this engine
   * object has given out, seen at open, or answered by `get`. Never repeats; fits a double until the year 2255.
   */
  nextVersion(): number;

  /**
   * Tells this process its place among those over the same data: a number, usually one more than that of
   * the process that began before it. Up to 16 processes with places in a row never hand out the same
   * version. Left out by engines that serve one process only.
   */
  takePlace?(place: number): void;

  /**
   * Whether other processes may have the same data open just now. True where that cannot be told. A process
   * counts before its first read returns, so none reads unnoticed. Left out by engines that serve one
   * process only.
   */
  isShared?(): boolean;

  /**
   * A number that changes with every commit that writes, by whomever, before any read can see it:
   * while it stands, all is as it was. Undefined where telling would cost as much as a read.
   */
  newestCommit(): number | undefined;

  /**
   * Reads many keys in one snapshot. The answer has the length and order of `keys`; its bytes stay
   * as they are, and must be left as they are.
   *
   * With `bytesMax` it may end sooner, though not before the first: once values of so many bytes are
   * read, no more are held. The rest is another call, hence another snapshot.
   */
  get(keys: readonly Key[], bytesMax?: number): Awaitable<(Entry | undefined)[]>;

  /**
   * Calls `visit` for the entries of `range` in ascending unsigned byte order of (partition, sort).
   *
   * - One call sees each partition in one snapshot: a commit inside it is seen whole or not at all.
   * - The entry and its bytes are lent to `visit`: valid until it returns; copy what must live longer.
   * - `visit` runs synchronously and answers whether to go on. The engine gives the event loop
   *   back at least every 10 ms.
   * - An engine may end a scan early, at a place of its own choice, by answering `resumeAt`; the
   *   rest is another call, hence another snapshot.
   * - If `visit` throws, the scan ends, releases what it holds and fails with that error.
   */
  scan(range: KeyRange, visit: Visit, hints?: ScanHints): Awaitable<ScanEnd>;

  /**
   * As `scan`, of ranges of one partition, ascending and apart, all in one snapshot. It may end early at any
   * place, also between two of them. Left out by engines whose `newestCommit` tells whether one snapshot was
   * seen by scans one after the other.
   */
  scanRanges?(ranges: readonly KeyRange[], visit: Visit, hints?: ScanHints): Awaitable<ScanEnd>;

  /**
   * Applies all of `write`, or none of it. Durable when the promise resolves, and seen by every
   * read that begins afterwards. A failed check is an answer, not an error: nothing is written.
   * @throws EngineError `Closed`, `KeyTooLong`, `Unavailable` (nothing happened), `Unknown` (it
   * may have happened) or `Corrupt`.
   */
  commit(write: AtomicWrite): Promise<CommitResult>;

  /**
   * Commits what `change` makes of the value under `key` with no other commit in between. Engines
   * that cannot run code inside a commit leave it out; `get` and a checked `commit` do the same there.
   * @throws what `change` throws (nothing happened), and what `commit` does.
   */
  update?(key: Key, change: Change): Promise<Updated>;

  /** Waits for commits under way, then releases everything. Calling it twice is allowed. */
  close(): Promise<void>;
}

/** Entries of one partition live together: a commit inside it is cheap, and a cluster places it as one. */
export interface Key {
  readonly partition: Uint8Array;
  readonly sort: Uint8Array;
}

export interface Entry {
  readonly key: Key;
  readonly value: Uint8Array;
  /** Grows with every write of this key while it exists, and is never reused, even after a delete. */
  readonly version: number;
}

/** `start` is included, `end` is not. No `end` means to the last key. An empty range is allowed. */
export interface KeyRange {
  readonly start: Key;
  readonly end?: Key | undefined;
}

/** Answers true to go on with the next entry, false to stop after this one. */
export type Visit = (entry: Entry) => boolean;

export interface ScanHints {
  /** How many entries the caller expects to need; an engine behind a network sizes its pages by it. */
  readonly entriesExpected?: number;
  /** What the caller has no use for; an engine behind a network spares itself sending it. */
  readonly wanted?: WantedSorts | undefined;
}

/**
 * The sort parts of entries that matter. An engine may leave out any of the others, as long as it
 * accounts for them, or visit them all the same.
 */
export interface WantedSorts {
  /** Ascending places where they begin and end in turn; an odd one out never ends. */
  readonly bounds: readonly Uint8Array[];
  /**
   * Called for entries that were left out before the next visit, or before the end. Answers whether to
   * go on; if not, the scan ends with a `resumeAt` behind them.
   */
  readonly leftOut: (count: number) => boolean;
}

export type ScanEnd =
  /** Every entry of the range was visited. */
  | "complete"
  /** `visit` answered false. */
  | "stopped"
  /** The engine ended its snapshot here; the entries from this key on were not visited. */
  | { readonly resumeAt: Key };

export interface AtomicWrite {
  /**
   * What the puts become, from `nextVersion()`. Where a key holds this version or a newer one
   * already (another process, another clock), the engine raises that put above it and says so.
   */
  readonly version: number;
  /** What each key must be now: absent, present, or at one version. */
  readonly checks: readonly Check[];
  /** At most one put or delete per key: `assertDisjoint`. */
  readonly puts: readonly Put[];
  /** Deleting an absent key is allowed and does nothing. */
  readonly deletes: readonly Key[];
  /** Names what is to be deleted later: of a disk that is nearly full it may take what is kept for deletes. */
  readonly frees?: true;
}

export interface Check {
  readonly key: Key;
  readonly expected: "absent" | "present" | number;
}

export interface Put {
  readonly key: Key;
  readonly value: Uint8Array;
}

/**
 * Makes the new value of the one that is there, whose bytes are lent until it returns. It is called
 * inside a commit, so it is quick and neither reads nor writes.
 * @param version of the entry it makes
 */
export type Change = (current: Uint8Array | undefined, version: number) => Uint8Array;

export interface Updated {
  readonly version: number;
  readonly value: Uint8Array;
}

export type CommitResult =
  /** One version for each put, in order: `write.version` unless it had to be raised. */
  | { readonly committed: true; readonly versions: readonly number[] }
  /** Index of the first check, in the order given, that does not hold. */
  | { readonly committed: false; readonly failedCheck: number };

/**
 * Milliseconds that a call takes at most in an engine that waits for another machine. Clients of the
 * services wait 30 seconds: they are to hear of it, with a little of them left.
 */
export const CALL_MS_MAX = 25_000;

export type EngineErrorCode = "Closed" | "KeyTooLong" | "Unavailable" | "Unknown" | "Corrupt";

/** A fault below the services. Expected outcomes are values; see `CommitResult`. */
export class EngineError extends Error {
  readonly code: EngineErrorCode;

  constructor(code: EngineErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "EngineError";
    this.code = code;
  }
}
