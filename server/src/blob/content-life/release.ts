import { draftHeadKey } from "../blob-keys.ts";
import type { BlobRecord } from "../blob-record.ts";
import type { Contents } from "./contents.ts";
import type { Notes } from "./notes.ts";
import { bothReleased, NOTHING_RELEASED, type Released } from "./released.ts";

interface Releasing {
  readonly contents: Contents;
  readonly notes: Notes;
}

/** Releases everything that a record refers to: its content and its draft. */
export function releaseAll(context: Releasing, record: BlobRecord): Released {
  return bothReleased(releaseContent(context, record), releaseDraft(context, record));
}

/** @param successor the list that takes over some of the content */
export function releaseContent(
  { contents }: Pick<Releasing, "contents">,
  { blob }: BlobRecord,
  successor?: string,
): Released {
  return blob === undefined ? NOTHING_RELEASED : contents.release(blob.content, successor);
}

export function releaseDraft(
  { notes }: Pick<Releasing, "notes">,
  { draft }: BlobRecord,
  successor?: string,
): Released {
  if (draft === undefined) return NOTHING_RELEASED;
  // Blocks about to be added find no head, and begin another draft.
  return {
    puts: [notes.garbage({ kind: "draft", id: draft.id }, successor)],
    deletes: [draftHeadKey(draft.id)],
  };
}
