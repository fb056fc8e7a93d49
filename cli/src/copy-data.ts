import { join } from "node:path";
import { type Backup, type BackupProgress, backUp } from "@rowhouse/server/backup";
import { CONTENTS_FOLDER, FileContentStore } from "@rowhouse/server/content/file-content-store";
import type { LmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { CLEAR_LINE } from "./clear-line.ts";

/** Copies an opened data folder to a folder that it creates, with progress on a terminal, and prints what it copied. */
export async function copyData(engine: LmdbEngine, to: string): Promise<Backup> {
  let interruption: Error | undefined;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => {
      interruption = new Error(`interrupted by ${signal}; the partial copy was removed.`);
    });
  }
  const contentStore = await FileContentStore.open(join(engine.path, CONTENTS_FOLDER));
  const show = process.stderr.isTTY ? progressOn(process.stderr) : () => {};
  const onProgress = (progress: BackupProgress) => {
    if (interruption) throw interruption;
    show(progress);
  };
  const copied = await backUp({ engine, contentStore, to, onProgress }).finally(() => {
    if (process.stderr.isTTY) process.stderr.write(CLEAR_LINE);
  });
  process.stdout.write(`${to}: ${describe(copied)}\n`);
  for (const blob of copied.damagedBlobs) {
    process.stdout.write(
      `already damaged: the content of blob ${JSON.stringify(blob)} is missing or damaged\n`,
    );
  }
  for (const entry of copied.damagedEntries) {
    process.stdout.write(`already damaged, and not in the copy: ${entry}\n`);
  }
  return copied;
}

export function isWhole({ damagedBlobs, damagedEntries }: Backup): boolean {
  return damagedBlobs.length + damagedEntries.length === 0;
}

const SHOW_EVERY_MS = 200;

/** Shows progress in one line that is overwritten. */
function progressOn(terminal: NodeJS.WriteStream): (progress: BackupProgress) => void {
  let shownAt = 0;
  return (progress) => {
    const now = Date.now();
    if (now - shownAt < SHOW_EVERY_MS) return;
    shownAt = now;
    terminal.write(CLEAR_LINE + describe(progress));
  };
}

function describe({ entries, entryBytes, contents }: BackupProgress): string {
  const megabytes = (entryBytes / 1e6).toFixed(1);
  return `${entries} entries (${megabytes} MB) and ${contents} content files`;
}
