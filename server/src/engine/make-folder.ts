import { closeSync, fsyncSync, mkdirSync, openSync } from "node:fs";
import { dirname, resolve } from "node:path";

/**
 * Makes a folder, and those above it that are missing. What was made is safe from a loss of power: a
 * new name is on disk only when the folder that it stands in is.
 */
export function makeFolder(path: string, mode = 0o777): void {
  const first = mkdirSync(path, { recursive: true, mode });
  if (first === undefined) return;
  const above = dirname(resolve(first));
  let folder = resolve(path);
  do {
    folder = dirname(folder);
    flushFolder(folder);
  } while (folder.length > above.length);
}

export function flushFolder(path: string): void {
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
