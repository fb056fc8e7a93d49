import * as lmdb from "lmdb";
import type { Key } from "../engine.ts";
import { writeFlatKey } from "../key-codec.ts";

/**
 * The part of lmdb-js that we use, and how it is set up. Its own typings leave out custom key
 * codes, the options of `getBinaryFast` and the native layer, so what we rely on is written down
 * here; the version is pinned exactly, and the conformance suite runs over every line of it.
 */
export interface Store {
  readonly env: object;
  /** A value in a buffer that all reads share: good until the next one. */
  getBinaryFast(key: StoreKey, options?: ReadOptions): Buffer | undefined;
  getRange(options: RangeOptions): Iterable<RangeItem>;
  put(key: StoreKey, value: Uint8Array, version: number): unknown;
  remove(key: StoreKey): unknown;
  /** Runs `action` inside a write transaction; a throw undoes it. Resolves once it is flushed. */
  childTransaction(action: () => void): Promise<unknown>;
  /** The same at once, with the flush in the way of everything else. */
  transactionSync<T>(action: () => T): T;
  resetReadTxn(): void;
  ensureReadTxn(): void;
  useReadTransaction(): ReadTransaction;
  readerCheck(): number;
  close(): Promise<void>;
}

/** A pair, or a flat key: a position in a range, or a record of our own. */
export type StoreKey = Key | Uint8Array;

export interface ReadTransaction {
  readonly address: number;
  done(): void;
}

export interface ReadOptions {
  readonly transaction: ReadTransaction;
}

export interface RangeOptions extends ReadOptions {
  readonly start: Uint8Array;
  readonly end?: Uint8Array | undefined;
  readonly exclusiveStart?: boolean;
  readonly inclusiveEnd?: boolean;
}

/** Where lmdb-js has put the key and the value; both places are used again by the next read. */
export interface RangeItem {
  readonly key: FlatKeyPlace;
  readonly value: Uint8Array;
}

/** One object for the whole process, as there is one buffer that keys are read into. */
export interface FlatKeyPlace {
  bytes: Uint8Array;
  start: number;
  end: number;
}

/** LMDB's own limit with pages of 8 KB. */
export const FLAT_KEY_BYTES_MAX = 4026;

/** Where the version of the entry read last is found. */
export const lastVersion: () => number = lmdb.getLastVersion;

export interface StoreOptions {
  readonly path: string;
  readonly mapSizeBytes: number;
  readonly readersMax: number;
}

export function openStore({ path, mapSizeBytes, readersMax }: StoreOptions): Store {
  const options = {
    path,
    // The name of a folder may have a dot in it, which would make it a file.
    noSubdir: false,
    permissionsMode: 0o600,
    pageSize: 8192,
    mapSize: mapSizeBytes,
    maxReaders: readersMax,
    // The flush is inside the commit: what is visible is on disk.
    overlappingSync: false,
    useVersions: true,
    keyEncoder: keyCode,
    encoder: valueCode,
  };
  // Its typings know neither `keyEncoder` nor keys of other types; see the top of this file.
  return lmdb.open<Uint8Array, Uint8Array>(options) as unknown as Store;
}

const lastKey: FlatKeyPlace = { bytes: new Uint8Array(0), start: 0, end: 0 };

/** Writes pairs straight into the buffer of the native layer, and reads keys where they are. */
const keyCode = {
  writeKey(key: StoreKey, target: Uint8Array, start: number): number {
    if (!(key instanceof Uint8Array)) return writeFlatKey(key, target, start);
    target.set(key, start);
    return start + key.length;
  },
  readKey(target: Uint8Array, start: number, end: number): FlatKeyPlace {
    lastKey.bytes = target;
    lastKey.start = start;
    lastKey.end = end;
    return lastKey;
  },
};

/** Leaves values as they are. lmdb-js copies a value for encoding "binary", but not for a codec. */
const valueCode = {
  encode: (value: Uint8Array) => value,
  decode: (value: Uint8Array) => value,
};

/**
 * A read transaction of our own for point reads. The one that lmdb-js keeps is renewed by a timer,
 * so it may lag behind other processes for a millisecond, and renewing it at each read costs 2 µs;
 * resetting ours costs 0.1 µs.
 */
export interface PointReader extends ReadOptions {
  /** Makes the next read begin a new snapshot. */
  reset(): void;
}

export function openPointReader(store: Store): PointReader {
  const native = nativeLayer();
  const transaction = new native.Txn(store.env, READ_ONLY);
  // lmdb-js reads without a transaction in the one created last, which must be its own.
  store.resetReadTxn();
  store.ensureReadTxn();
  const { address } = transaction;
  return { transaction, reset: () => native.resetTxn(address) };
}

const READ_ONLY = 0x20000;

interface NativeLayer {
  readonly Txn: new (env: object, flags: number) => ReadTransaction;
  resetTxn(address: number): void;
}

function nativeLayer(): NativeLayer {
  const native: unknown = Reflect.get(lmdb, "nativeAddon");
  if (!isNativeLayer(native)) {
    throw new Error("This version of lmdb-js has another native layer than the pinned one.");
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
    typeof native.resetTxn === "function"
  );
}
