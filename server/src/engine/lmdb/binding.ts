import * as lmdb from "lmdb";
import { BeginningViews } from "../../byte-views.ts";
import type { Key } from "../engine.ts";
import { writeFlatKey } from "../key-codec.ts";
import { PAGE_BYTES } from "./data-file.ts";

/**
 * The part of lmdb-js that we use, and its configuration. Its typings omit custom key encoders, the options
 * of `getBinaryFast` and the native layer, so everything we rely on is declared here; the version is pinned
 * exactly, and the conformance suite covers every line.
 */
export interface Store {
  readonly env: Environment;
  /** Returns a value in a buffer that all reads share, valid until the next read: access it with `viewOf`. */
  getBinaryFast(key: StoreKey, options?: ReadOptions): Buffer | undefined;
  getRange(options: RangeOptions): Iterable<RangeItem>;
  /** Returns its outcome inside a write transaction, the only place it is called. */
  put(key: StoreKey, value: Uint8Array, version: number | PutOptions): WriteOutcome;
  remove(key: StoreKey): WriteOutcome;
  /**
   * Runs `action` inside a write transaction, which a throw aborts, and flushes it, blocking the event loop.
   * Inside another transaction it is part of that one. See `WriteTransactions`.
   */
  transactionSync<T>(action: () => T): T;
  /** The number of the open write transaction: one more than that of the last one that wrote. */
  getWriteTxnId(): number;
  readerCheck(): number;
  /** Parse it with `readerPids`. */
  readerList(): string;
  close(): Promise<void>;
}

/** The native half of lmdb-js. */
export interface Environment {
  /**
   * Has a thread execute the instructions at `address`. `report` receives `CALL_BACK`, and the final status:
   * 0 or a code.
   */
  startWriting(address: number, report: (status: number) => void): void;
  /** `lastTxnId` is the number of the newest commit that the file holds. */
  info(): { readonly lastTxnId: number };
}

export interface PutOptions {
  readonly version: number;
  /**
   * Leaves an existing entry unchanged: one descent of the tree and one native call, where a read and a put
   * take two. 2 % of a transaction of inserts.
   */
  readonly noOverwrite?: true;
  /** Puts the entry behind all others, or not at all, and leaves no page half full. */
  readonly append?: true;
}

export interface WriteOutcome {
  /** Whether anything was changed. */
  readonly result: boolean;
}

/** A pair, or a flat key: a position in a range, or a record of the engine's own. */
export type StoreKey = Key | Uint8Array;

export interface ReadOptions {
  /** Absent inside a write transaction, which then reads its own writes. */
  readonly transaction?: ReadTransaction;
}

export interface ReadTransaction {
  readonly address: number;
  /** Begins the transaction again after it was reset. */
  renew(): void;
}

export interface RangeOptions extends ReadOptions {
  readonly start: Uint8Array;
  readonly end?: Uint8Array | undefined;
  readonly exclusiveStart?: boolean;
  readonly inclusiveEnd?: boolean;
}

/** Where lmdb-js has put the key and the value; the next read overwrites both. */
export interface RangeItem {
  readonly key: FlatKeyPosition;
  readonly value: Buffer;
}

/** One object for the whole process, as there is one buffer that keys are read into. */
export interface FlatKeyPosition {
  bytes: Uint8Array;
  start: number;
  end: number;
}

/**
 * Write transactions that are begun, committed and flushed by a thread of libuv's pool; only `action` runs on
 * this thread. One at a time.
 *
 * lmdb-js can do the same, but it requests the thread in a later turn of the event loop, behind all requests
 * that arrived in between: with 64 writers the disk waited half a millisecond for each flush.
 */
export class WriteTransactions {
  readonly #native = nativeLayer();
  readonly #store: Store;
  /**
   * Two instructions of 8 bytes: one that calls back, and an empty one. The thread marks in them what it has done.
   */
  readonly #instructions = new Uint32Array(new SharedArrayBuffer(2 * 8));
  readonly #address: number;

  constructor(store: Store) {
    this.#store = store;
    this.#address = this.#native.getBufferAddress(Buffer.from(this.#instructions.buffer));
  }

  /** Runs `action` inside a transaction; a throw aborts it and rejects. Resolves once it is flushed. */
  run(action: () => void): Promise<void> {
    this.#instructions.fill(0);
    this.#instructions[0] = INSTRUCTION_CALL_BACK;
    let failure: { readonly thrown: unknown } | undefined;
    return new Promise((resolve, reject) => {
      this.#store.env.startWriting(this.#address, (status) => {
        awaitedHere.delete(this);
        if (status === CALL_BACK) {
          try {
            this.#store.transactionSync(action);
          } catch (thrown) {
            failure = { thrown };
          }
        } else if (status === PROGRESS && !this.#hasFailed()) {
          return;
        } else if (failure) {
          reject(failure.thrown);
        } else if (status === 0) {
          resolve();
        } else {
          reject(this.#errorOf(status));
        }
      });
      awaitedHere.add(this);
    });
  }

  #hasFailed(): boolean {
    return (this.#instructions[2]! & HAS_FAILED) !== 0;
  }

  #errorOf(status: number): unknown {
    try {
      return this.#native.lmdbError(status);
    } catch (error) {
      return error;
    }
  }
}

/**
 * The transactions whose thread will wait, holding LMDB's lock, until this thread returns from its call. Node's
 * exit waits for the threads of the pool and runs no such calls: it would never end, and no other process could
 * write. Nothing of such a transaction is on disk, so the process may end as a loss of power would end it.
 */
const awaitedHere = new Set<WriteTransactions>();
process.on("exit", () => {
  if (awaitedHere.size > 0) process.kill(process.pid, "SIGKILL");
});

/** Calls back, and waits until the call has returned. */
const INSTRUCTION_CALL_BACK = 0x100008;
const CALL_BACK = 2;
/** The thread is still working; but this is also the number of a system error. */
const PROGRESS = 1;
/** Set in the instruction behind the last one. */
const HAS_FAILED = 0x40000000;

/** The version of the entry that was read last, with its sign; see `sealed-value.ts`. */
export const lastVersion: () => number = lmdb.getLastVersion;

export interface StoreOptions {
  readonly path: string;
  readonly mapSizeBytes: number;
  readonly readersMax: number;
}

export function openStore({ path, mapSizeBytes, readersMax }: StoreOptions): Store {
  const options = {
    path,
    // The name of the folder may contain a dot, which lmdb-js would take for a file.
    noSubdir: false,
    permissionsMode: 0o600,
    pageSize: PAGE_BYTES,
    mapSize: mapSizeBytes,
    maxReaders: readersMax,
    // The flush is part of the commit: everything visible is on disk.
    overlappingSync: false,
    useVersions: true,
    keyEncoder: keyCode,
    encoder: valueCode,
  };
  // Its typings know neither `keyEncoder` nor keys of other types; see the top of this file.
  return lmdb.open<Uint8Array, Uint8Array>(options) as unknown as Store;
}

const lastKey: FlatKeyPosition = { bytes: new Uint8Array(0), start: 0, end: 0 };

/** Writes pairs directly into the buffer of the native layer, and reads keys where they are. */
const keyCode = {
  writeKey(key: StoreKey, target: Uint8Array, start: number): number {
    if (!(key instanceof Uint8Array)) return writeFlatKey(key, target, start);
    target.set(key, start);
    return start + key.length;
  },
  readKey(target: Uint8Array, start: number, end: number): FlatKeyPosition {
    lastKey.bytes = target;
    lastKey.start = start;
    lastKey.end = end;
    return lastKey;
  },
};

/** Passes values through. lmdb-js copies a value with encoding "binary", but not with a custom encoder. */
const valueCode = {
  encode: (value: Uint8Array) => value,
  decode: (value: Uint8Array) => value,
};

/**
 * The first bytes of a value in the shared buffer, by default all: its `length` is that of the value although the
 * buffer is longer.
 */
export function viewOf(shared: Buffer, length = shared.length): Uint8Array {
  if (shared !== viewed?.buffer) viewed = { buffer: shared, views: new BeginningViews(shared) };
  return viewed.views.of(length);
}

let viewed: { readonly buffer: Buffer; readonly views: BeginningViews } | undefined;

/**
 * Read transactions of our own, for point reads and scans. The one of lmdb-js is renewed by a timer: it may
 * lag a millisecond behind other processes, and renewing it for each read costs 2 µs of timers. Resetting
 * ours costs 0.1 µs. They are reused and never freed: lmdb-js by default reads in the one created last, so
 * that one must not go away.
 */
export class Snapshots {
  readonly #native = nativeLayer();
  readonly #store: Store;
  readonly #free: Snapshot[] = [];

  constructor(store: Store) {
    this.#store = store;
  }

  /** A snapshot that begins with its first read. */
  take(): Snapshot {
    return this.#free.pop() ?? new Snapshot(this.#native, this.#store);
  }

  giveBack(snapshot: Snapshot): void {
    snapshot.reset();
    this.#free.push(snapshot);
  }
}

export class Snapshot implements ReadOptions {
  readonly transaction: ReadTransaction;
  readonly #native: NativeLayer;
  readonly #address: number;

  constructor(native: NativeLayer, store: Store) {
    this.#native = native;
    this.transaction = new native.Txn(store.env, READ_ONLY);
    this.#address = this.transaction.address;
    this.reset();
  }

  /** Begins a snapshot for a reader that bypasses the binding. */
  begin(): void {
    this.transaction.renew();
  }

  /** Releases the snapshot; the next read begins a new one. No range may be open in it. */
  reset(): void {
    this.#native.resetTxn(this.#address);
  }
}

const READ_ONLY = 0x20000;

/** The processes that may read: all live processes that have created a `Snapshot`, this one included. */
export function readerPids(store: Store): number[] {
  // Killed processes stay in the table until a check removes them.
  store.readerCheck();
  return Array.from(store.readerList().matchAll(/^ *(\d+) /gm), ([, pid]) => Number(pid));
}

/** Memory of this process as bytes, without a copy. It must stay mapped. */
export function viewMemory(address: number, length: number): Uint8Array {
  const buffer = nativeLayer().createBufferForAddress(address, length);
  return new Uint8Array(buffer.buffer, buffer.byteOffset, length);
}

interface NativeLayer {
  readonly Txn: new (env: object, flags: number) => ReadTransaction;
  resetTxn(address: number): void;
  createBufferForAddress(address: number, length: number): Buffer;
  getBufferAddress(buffer: Buffer): number;
  /** @throws always, the error that the code stands for. */
  lmdbError(code: number): unknown;
}

function nativeLayer(): NativeLayer {
  const native: unknown = Reflect.get(lmdb, "nativeAddon");
  if (!isNativeLayer(native)) {
    throw new Error(
      "This version of lmdb-js has a different native layer than the pinned version.",
    );
  }
  return native;
}

function isNativeLayer(native: unknown): native is NativeLayer {
  return (
    typeof native === "object" &&
    native !== null &&
    "Txn" in native &&
    typeof native.Txn === "function" &&
    "resetTxn" in native &&
    typeof native.resetTxn === "function" &&
    "createBufferForAddress" in native &&
    typeof native.createBufferForAddress === "function" &&
    "getBufferAddress" in native &&
    typeof native.getBufferAddress === "function" &&
    "lmdbError" in native &&
    typeof native.lmdbError === "function"
  );
}
