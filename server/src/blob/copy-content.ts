import type { BlobContext } from "./blob-operation.ts";
import type { CommittedBlob, ContentReference } from "./blob-record.ts";
import { referenceTo } from "./contents.ts";
import { type ContentExtent, type Extent, putExtent, readExtents } from "./extents.ts";
import { type NewContent, NO_CONTENT } from "./new-content.ts";

export interface CopiedContent extends NewContent {
  readonly content: ContentReference;
}

/** Each step of a copy holds no more than this. */
const BATCH = { extentsMax: 100, bytesMax: 1 << 20 };

/** All bytes of a blob once more, for another one. The caller sees to it that they stay meanwhile. */
export async function copyContent(
  context: BlobContext,
  { content, size }: CommittedBlob,
): Promise<CopiedContent> {
  switch (content.in) {
    case "nowhere":
      return { ...NO_CONTENT, content };
    case "list":
      return copyList(context, content.id, size);
    default: {
      const copied = await context.contents.copy({ in: content.in, id: content.id, length: size });
      return { ...copied, content: referenceTo(copied.piece) };
    }
  }
}

/** Under the note that the new list is in the making, which finds the contents that it refers to. */
async function copyList(
  { engine, ids, contents, notes }: BlobContext,
  list: string,
  size: number,
): Promise<CopiedContent> {
  const id = ids.next();
  const making = await notes.begin({ kind: "list", id });
  try {
    for await (const extents of readExtents(engine, list, 0, size, BATCH)) {
      const copies = extents.map(({ extent, end }) => ({
        extent,
        end,
        copy: "bytes" in extent ? extent : { ...extent, id: ids.next() },
      }));
      // First the list says what it refers to, then that is made: the other way round it could leak.
      await making.put(copies.map(({ copy, end }) => putExtent(id, end, copy)));
      await Promise.all(copies.map(({ extent, copy }) => copyPiece(extent, copy)));
    }
  } catch (error) {
    making.giveUp();
    throw error;
  }
  const { check, note } = making;
  const content = { in: "list", id } as const;
  return { ...NO_CONTENT, content, checks: [check], deletes: [note], making };

  async function copyPiece(extent: Extent, copy: Extent): Promise<void> {
    if (!isReference(extent) || !isReference(copy)) return;
    await contents.copyTo(extent, copy.id, making);
  }
}

function isReference(extent: Extent): extent is ContentExtent {
  return !("bytes" in extent);
}
