import { closeSync, fsyncSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";

/**
 * Makes a folder, and those above it that are missing. What was made is safe from a loss of power: a
 * new name is on disk only when the folder that it stands in is.
 * @returns whether it was missing
 * @throws the operating system's error
 */
export function makeFolder(path: string, mode = 0o777): boolean {
  const made = makeMissing(resolve(path), mode);
  for (const each of made) flushFolder(dirname(each));
  return made.length > 0;
}

/**
 * Answers what was made, the deepest first. (`recursive` of mkdirSync never ends below /proc on Node 20,
 * and says ENOENT where a file system is read-only.)
 */
function makeMissing(path: string, mode: number, hasFolder = false): string[] {
  try {
    mkdirSync(path, mode);
    return [path];
  } catch (error) {
    if (isFolder(path)) return [];
    const folder = dirname(path);
    if (codeOf(error) !== "ENOENT" || folder === path) throw error;
    if (hasFolder) throw new Error(`${folder} takes no folders.`, { cause: error });
    // Once more also where the folder above is there: another process may have made it just now.
    const above = makeMissing(folder, mode);
    return [...makeMissing(path, mode, true), ...above];
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

export function flushFolder(path: string): void {
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
