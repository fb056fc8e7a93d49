import { KEY_SPACES, type KeySpace } from "../catalog/key-spaces.ts";
import type { ContentStore } from "../content/content-store.ts";
import type { Engine, Key, Visit } from "../engine/engine.ts";
import { partitionPrefixRange } from "../engine/key-codec.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import { blockOfKey, isDraftHead } from "./blob-keys.ts";
import { type ContentReference, decodeRecord } from "./blob-record.ts";
import { decodeUncommittedBlock } from "./content-life/drafts.ts";
import { decodeExtent } from "./content-life/extents.ts";

/** Inconsistencies among the stored blobs. There are none once all notes are settled. */
export interface Audit {
  /** Things that nothing refers to: `row ID`, `content ID`, `list ID`, `draft ID`. */
  readonly leftOver: readonly string[];
  /** Things that are referred to but do not exist. */
  readonly missing: readonly string[];
  /** Number of notes: of things in the making or to be freed. */
  readonly notes: number;
}

/**
 * Reads everything stored for blobs, of all accounts, in time proportional to its amount. The result is exact
 * only while the server is idle.
 *
 * @param contents the store of large contents; absent when they are in the engine's rows
 */
export async function auditBlobs(engine: Engine, contentStore?: ContentStore): Promise<Audit> {
  const referred = new Set<string>();
  const drafts = new Set<string>();
  const lists = new Set<string>();
  const refer = (reference: ContentReference) => {
    if (reference.in === "nowhere") return;
    const inRows =
      reference.in === "row" || (reference.in === "store" && contentStore === undefined);
    const kind = reference.in === "list" ? "list" : inRows ? "row" : "content";
    referred.add(`${kind} ${reference.id}`);
    if (reference.in === "list") lists.add(reference.id);
  };
  await scanSpace(engine, KEY_SPACES.blobs, (entry) => {
    const { blob, draft } = decodeRecord(entry);
    if (blob) refer(blob.content);
    if (draft) {
      referred.add(`draft ${draft.id}`);
      drafts.add(draft.id);
    }
    return true;
  });

  const stored = new Set<string>();
  await scanSpace(engine, KEY_SPACES.blobExtents, ({ key, value }) => {
    const list = idOf(key);
    stored.add(`list ${list}`);
    const extent = decodeExtent(value);
    if (lists.has(list) && !("bytes" in extent)) refer(extent);
    return true;
  });
  await scanSpace(engine, KEY_SPACES.blobDrafts, ({ key, value }) => {
    const draft = idOf(key);
    stored.add(`draft ${draft}`);
    if (drafts.has(draft) && !isDraftHead(key)) {
      if (blockOfKey(key) === "") throw new Error("A block has no id.");
      refer(decodeUncommittedBlock(value));
    }
    return true;
  });
  await scanSpace(engine, KEY_SPACES.blobContents, ({ key }) => {
    stored.add(`row ${idOf(key)}`);
    return true;
  });
  for await (const id of contentStore?.list() ?? []) stored.add(`content ${id}`);
  let notes = 0;
  await scanSpace(engine, KEY_SPACES.blobNotes, () => ++notes > 0);
  return {
    leftOver: [...stored].filter((thing) => !referred.has(thing)),
    missing: [...referred].filter((thing) => !stored.has(thing)),
    notes,
  };
}

async function scanSpace(engine: Engine, space: KeySpace, visit: Visit): Promise<void> {
  await scanToEnd(engine, partitionPrefixRange(Uint8Array.of(space)), visit);
}

/** The text after the key space. */
function idOf({ partition }: Key): string {
  return Buffer.from(partition).toString("latin1", 1);
}
