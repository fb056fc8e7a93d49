import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import { toBuffer } from "../byte-views.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { Key, KeyRange } from "../engine/engine.ts";
import { decodeId, encodeId, sortPrefixRange } from "../engine/key-codec.ts";

export interface BlobName {
  readonly account: string;
  readonly container: string;
  readonly blob: string;
}

/** The partition of one container: all its blobs, sorted by the UTF-8 of their names. */
export function blobPartition(accountId: number, containerId: number): Uint8Array {
  return Buffer.concat([
    Uint8Array.of(KEY_SPACES.blobs),
    encodeId(accountId),
    encodeId(containerId),
  ]);
}

/** @throws ServiceError OutOfRangeInput for a name too long for this engine's keys. */
export function blobKey(partition: Uint8Array, name: string, keyBytesMax: number): Key {
  const sort = Buffer.from(name, "utf8");
  if (partition.length + sort.length > keyBytesMax) {
    throw new ServiceError("OutOfRangeInput", { message: ERROR_TEXTS.nameLength });
  }
  return { partition, sort };
}

/** The contents of a blob's key. */
export function readBlobKey({ partition, sort }: Key): {
  readonly accountId: number;
  readonly containerId: number;
  readonly name: string;
} {
  const account = decodeId(partition, 1);
  const { id: containerId } = decodeId(partition, account.end);
  return { accountId: account.id, containerId, name: toBuffer(sort).toString("utf8") };
}

/** Names that begin with `prefix`, starting at `from`, which may have any length. */
export function namesRange(partition: Uint8Array, prefix: string, from: Uint8Array): KeyRange {
  const first = Buffer.from(prefix, "utf8");
  const { start, end } = sortPrefixRange(partition, first);
  return { start: Buffer.compare(from, first) > 0 ? { partition, sort: from } : start, end };
}

export function extentPartition(list: string): Uint8Array {
  return textPartition(KEY_SPACES.blobExtents, list);
}

/** An extent's key is its end: the first extent that ends after a byte is the one that contains it. */
export function extentSort(end: number): Uint8Array {
  return encodeId(end);
}

const DRAFT_HEAD = Uint8Array.of(0x01);
const BLOCK_PREFIX = Uint8Array.of(0x02);

export function draftPartition(draft: string): Uint8Array {
  return textPartition(KEY_SPACES.blobDrafts, draft);
}

export function draftHeadKey(draft: string): Key {
  return { partition: draftPartition(draft), sort: DRAFT_HEAD };
}

export function isDraftHead({ sort }: Key): boolean {
  return sort.length === 1 && sort[0] === DRAFT_HEAD[0];
}

/** @param block an id in base64, as sent */
export function draftBlockKey(draft: string, block: string): Key {
  return {
    partition: draftPartition(draft),
    sort: Buffer.concat([BLOCK_PREFIX, Buffer.from(block, "latin1")]),
  };
}

export function draftBlocksRange(draft: string): KeyRange {
  return sortPrefixRange(draftPartition(draft), BLOCK_PREFIX);
}

/** The block id in the key of an uncommitted block. */
export function blockOfKey({ sort }: Key): string {
  return toBuffer(sort).toString("latin1", BLOCK_PREFIX.length);
}

function textPartition(space: number, text: string): Uint8Array {
  const partition = Buffer.allocUnsafe(1 + text.length);
  partition[0] = space;
  partition.write(text, 1, "latin1");
  return partition;
}
