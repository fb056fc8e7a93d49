import { readFileSync } from "node:fs";

/** A file as this process has it mapped into its memory. */
export interface Mapping {
  readonly start: number;
  readonly bytes: number;
}

/**
 * The largest mapping of a file is the newest: the smaller ones were outgrown. Undefined if there is none, or the system
 * does not tell: only Linux does.
 * @param path a real path
 */
export function largestMapping(path: string): Mapping | undefined {
  if (process.platform !== "linux") return undefined;
  let largest: Mapping | undefined;
  for (const line of mappings().split("\n")) {
    // The path comes after five fields; the kernel writes its bytes as they are.
    if (!Buffer.from(line, "latin1").toString("utf8").endsWith(` ${path}`)) continue;
    const [start = 0, end = 0] = line
      .slice(0, line.indexOf(" "))
      .split("-")
      .map((hex) => Number.parseInt(hex, 16));
    if (largest === undefined || end - start > largest.bytes) {
      largest = { start, bytes: end - start };
    }
  }
  return largest;
}

function mappings(): string {
  try {
    return readFileSync("/proc/self/maps", "latin1");
  } catch {
    // A container may have no /proc.
    return "";
  }
}
