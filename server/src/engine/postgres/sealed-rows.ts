import { CHECKSUM_BYTES, checksumOf, hashKey, readChecksum, writeChecksum } from "../checksum.ts";
import { EngineError, type Entry, type Key, type Put } from "../engine.ts";

/*
 * Values of schema format 2 end with a checksum of value and key. The version is not in it: the database may raise it.
 */

export function sealed({ key, value }: Put): Put {
  const bytes = Buffer.allocUnsafe(value.length + CHECKSUM_BYTES);
  bytes.set(value);
  writeChecksum(checksumOf(hashKey(key), value), bytes, value.length);
  return { key, value: bytes };
}

/** The entry as it was put. @throws EngineError Corrupt, with its key */
export function opened({ key, value, version }: Entry): Entry {
  const length = value.length - CHECKSUM_BYTES;
  const own = value.subarray(0, Math.max(0, length));
  if (length < 0 || checksumOf(hashKey(key), own) !== readChecksum(value, length)) {
    throw damaged(key);
  }
  return { key, value: own, version };
}

function damaged(key: Key): EngineError {
  return new EngineError("Corrupt", "A stored value is damaged.", { key });
}
