import type { Check, Key, Put } from "../../engine/engine.ts";
import type { ContentPiece } from "./extents.ts";
import type { Making } from "./notes.ts";

/**
 * Content that is stored, or ready to be, and becomes a blob's by a commit that includes these checks, puts
 * and deletes.
 */
export interface NewContent {
  /** Undefined when the content is empty. */
  readonly piece: ContentPiece | undefined;
  /** The bytes, if all are in memory. */
  readonly bytes: Uint8Array | undefined;
  readonly checks: readonly Check[];
  readonly puts: readonly Put[];
  readonly deletes: readonly Key[];
  /** Set where the content had to be stored before the commit. */
  readonly making: Making | undefined;
}

export const NO_CONTENT: NewContent = {
  piece: undefined,
  bytes: new Uint8Array(0),
  checks: [],
  puts: [],
  deletes: [],
  making: undefined,
};
