import { readFileSync } from "node:fs";
import { messageOf } from "./message-of.ts";

/** @throws Error that names the file; the system's own message does not if it is a folder. */
export function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new Error(`Cannot read ${file}: ${messageOf(cause)}`, { cause });
  }
}
