import { draftHeadKey } from "./blob-keys.ts";
import type { BlobContext } from "./blob-operation.ts";
import type { BlobRecord } from "./blob-record.ts";
import type { Released } from "./blob-store.ts";

const NOTHING: Released = { puts: [], deletes: [] };

/** Lets go of all that a record refers to: its content and its draft. */
export function releaseAll(context: BlobContext, record: BlobRecord): Released {
  const content = releaseContent(context, record);
  const draft = releaseDraft(context, record);
  return {
    puts: [...content.puts, ...draft.puts],
    deletes: [...content.deletes, ...draft.deletes],
  };
}

/** @param successor the list that some of it lives on in */
export function releaseContent(
  { contents }: BlobContext,
  { blob }: BlobRecord,
  successor?: string,
): Released {
  return blob === undefined ? NOTHING : contents.release(blob.content, successor);
}

export function releaseDraft(
  { notes }: BlobContext,
  { draft }: BlobRecord,
  successor?: string,
): Released {
  if (draft === undefined) return NOTHING;
  // Blocks that are on their way to it find no head, and begin another draft.
  return {
    puts: [notes.garbage({ kind: "draft", id: draft.id }, successor)],
    deletes: [draftHeadKey(draft.id)],
  };
}
