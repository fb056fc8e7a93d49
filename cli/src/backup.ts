import { join } from "node:path";
import { type BackupProgress, backUp } from "@rowhouse/server/backup";
import { CONTENTS_FOLDER, FileContentStore } from "@rowhouse/server/content/file-content-store";
import { type Command, InvalidArgumentError } from "commander";
import { CLEAR_LINE } from "./clear-line.ts";
import { openDataFolder } from "./inspect-data.ts";
import { notEmpty } from "./not-empty.ts";

export function addBackupCommand(program: Command): void {
  program
    .command("backup")
    .description("copy a consistent snapshot of a data folder, even while it is being served")
    .argument(
      "<target>",
      "the folder to create; its disk needs room for all live data",
      parseTarget,
    )
    .option("-l, --location <folder>", "the data folder", notEmpty, "rowhouse-data")
    .action(async (target: string, { location }: { readonly location: string }) => {
      const engine = await openDataFolder(location);
      let interruption: Error | undefined;
      for (const signal of ["SIGINT", "SIGTERM"] as const) {
        process.once(signal, () => {
          interruption = new Error(`interrupted by ${signal}; the partial backup was removed.`);
        });
      }
      try {
        const contents = await FileContentStore.open(join(engine.path, CONTENTS_FOLDER));
        const show = process.stderr.isTTY ? progressOn(process.stderr) : () => {};
        const onProgress = (progress: BackupProgress) => {
          if (interruption) throw interruption;
          show(progress);
        };
        const { damagedBlobs, damagedEntries, ...copied } = await backUp({
          engine,
          contents,
          to: target,
          onProgress,
        }).finally(() => {
          if (process.stderr.isTTY) process.stderr.write(CLEAR_LINE);
        });
        process.stdout.write(`${target}: ${describe(copied)}\n`);
        for (const blob of damagedBlobs) {
          process.stdout.write(
            `already damaged: the content of blob ${JSON.stringify(blob)} is missing or damaged\n`,
          );
        }
        for (const entry of damagedEntries) {
          process.stdout.write(`already damaged, and not in the copy: ${entry}\n`);
        }
        process.exitCode = damagedBlobs.length + damagedEntries.length > 0 ? 1 : 0;
      } finally {
        await engine.close();
      }
    });
}

function parseTarget(text: string): string {
  if (text !== "") return text;
  throw new InvalidArgumentError("It must not be empty; name a folder that does not exist yet.");
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
