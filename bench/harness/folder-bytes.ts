import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** The disk space that a folder uses; holes in sparse files use none. */
export function folderBytes(folder: string): number {
  let bytes = 0;
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    bytes += statSync(join(folder, name)).blocks * 512;
  }
  return bytes;
}
