import type { Engine, KeyRange, ScanHints, Visit } from "./engine.ts";

/**
 * Scans a range to its end, or until the visitor stops it, resuming where the engine ends a scan early. Each
 * piece is a snapshot of its own.
 */
export async function scanToEnd(
  engine: Engine,
  range: KeyRange,
  visit: Visit,
  hints?: ScanHints,
): Promise<"complete" | "stopped"> {
  let { start } = range;
  for (;;) {
    const ended = await engine.scan({ start, end: range.end }, visit, hints);
    if (typeof ended === "string") return ended;
    start = ended.resumeAt;
  }
}
