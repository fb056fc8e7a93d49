import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { noteBackup } from "@rowhouse/server/backup";
import { makeFolder } from "@rowhouse/server/engine/make-folder";
import { type Command, InvalidArgumentError } from "commander";
import { copyData, isWhole } from "./copy-data.ts";
import { openDataFolder } from "./inspect-data.ts";
import { BACKUP_NAME, BlobArchive, isBlobEndpoint } from "./move/blob-archive.ts";
import { interruptible } from "./move/options.ts";
import { MEGABYTES, TransferProgress } from "./move/transfer-progress.ts";
import { notEmpty } from "./not-empty.ts";

interface BackupOptions {
  readonly location: string;
  readonly to?: string;
  readonly keep?: number;
}

export function addBackupCommand(program: Command): void {
  program
    .command("backup")
    .description("copy a consistent snapshot of a data folder, even while it is being served")
    .argument(
      "[target]",
      "the folder to create; its disk needs room for all live data",
      parseTarget,
    )
    .option("-l, --location <folder>", "the data folder", notEmpty, "rowhouse-data")
    .option(
      "--to <place>",
      "instead of a target: a folder of backups, named by their time; or a Blob endpoint for them: the URL of a container, with a SAS or with its key in AZURITE_ACCOUNTS, or a connection string (container rowhouse-backups)",
      notEmpty,
    )
    .option("--keep <n>", "with --to: afterwards remove all but the newest n backups", parseKeep)
    .action(async (target: string | undefined, options: BackupOptions) => {
      const { location, to, keep } = options;
      if (target === undefined && to !== undefined && isBlobEndpoint(to)) {
        process.exitCode = await backUpToBlobs({ location, to, keep });
        return;
      }
      const folder = folderOf(target, options, new Date());
      if (to !== undefined) makeFolder(to);
      const engine = await openDataFolder(location);
      try {
        const copied = await copyData(engine, folder);
        // A full disk does not make a backup elsewhere less of one.
        if (isWhole(copied)) await noteBackup(engine, Date.now()).catch(() => {});
        // What is damaged is only in the older backups.
        if (isWhole(copied) && to !== undefined && keep !== undefined) removeOld(to, keep);
        process.exitCode = isWhole(copied) ? 0 : 1;
      } finally {
        await engine.close();
      }
    });
}

/**
 * Copies to a temporary folder first: an endpoint takes as long as it takes, and meanwhile nothing that was deleted
 * could be freed. Returns the exit code.
 */
async function backUpToBlobs({
  location,
  to,
  keep,
}: {
  readonly location: string;
  readonly to: string;
  readonly keep: number | undefined;
}): Promise<number> {
  const archive = await BlobArchive.connect(to, interruptible());
  const engine = await openDataFolder(location);
  const staging = mkdtempSync(join(tmpdir(), "rowhouse-backup-"));
  try {
    const name = nameOf(new Date());
    const folder = join(staging, name);
    const copied = await copyData(engine, folder);
    const progress = new TransferProgress(archive.addressOf(name), { unit: MEGABYTES });
    const bytes = await archive
      .upload(folder, name, (bytes, done) => progress.add(bytes, done))
      .finally(() => progress.end());
    process.stdout.write(`${archive.addressOf(name)}: ${(bytes / 1e6).toFixed(1)} MB\n`);
    if (!isWhole(copied)) return 1;
    await noteBackup(engine, Date.now()).catch(() => {});
    const old = keep === undefined ? [] : (await archive.names()).slice(0, -keep);
    for (const each of old) {
      await archive.remove(each);
      process.stdout.write(`removed ${archive.addressOf(each)}\n`);
    }
    return 0;
  } finally {
    await engine.close();
    rmSync(staging, { recursive: true, force: true });
  }
}

/** @throws Error if the words do not say where the backup goes */
function folderOf(target: string | undefined, { to, keep }: BackupOptions, now: Date): string {
  if (target !== undefined && to === undefined && keep === undefined) return target;
  if (target === undefined && to !== undefined) return join(to, nameOf(now));
  throw new Error("Name either the folder to create, or a folder of backups with --to.");
}

/** `rowhouse-20261128T161300Z`: names sort in the order of their times. */
function nameOf(now: Date): string {
  return `rowhouse-${now.toISOString().replace(/[-:]|\.\d+/g, "")}`;
}

function removeOld(folder: string, keep: number): void {
  const names = readdirSync(folder).filter((name) => BACKUP_NAME.test(name));
  for (const name of names.sort().slice(0, -keep)) {
    rmSync(join(folder, name), { recursive: true });
    process.stdout.write(`removed ${join(folder, name)}\n`);
  }
}

function parseTarget(text: string): string {
  if (text !== "") return text;
  throw new InvalidArgumentError("It must not be empty; name a folder that does not exist yet.");
}

function parseKeep(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be a number from 1 to 999999.");
}
