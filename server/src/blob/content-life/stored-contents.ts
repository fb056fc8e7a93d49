import { KEY_SPACES } from "../../catalog/key-spaces.ts";
import type { ContentId } from "../../content/content-store.ts";
import type { Engine, Key } from "../../engine/engine.ts";
import { after, copyKey, partitionPrefixRange } from "../../engine/key-codec.ts";
import { scanToEnd } from "../../engine/scan-to-end.ts";
import { type BlobRecord, decodeRecord } from "../blob-record.ts";
import { uncommittedBlocks } from "./drafts.ts";
import { contentsOfList, type StoredContent } from "./extents.ts";

/** A content in the content store, and one of the blobs that refer to it. */
export interface BlobContent {
  readonly id: ContentId;
  readonly blob: Key;
}

const RECORDS_AT_A_TIME = 256;

/**
 * Everything in the content store that the blobs of all accounts refer to. Nothing may write to the engine
 * meanwhile.
 */
export async function* storedContents(engine: Engine): AsyncGenerator<BlobContent> {
  const space = partitionPrefixRange(Uint8Array.of(KEY_SPACES.blobs));
  for (let start = space.start; ; ) {
    const records: { readonly blob: Key; readonly record: BlobRecord }[] = [];
    const ended = await scanToEnd(engine, { ...space, start }, (entry) => {
      records.push({ blob: copyKey(entry.key), record: decodeRecord(entry) });
      if (records.length < RECORDS_AT_A_TIME) return true;
      start = after(copyKey(entry.key));
      return false;
    });
    for (const { blob, record } of records) {
      for (const id of await contentsOf(engine, record)) yield { id, blob };
    }
    if (ended === "complete") return;
  }
}

/** Each content once, though a blob may contain a block several times. */
async function contentsOf(
  engine: Engine,
  { blob, draft }: BlobRecord,
): Promise<ReadonlySet<ContentId>> {
  const ids = new Set<ContentId>();
  const add = ({ in: place, id }: StoredContent) => {
    if (place === "store") ids.add(id);
  };
  if (blob?.content.in === "store") ids.add(blob.content.id);
  if (blob?.content.in === "list") {
    for (const content of (await contentsOfList(engine, blob.content.id)).values()) add(content);
  }
  if (draft) {
    for (const content of (await uncommittedBlocks(engine, draft.id))?.values() ?? []) add(content);
  }
  return ids;
}
