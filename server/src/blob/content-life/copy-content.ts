import type { ContentIds } from "../../content/content-ids.ts";
import type { ContentId } from "../../content/content-store.ts";
import type { Engine, Put } from "../../engine/engine.ts";
import type { CommittedBlob, ContentReference } from "../blob-record.ts";
import { type ContentCopy, type Contents, referenceTo } from "./contents.ts";
import { putExtent, readExtents } from "./extents.ts";
import { type NewContent, NO_CONTENT } from "./new-content.ts";
import type { Notes } from "./notes.ts";

export interface CopiedContent extends NewContent {
  readonly content: ContentReference;
}

interface Copying {
  readonly engine: Engine;
  readonly ids: ContentIds;
  readonly contents: Contents;
  readonly notes: Notes;
}

/** The most of its list that one step of a copy holds in memory, besides what a few copies of contents hold. */
const BATCH = { extentsMax: 100, bytesMax: 1 << 20 };

/** Copies a blob's content for another blob. The caller counts as a reader of the source (see `Readers`). */
export async function copyContent(
  context: Copying,
  { content, size }: CommittedBlob,
): Promise<CopiedContent> {
  switch (content.in) {
    case "nowhere":
      return { ...NO_CONTENT, content };
    case "list":
      return copyList(context, content.id, size);
    default: {
      const copied = await context.contents.copy({ in: content.in, id: content.id, length: size });
      return { ...copied, content: referenceTo(copied.stored) };
    }
  }
}

/**
 * Copies a list of extents and every content in it. If the process dies on the way, the note of the new list
 * leads the collector to the list, and the list to the contents copied so far.
 */
async function copyList(
  { engine, ids, contents, notes }: Copying,
  list: string,
  size: number,
): Promise<CopiedContent> {
  const id = ids.next();
  const making = await notes.begin({ kind: "list", id });
  // A list of 1 MB may contain one block 50,000 times. Copied each time, it would take 6 GB.
  const copied = new Map<ContentId, ContentId>();
  try {
    for await (const extents of readExtents(engine, list, 0, size, BATCH)) {
      const puts: Put[] = [];
      const copies: ContentCopy[] = [];
      for (const { extent, end } of extents) {
        if ("bytes" in extent) {
          puts.push(putExtent(id, end, extent));
          continue;
        }
        let to = copied.get(extent.id);
        if (to === undefined) {
          to = ids.next();
          copied.set(extent.id, to);
          copies.push({ from: extent, to });
        }
        puts.push(putExtent(id, end, { ...extent, id: to }));
      }
      // The list refers to a content before the content exists. Otherwise a crash in between would leave a
      // content that nothing refers to.
      await making.put(puts);
      await contents.copyAll(copies, making);
    }
  } catch (error) {
    making.giveUp();
    throw error;
  }
  const { check, note } = making;
  const content = { in: "list", id } as const;
  return { ...NO_CONTENT, content, checks: [check], deletes: [note], making };
}
