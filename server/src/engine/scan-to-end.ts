import type { Engine, KeyRange, ScanHints, Visit } from "./engine.ts";

/**
 * Scans on where the engine ended a scan early, until the range or the visitor ends it. Each piece
 * is a snapshot of its own.
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
