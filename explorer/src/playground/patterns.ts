import { archivePattern } from "./archive.ts";
import { bulkDeletePattern } from "./bulk-delete.ts";
import { logTailPattern } from "./log-tail.ts";
import type { Pattern } from "./pattern.ts";
import { remoteIndexPattern } from "./remote-index.ts";
import { siblingIndexPattern } from "./sibling-index.ts";
import { widePattern } from "./wide.ts";

/** What can be tried, by its name in addresses. */
export const PATTERNS = {
  "sibling-index": siblingIndexPattern,
  "remote-index": remoteIndexPattern,
  archive: archivePattern,
  "log-tail": logTailPattern,
  "bulk-delete": bulkDeletePattern,
  wide: widePattern,
} as const satisfies Readonly<Record<string, Pattern>>;

export type PatternId = keyof typeof PATTERNS;

export function isPatternId(text: string): text is PatternId {
  return Object.hasOwn(PATTERNS, text);
}
