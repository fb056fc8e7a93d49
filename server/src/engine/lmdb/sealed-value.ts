import {
  CHECKSUM_BYTES,
  checksumOf,
  hashFlatKey,
  hashKey,
  readChecksum,
  withVersion,
  writeChecksum,
} from "../checksum.ts";
import { EngineError, type Key } from "../engine.ts";
import { splitKey } from "../key-codec.ts";
import { type PutOptions, type Store, viewOf } from "./binding.ts";

/*
 * Values as they are stored: the bytes, then their checksum. The version in front of them has a sign: negative if a
 * checksum follows, positive for values of storage format 1, which have none.
 */

/** What is known about the values of an environment. */
export interface Seals {
  /** Some may still be without a checksum: the environment was begun in format 1. Otherwise such a value is damaged. */
  areMissing: boolean;
}

/**
 * Puts a value and its checksum inside a write transaction. Returns whether the condition held: the key is `new`, or
 * the `last` of the whole tree.
 */
export function putSealed(
  store: Store,
  key: Key,
  value: Uint8Array,
  version: number,
  condition?: "new" | "last",
): boolean {
  const { length } = value;
  const sealed = scratch(length + CHECKSUM_BYTES);
  sealed.set(value);
  writeChecksum(checksumOf(withVersion(hashKey(key), version), value), sealed, length);
  const stored = -version;
  if (condition === undefined) return store.put(key, sealed, stored).result;
  const options: PutOptions =
    condition === "new"
      ? { version: stored, noOverwrite: true }
      : { version: stored, append: true };
  return store.put(key, sealed, options).result;
}

/** Memory for one value until it is put: `put` copies it before it returns. */
function scratch(length: number): Uint8Array {
  if (length > SCRATCH_BYTES) return Buffer.allocUnsafeSlow(length);
  views[length] ??= memory.subarray(0, length);
  return views[length];
}

const SCRATCH_BYTES = 8 << 10;
const memory = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
const views: Uint8Array[] = [];

/**
 * The value that a read has put into the buffer that all reads share.
 *
 * @param stored the version in front of it, with its sign. @throws EngineError Corrupt, with the key.
 */
export function openSealed(key: Key, shared: Buffer, stored: number, seals: Seals): Uint8Array {
  if (stored > 0) {
    if (seals.areMissing) return viewOf(shared);
    throw damaged(key);
  }
  const length = shared.length - CHECKSUM_BYTES;
  if (length < 0) throw damaged(key);
  const value = viewOf(shared, length);
  const sum = checksumOf(withVersion(hashKey(key), -stored), value);
  if (sum !== readChecksum(shared, length)) throw damaged(key);
  return value;
}

/** Whether a value whose key is known as a flat key is what was stored. */
export function isIntact(
  flatKey: { readonly bytes: Uint8Array; readonly start: number; readonly end: number },
  stored: number,
  value: Uint8Array,
  sum: number,
): boolean {
  const hash = hashFlatKey(flatKey.bytes, flatKey.start, flatKey.end);
  return checksumOf(withVersion(hash, -stored), value) === sum;
}

export function damaged(key: Key): EngineError {
  return new EngineError("Corrupt", "A stored value is damaged.", { key });
}

/** The pair of a flat key that may be damaged itself, copied; undefined if it is none. */
export function pairOf(flat: Uint8Array): Key | undefined {
  try {
    return splitKey(Uint8Array.from(flat));
  } catch {
    return undefined;
  }
}
