import { closeSync, fsyncSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";

/**
 * Creates a folder and its missing parents. Everything it creates survives a loss of power: a new name is on
 * disk only once the folder that contains it is flushed.
 * @returns whether it was missing
 * @throws the operating system's error
 */
export function makeFolder(path: string, mode = 0o777): boolean {
  const made = makeMissing(resolve(path), mode);
  for (const each of made) flushFolder(dirname(each));
  return made.length > 0;
}

/**
 * Returns the folders created, the deepest first. (On Node 20 `recursive` of mkdirSync never returns below
 * /proc, and reports ENOENT where a file system is read-only.)
 */
function makeMissing(path: string, mode: number, hasFolder = false): string[] {
  try {
    mkdirSync(path, mode);
    return [path];
  } catch (error) {
    if (isFolder(path)) return [];
    const folder = dirname(path);
    if (codeOf(error) !== "ENOENT" || folder === path) throw error;
    if (hasFolder) throw new Error(`No folder can be created in ${folder}.`, { cause: error });
    // Try again even if the parent exists: another process may have created it since.
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
