import type { Awaitable } from "../awaitable.ts";

/**
 * The storage contract: an ordered map from keys to byte values.
 *
 * Engines know nothing of tables, queues, blobs, JSON or HTTP. `conformance.ts` is the executable half of
 * this file: an engine is correct when that suite passes.
 *
 * Reads return their result or a promise of it (`Awaitable`): an engine that holds its data in this process
 * answers synchronously, so a point query costs no promise.
 */
export interface Engine {
  /** The engine's name in logs and metrics: "memory", "lmdb", "postgres". */
  readonly name: string;

  /**
   * The longest key (both parts together, in bytes) that this engine accepts whatever the bytes are. `get`
   * and `commit` refuse a longer one with `EngineError("KeyTooLong")` before anything is written. The bounds
   * of a range are positions, not keys: they may have any length.
   */
  readonly keyBytesMax: number;

  /**
   * The folder that holds the data, if the engine has one. Data kept outside the engine must live there too,
   * so that the next process to open the folder finds it.
   */
  readonly path?: string;

  readonly supports: Supports;

  /**
   * A version for the next commit: microseconds since 1970, larger than every version this engine object has
   * issued, seen at open, or returned from `get`. Never repeats; fits a double until the year 2255.
   */
  nextVersion(): number;

  /**
   * Gives this process its slot among the processes over the same data: a number, usually one more than that
   * of the process that started before it. Up to 16 processes with consecutive slots never issue the same
   * version.
   */
  takeSlot?(slot: number): void;

  /**
   * Whether another process may have the same data open now; true if the engine cannot tell. A process counts
   * before its first read returns, so no reader goes unnoticed.
   */
  isShared?(): boolean;

  /**
   * A number that changes with every commit that writes, by any process, before any read can see that commit:
   * as long as the number is the same, so is the data. Undefined where finding out would cost as much as a
   * read.
   */
  newestCommit(): number | undefined;

  /**
   * Reads many keys in one snapshot. The result has the length and order of `keys`. Its bytes never change,
   * and the caller must not change them.
   *
   * With `bytesMax` the result may be shorter, but not empty: reading stops once the values read so far reach
   * that many bytes. Reading the rest takes another call, hence another snapshot.
   */
  get(keys: readonly Key[], bytesMax?: number): Awaitable<(Entry | undefined)[]>;

  /**
   * Calls `visit` for the entries of `range` in ascending unsigned byte order of (partition, sort).
   *
   * - One call sees each partition in one snapshot: it sees all of a commit in that partition or none of it.
   * - The entry and its bytes are lent to `visit`: valid until it returns; copy what must live longer.
   * - `visit` runs synchronously and returns whether to go on. The engine yields to the event loop at least
   *   every 10 ms.
   * - An engine may end a scan early, at a place of its choice, by returning `resumeAt`. Scanning the rest
   *   takes another call, hence another snapshot.
   * - If `visit` throws, the scan ends, releases what it holds and fails with that error.
   */
  scan(range: KeyRange, visit: Visit, hints?: ScanHints): Awaitable<ScanEnd>;

  /**
   * Like `scan`, over several ranges of one partition, ascending and disjoint, all in one snapshot. It may
   * end early at any place, also between two ranges.
   */
  scanRanges?(ranges: readonly KeyRange[], visit: Visit, hints?: ScanHints): Awaitable<ScanEnd>;

  /**
   * Applies all of `write`, or none of it. When the promise resolves, the write is durable and visible to
   * every read that begins afterwards. A failed check is a result, not an error: nothing is written.
   * @throws EngineError `Closed`, `KeyTooLong`, `Unavailable` (nothing happened), `Unknown` (it may have
   * happened) or `Corrupt`.
   */
  commit(write: AtomicWrite): Promise<CommitResult>;

  /**
   * Commits the result of applying `change` to the value under `key`, with no other commit in between.
   * @returns undefined if the premise does not hold: nothing happened
   * @throws what `change` throws (nothing happened), and what `commit` throws.
   */
  update?(key: Key, change: Change, premise?: Premise): Promise<Updated | undefined>;

  /** Gives older values their checksums. */
  readonly sealing?: Sealing;

  /** Waits for commits in flight, then releases everything. Calling it twice is allowed. */
  close(): Promise<void>;
}

/**
 * What an engine offers beyond the rest of the contract. An engine has exactly the optional members that it declares
 * here, and keeps their promises: the conformance suite checks both, also of engines that wrap another one.
 */
export interface Supports {
  /** `update`, because the engine can run code inside a commit. Elsewhere callers use `get` and a checked `commit`. */
  readonly update: boolean;
  /**
   * `scanRanges`. Callers need it only where they cannot tell by `newestCommit` that consecutive scans saw the same
   * snapshot.
   */
  readonly scanRanges: boolean;
  /** `takeSlot` and `isShared`, because several processes may open the same data. */
  readonly sharing: boolean;
  /** `sealing`, because there may be values without checksums. */
  readonly sealing: boolean;
  /**
   * Whether a premise costs next to nothing, as it does where writes that share a flush look it up once. Elsewhere it
   * costs as much as a check, unless it is loose: then it is read in the round trip of its write.
   */
  readonly freePremises: boolean;
}

/** Values that an older release wrote have no checksums: they are written again as they are, version included. */
export interface Sealing {
  /** Whether there may be such values. */
  isDue(): boolean;
  /** Those under these keys. What has a checksum, or no longer exists, is left as it is. */
  seal(keys: readonly Key[]): Promise<void>;
  /** Call it once every key was sealed: from then on a value without a checksum is damaged. */
  end(): Promise<void>;
}

/** Entries of one partition live together: a commit inside it is cheap, and a cluster places it as a unit. */
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

/**
 * The first bytes of partitions that hold names: few entries, which nearly every request reads and few change. An
 * engine over several machines keeps them on each, so that no request waits for the machine that happens to hold one.
 */
export const READ_BY_ALL: ReadonlySet<number | undefined> = new Set([0x01, 0x10, 0x20, 0x30]);

/** `start` is included, `end` is not. Without `end` the range extends to the last key. A range may be empty. */
export interface KeyRange {
  readonly start: Key;
  readonly end?: Key | undefined;
}

/** Returns true to go on with the next entry, false to stop after this one. */
export type Visit = (entry: Entry) => boolean;

export interface ScanHints {
  /** How many entries the caller expects to need; an engine behind a network sizes its pages by it. */
  readonly entriesExpected?: number;
  /** The part of the range that the caller needs; an engine behind a network need not send the rest. */
  readonly wanted?: WantedSorts | undefined;
  /**
   * Called for what is damaged, which is then left out. Every value is checked, also one that was found intact
   * before. Without it, damage that the scan meets makes it fail.
   */
  readonly onDamaged?: OnDamaged | undefined;
}

/** Receives an error `Corrupt`, with the key if one entry is damaged and its key is known. */
export type OnDamaged = (error: EngineError) => void;

/**
 * The sort parts of entries that matter. An engine may leave out any other entry, as long as it reports it to
 * `leftOut`, or visit it all the same.
 */
export interface WantedSorts {
  /**
   * Ascending positions: wanted runs begin at the even ones and end at the odd ones; the last may have no end.
   */
  readonly bounds: readonly Uint8Array[];
  /**
   * Called with the number of entries left out, before the next visit or before the end. Returns whether to
   * go on; if not, the scan ends with a `resumeAt` behind them.
   */
  readonly leftOut: (count: number) => boolean;
}

export type ScanEnd =
  /** Every entry of the range was visited. */
  | "complete"
  /** `visit` returned false. */
  | "stopped"
  /** The engine ended its snapshot here; the entries from this key on were not visited. */
  | { readonly resumeAt: Key };

/** Of at most `COMMIT_KEYS_MAX` keys. */
export interface AtomicWrite {
  /**
   * The version of the puts, from `nextVersion()`. If a key already holds this version or a newer one (from
   * another process, or another clock), the engine raises the version of that put above it and returns it.
   */
  readonly version: number;
  /** What each key must be now: absent, present, or at one version. */
  readonly checks: readonly Check[];
  /**
   * What `newestCommit` returned before the checks were found to hold. If nothing was committed since but writes that
   * have this too, an engine that knows it need not look again. No such write puts or deletes a key that one of them
   * checks.
   */
  readonly heldAt?: number | undefined;
  /** Must hold as well. */
  readonly premise?: Premise | undefined;
  /** At most one put or delete per key: `assertWrite`. */
  readonly puts: readonly Put[];
  /** Deleting an absent key is allowed and does nothing. */
  readonly deletes: readonly Key[];
  /**
   * The write records something to be deleted later: on a nearly full disk it may use the space reserved for
   * deletes.
   */
  readonly frees?: true;
}

export interface Check {
  readonly key: Key;
  readonly expected: "absent" | "present" | number;
}

/**
 * The version that a key must have which many writes depend on and few change, such as the entry of their table. A
 * write with a premise neither puts nor deletes the key of any premise.
 */
export interface Premise {
  readonly key: Key;
  readonly version: number;
  /**
   * It is enough that it held at one moment of the call, because whoever changes that key reckons with writes that
   * saw it as it was. An engine may then report the premise where a check did not hold.
   */
  readonly isLoose?: true;
}

export interface Put {
  readonly key: Key;
  readonly value: Uint8Array;
}

/**
 * Computes the new value from the current one, whose bytes are lent until it returns. Called inside a commit,
 * so it must be quick and must neither read nor write.
 * @param version of the entry it creates
 */
export type Change = (current: Uint8Array | undefined, version: number) => Uint8Array;

export interface Updated {
  readonly version: number;
  readonly value: Uint8Array;
}

export const PREMISE_FAILED = -1;

export type CommitResult =
  /** One version for each put, in order: `write.version` unless it had to be raised. */
  | { readonly committed: true; readonly versions: readonly number[] }
  /** Index of the first check, in the order given, that does not hold; `PREMISE_FAILED` for the premise. If both fail, either. */
  | { readonly committed: false; readonly failedCheck: number };

/**
 * The most milliseconds that a call may take in an engine that waits for another machine. Clients of the
 * services wait 30 seconds: a failed call must reach them with a little of that left.
 */
export const CALL_MS_MAX = 25_000;

/**
 * The most keys that a write may put and delete: a transaction of 100 entities in a table with 16 indexes, and some
 * more. One LMDB transaction of 40,000 scattered entries leaves a
 * list of free pages that every later transaction reads and writes again: those of 64 entries took 185 ms of CPU each,
 * on a file with a million. Work on more entries commits in steps.
 */
export const COMMIT_KEYS_MAX = 4000;

export type EngineErrorCode = "Closed" | "KeyTooLong" | "Unavailable" | "Unknown" | "Corrupt";

/** A fault below the services. Expected outcomes are values; see `CommitResult`. */
export class EngineError extends Error {
  readonly code: EngineErrorCode;
  /** With `Corrupt`: the entry that is damaged, if its key is known. */
  readonly key: Key | undefined;

  constructor(code: EngineErrorCode, message: string, options?: { cause?: unknown; key?: Key }) {
    super(message, options);
    this.name = "EngineError";
    this.code = code;
    this.key = options?.key;
  }
}
