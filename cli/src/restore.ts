import { existsSync, mkdtempSync, readdirSync, rmdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { copyData, isWhole } from "./copy-data.ts";
import { openDataFolder } from "./inspect-data.ts";
import { BlobArchive, isBlobEndpoint } from "./move/blob-archive.ts";
import { interruptible } from "./move/options.ts";
import { MEGABYTES, TransferProgress } from "./move/transfer-progress.ts";
import { notEmpty } from "./not-empty.ts";

export function addRestoreCommand(program: Command): void {
  program
    .command("restore")
    .description("copy a backup, checking all of it, to the place of a data folder")
    .argument(
      "<backup>",
      "the backup, which stays as it is: a folder; or, as for backup --to, a Blob endpoint, of which the newest is taken unless the URL ends in a name",
    )
    .option("-l, --location <folder>", "the data folder to create", notEmpty, "rowhouse-data")
    .action(async (backup: string, { location }: { readonly location: string }) => {
      if (existsSync(location)) {
        if (readdirSync(location).length > 0) {
          throw new Error(
            `${location} holds something already; move it away, or name another folder.`,
          );
        }
        rmdirSync(location);
      }
      if (!isBlobEndpoint(backup)) {
        process.exitCode = await restore(backup, location);
        return;
      }
      const archive = await BlobArchive.connect(backup, interruptible());
      const name = archive.named ?? (await archive.names()).at(-1);
      if (name === undefined) throw new Error(`${archive.addressOf("")} has no complete backup.`);
      const staging = mkdtempSync(join(tmpdir(), "rowhouse-restore-"));
      try {
        const progress = new TransferProgress(archive.addressOf(name), { unit: MEGABYTES });
        await archive
          .download(name, join(staging, name), (bytes) => progress.add(bytes))
          .finally(() => progress.end());
        process.stdout.write(`${archive.addressOf(name)}: fetched, as it was stored\n`);
        process.exitCode = await restore(join(staging, name), location);
      } finally {
        rmSync(staging, { recursive: true, force: true });
      }
    });
}

/** Returns the exit code. */
async function restore(folder: string, location: string): Promise<number> {
  const engine = await openDataFolder(folder);
  try {
    return isWhole(await copyData(engine, location)) ? 0 : 1;
  } finally {
    await engine.close();
  }
}
