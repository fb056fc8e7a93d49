import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** What a folder takes on the disk; holes in sparse files take nothing. */
export function folderBytes(folder: string): number {
  let bytes = 0;
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    bytes += statSync(join(folder, name)).blocks * 512;
  }
  return bytes;
}
