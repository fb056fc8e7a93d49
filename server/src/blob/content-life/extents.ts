import { takeBytes } from "../../byte-slab.ts";
import type { ContentId } from "../../content/content-store.ts";
import { type Engine, EngineError, type Key, type Put } from "../../engine/engine.ts";
import { decodeId, partitionRange } from "../../engine/key-codec.ts";
import { scanToEnd } from "../../engine/scan-to-end.ts";
import { extentPartition, extentSort } from "../blob-keys.ts";

/** One run of a blob's bytes in a list of extents: a committed block, or blocks appended together. */
export type Extent = InlineExtent | ContentExtent;

/** Bytes stored in the list itself. */
export interface InlineExtent {
  readonly bytes: Uint8Array;
}

/** Bytes stored as a content. */
export interface ContentExtent extends StoredContent {
  /** The block's id in base64, as sent; append blobs have none. */
  readonly block?: string | undefined;
}

/** A whole content, as extents and uncommitted blocks refer to it. */
export interface StoredContent {
  readonly in: "row" | "store";
  readonly id: ContentId;
  readonly length: number;
}

/** An extent and its position in the blob. */
export interface PlacedExtent {
  readonly extent: Extent;
  readonly start: number;
  readonly end: number;
}

function extentLength(extent: Extent): number {
  return "bytes" in extent ? extent.bytes.length : extent.length;
}

/*
 * An extent is stored as one type byte, followed for 00 by the bytes themselves, for 01 by JSON. Lists only
 * grow at their end, so what a record says about a list stays true whatever is appended.
 */
const INLINE = 0;
const REFERENCE = 1;

export function putExtent(list: string, end: number, extent: Extent): Put {
  if ("bytes" in extent) return putInlineExtent(list, end, [extent.bytes]);
  return { key: extentKey(list, end), value: encodeExtent(extent) };
}

/** One extent from many parts, which are copied only once. */
export function putInlineExtent(list: string, end: number, parts: readonly Uint8Array[]): Put {
  let length = 1;
  for (const part of parts) length += part.length;
  const value = takeBytes(length);
  value[0] = INLINE;
  let at = 1;
  for (const part of parts) {
    value.set(part, at);
    at += part.length;
  }
  return { key: extentKey(list, end), value };
}

function extentKey(list: string, end: number): Key {
  return { partition: extentPartition(list), sort: extentSort(end) };
}

function encodeExtent(extent: ContentExtent): Uint8Array {
  const json = Buffer.from(JSON.stringify(extent), "utf8");
  const value = Buffer.allocUnsafe(1 + json.length);
  value[0] = REFERENCE;
  value.set(json, 1);
  return value;
}

/** The result has its own copy of the bytes. */
export function decodeExtent(value: Uint8Array): Extent {
  if (value[0] === INLINE) return { bytes: Uint8Array.from(value.subarray(1)) };
  const json = Buffer.from(value.buffer, value.byteOffset + 1, value.byteLength - 1);
  return JSON.parse(json.toString("utf8")) as ContentExtent;
}

/** How much one scan reads: enough to keep a socket busy, little to hold in memory. */
export interface ExtentBatch {
  readonly extentsMax: number;
  readonly bytesMax: number;
}

const BATCH: ExtentBatch = { extentsMax: 256, bytesMax: 1 << 20 };

/**
 * The extents that contain bytes `start` to `end` (exclusive), one batch at a time.
 * @throws EngineError `Unavailable` when some of them are gone
 */
export async function* readExtents(
  engine: Engine,
  list: string,
  start: number,
  end: number,
  batch = BATCH,
): AsyncGenerator<readonly PlacedExtent[]> {
  for (let at = start; at < end; ) {
    const extents = await readBatch(engine, list, at, end, batch);
    if (extents.length === 0) throw gone(list);
    for (const extent of extents) {
      if (extent.start > at) throw gone(list);
      at = extent.end;
    }
    yield extents;
  }
}

/** Another process freed it during the read, because the blob has changed. */
export function gone(id: string): EngineError {
  return new EngineError("Unavailable", `Content ${id} no longer exists.`);
}

async function readBatch(
  engine: Engine,
  list: string,
  start: number,
  end: number,
  { extentsMax, bytesMax }: ExtentBatch,
): Promise<PlacedExtent[]> {
  const partition = extentPartition(list);
  const extents: PlacedExtent[] = [];
  let inlineBytes = 0;
  const range = {
    start: { partition, sort: extentSort(start + 1) },
    end: partitionRange(partition).end,
  };
  await scanToEnd(engine, range, ({ key, value }) => {
    const extent = decodeExtent(value);
    const extentEnd = decodeId(key.sort).id;
    extents.push({ extent, start: extentEnd - extentLength(extent), end: extentEnd });
    if ("bytes" in extent) inlineBytes += extent.bytes.length;
    return extentEnd < end && extents.length < extentsMax && inlineBytes < bytesMax;
  });
  return extents;
}

/** Every content that a list refers to. */
export async function contentsOfList(
  engine: Engine,
  list: string,
): Promise<Map<ContentId, ContentExtent>> {
  const contents = new Map<ContentId, ContentExtent>();
  await scanToEnd(engine, partitionRange(extentPartition(list)), ({ value }) => {
    const extent = value[0] === REFERENCE && decodeExtent(value);
    if (extent && "id" in extent) contents.set(extent.id, extent);
    return true;
  });
  return contents;
}
