import { archivePattern } from "./archive.ts";
import type { Pattern } from "./pattern.ts";
import { siblingIndexPattern } from "./sibling-index.ts";

/** What can be tried, by its name in addresses. */
export const PATTERNS = {
  "sibling-index": siblingIndexPattern,
  archive: archivePattern,
} as const satisfies Readonly<Record<string, Pattern>>;

export type PatternId = keyof typeof PATTERNS;

export function isPatternId(text: string): text is PatternId {
  return Object.hasOwn(PATTERNS, text);
}
