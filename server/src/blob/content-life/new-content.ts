import type { Check, Key, Put } from "../../engine/engine.ts";
import type { StoredContent } from "./extents.ts";
import type { Making } from "./notes.ts";

/**
 * Content that is stored, or ready to be, and becomes a blob's by a commit that includes these checks, puts
 * and deletes.
 */
export interface NewContent {
  /** Where the content is stored once that commit has succeeded; undefined when it is empty. */
  readonly stored: StoredContent | undefined;
  /** The bytes, if all are in memory. */
  readonly bytes: Uint8Array | undefined;
  readonly checks: readonly Check[];
  readonly puts: readonly Put[];
  readonly deletes: readonly Key[];
  /** Set where the content had to be stored before the commit. */
  readonly making: Making | undefined;
}

export const NO_CONTENT: NewContent = {
  stored: undefined,
  bytes: new Uint8Array(0),
  checks: [],
  puts: [],
  deletes: [],
  making: undefined,
};
