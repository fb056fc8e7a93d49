import type { Check, Key, Put } from "../engine/engine.ts";
import type { ContentPiece } from "./extents.ts";
import type { Making } from "./notes.ts";

/** Content that is stored, and becomes a blob's by the commit that carries what is said here. */
export interface NewContent {
  /** Undefined when there are no bytes. */
  readonly piece: ContentPiece | undefined;
  /** The bytes, where they are all in memory. */
  readonly bytes: Uint8Array | undefined;
  readonly checks: readonly Check[];
  readonly puts: readonly Put[];
  readonly deletes: readonly Key[];
  /** Where it had to be stored before the commit. */
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
