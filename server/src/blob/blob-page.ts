import { LIMITS } from "@rowhouse/protocol/limits";
import { toBuffer } from "../byte-views.ts";
import type { Engine, Key, KeyRange } from "../engine/engine.ts";
import { compareKeys, prefixEnd } from "../engine/key-codec.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import { namesRange } from "./blob-keys.ts";
import { type BlobRecord, decodeRecord } from "./blob-record.ts";

export interface BlobPageRequest {
  /** The partition of the container; see `blobPartition`. */
  readonly partition: Uint8Array;
  readonly prefix: string;
  /** Names that contain it after the prefix are grouped under one common prefix; "" for no grouping. */
  readonly delimiter: string;
  /** UTF-8 of the smallest name allowed on the page. */
  readonly from: Uint8Array;
  /** Maximum number of entries, counting blobs and common prefixes. */
  readonly max: number;
  /** Stored bytes of its entries after which the page ends, though not before its first. Default: those of a query. */
  readonly bytesMax?: number;
  /** Whether to include blobs that have only uncommitted blocks. */
  readonly withUncommitted: boolean;
}

export interface BlobPage {
  readonly entries: readonly BlobPageEntry[];
  /** UTF-8 of the next name; undefined on the last page. */
  readonly next: Uint8Array | undefined;
}

/** A blob, or all blobs with a common prefix. */
export type BlobPageEntry =
  | { readonly name: string; readonly record: BlobRecord }
  | { readonly commonPrefix: string };

/**
 * Reads one page of a container's blobs in the order of their UTF-8 names. Blobs behind a common prefix are
 * not read: the scan resumes after the last of them.
 */
export async function readBlobPage(engine: Engine, request: BlobPageRequest): Promise<BlobPage> {
  const { partition, prefix, from, max, bytesMax = LIMITS.pageBytesMax } = request;
  let range: KeyRange | undefined = namesRange(partition, prefix, from);
  const entries: BlobPageEntry[] = [];
  let bytes = 0;
  let next: Uint8Array | undefined;
  while (range !== undefined && next === undefined) {
    let skipped: Uint8Array | undefined;
    await scanToEnd(
      engine,
      range,
      ({ key, value }) => {
        const record = decodeRecord({ value });
        if (record.blob === undefined && !request.withUncommitted) return true;
        const name = toBuffer(key.sort).toString("utf8");
        const commonPrefix = commonPrefixOf(name, request);
        bytes += commonPrefix?.length ?? key.sort.length + value.length;
        if (entries.length === max || (bytes > bytesMax && entries.length > 0)) {
          next = Uint8Array.from(key.sort);
          return false;
        }
        if (commonPrefix === undefined) {
          entries.push({ name, record });
          return true;
        }
        entries.push({ commonPrefix });
        skipped = Buffer.from(commonPrefix, "utf8");
        return false;
      },
      { entriesExpected: max + 1 - entries.length },
    );
    range = skipped && behind(range, partition, skipped);
  }
  return { entries, next };
}

function commonPrefixOf(name: string, { prefix, delimiter }: BlobPageRequest): string | undefined {
  if (delimiter === "") return undefined;
  const at = name.indexOf(delimiter, prefix.length);
  return at < 0 ? undefined : name.slice(0, at + delimiter.length);
}

/** The rest of a range after all names that begin with `prefix`. */
function behind(range: KeyRange, partition: Uint8Array, prefix: Uint8Array): KeyRange | undefined {
  // Not undefined: UTF-8 contains no byte FF.
  const start: Key = { partition, sort: prefixEnd(prefix)! };
  return range.end && compareKeys(start, range.end) < 0 ? { start, end: range.end } : undefined;
}
