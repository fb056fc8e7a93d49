import type { Engine, Entry, Put } from "../../engine/engine.ts";
import { scanToEnd } from "../../engine/scan-to-end.ts";
import {
  type BlobName,
  blockOfKey,
  draftBlockKey,
  draftBlocksRange,
  draftHeadKey,
} from "../blob-keys.ts";
import type { StoredContent } from "./extents.ts";

/*
 * The uncommitted blocks of a blob make up its draft. The blob's record names the draft. The draft's own
 * entries are its head, which every block puts again, and the blocks.
 *
 *   none ──Put Block──▶ open ──Put Block List──▶ taken over by the new list of blocks
 *                        ├──Put Blob, Delete Blob, Copy Blob──▶ garbage
 *                        └──a week without Put Block──▶ garbage
 *
 * Blocks arrive in parallel without waiting for one another: each checks only that the head exists. A block
 * list checks the head's version, so no block slips in between the reading of the draft and its end.
 */

/** The head names the draft's blob, for the case that no request ever comes back to it. */
export function putDraftHead(draft: string, { account, container, blob }: BlobName): Put {
  const head = { account, container, blob };
  return { key: draftHeadKey(draft), value: Buffer.from(JSON.stringify(head), "utf8") };
}

export function decodeDraftHead({ value }: Pick<Entry, "value">): BlobName {
  return JSON.parse(Buffer.from(value).toString("utf8")) as BlobName;
}

export function putUncommittedBlock(draft: string, block: string, content: StoredContent): Put {
  return {
    key: draftBlockKey(draft, block),
    value: Buffer.from(JSON.stringify(content), "utf8"),
  };
}

export function decodeUncommittedBlock(value: Uint8Array): StoredContent {
  return JSON.parse(Buffer.from(value).toString("utf8")) as StoredContent;
}

/**
 * All uncommitted blocks, in ascending order of their ids.
 * @returns undefined when the draft has been released: some blocks may already be freed
 */
export async function uncommittedBlocks(
  engine: Engine,
  draft: string,
): Promise<ReadonlyMap<string, StoredContent> | undefined> {
  const blocks = new Map<string, StoredContent>();
  await scanToEnd(engine, draftBlocksRange(draft), ({ key, value }) => {
    blocks.set(blockOfKey(key), decodeUncommittedBlock(value));
    return true;
  });
  // Blocks are freed only after the head is gone.
  const [head] = await engine.get([draftHeadKey(draft)]);
  return head && blocks;
}
