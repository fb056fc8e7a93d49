import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { Key } from "../engine/engine.ts";
import { encodeId, encodeText, prefixEnd, startOfPartition } from "../engine/key-codec.ts";
import type { KeyPosition } from "../query/plan.ts";

/** The prefix of the keys of one table's entities: the bytes before each partition key. */
export function tablePrefix(accountId: number, tableId: number): Uint8Array {
  return Buffer.concat([
    Uint8Array.of(KEY_SPACES.entities),
    encodeId(accountId),
    encodeId(tableId),
  ]);
}

export function entityKey(prefix: Uint8Array, partitionKey: string, rowKey: string): Key {
  return { partition: encodeText(partitionKey, prefix), sort: encodeText(rowKey) };
}

/**
 * The key for a position, within the length an engine can hold. A longer position becomes the first
 * key after everything that begins with its truncated bytes.
 */
export function positionKey(prefix: Uint8Array, position: KeyPosition, keyBytesMax: number): Key {
  const key = entityKey(prefix, position.partitionKey, position.rowKey);
  const { partition, sort } = key;
  const sortBytesMax = keyBytesMax - partition.length;
  if (sort.length <= sortBytesMax) return key;
  if (sortBytesMax > 0) return { partition, sort: prefixEnd(sort.subarray(0, sortBytesMax))! };
  return startOfPartition(prefixEnd(partition.subarray(0, keyBytesMax))!);
}
