import cluster from "node:cluster";
import { chmodSync, existsSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { messageOf } from "../message-of.ts";

/**
 * The files of a recording. The first process that serves writes FILE; each further worker, and each that replaces
 * one, writes FILE.2, FILE.3, …: what a line contains depends on the lines before it.
 */
export function recordingFiles(file: string): string[] {
  return [file, ...further(file)].filter((each) => existsSync(each));
}

/** The file of this process. */
export function ownRecording(file: string): string {
  const number = cluster.worker?.id ?? 1;
  return number === 1 ? file : `${file}.${number}`;
}

/**
 * Empties the recording of an earlier run, so that only its owner may read it.
 * @throws Error if it cannot be written
 */
export function prepareRecording(file: string): void {
  try {
    for (const each of further(file)) rmSync(each);
    writeFileSync(file, "", { mode: 0o600 });
  } catch (cause) {
    throw new Error(`Cannot write the recording: ${messageOf(cause)}`, { cause });
  }
  // An existing file kept its mode. The mode of a device must not be changed.
  if (statSync(file).isFile()) chmodSync(file, 0o600);
}

function further(file: string): string[] {
  const folder = dirname(file);
  if (!existsSync(folder)) return [];
  const name = `${basename(file)}.`;
  return readdirSync(folder)
    .filter((each) => each.startsWith(name) && /^\d+$/.test(each.slice(name.length)))
    .map((each) => join(folder, each));
}
