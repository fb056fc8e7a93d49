import { readFileSync } from "node:fs";
import { messageOf } from "./message-of.ts";

/** @throws Error that names the file, which the system's own words do not where it is a folder */
export function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new Error(`Cannot read ${file}: ${messageOf(cause)}`, { cause });
  }
}
