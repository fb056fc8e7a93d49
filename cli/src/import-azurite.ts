import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import type { Command } from "commander";
import { importAzuriteFolder } from "./move/azurite/import-folder.ts";
import { Rejects } from "./move/rejects.ts";
import { TransferProgress } from "./move/transfer-progress.ts";
import { notEmpty } from "./not-empty.ts";

interface ImportAzuriteOptions {
  readonly location: string;
  readonly rejects?: string;
  readonly dryRun?: true;
}

export function addImportAzuriteCommand(parent: Command): void {
  parent
    .command("azurite")
    .description(
      "take over the tables, queues and blobs of the emulator's folder; stop the emulator first",
    )
    .argument("<folder>", "the emulator's folder, with the files __azurite_db_….json")
    .option("-l, --location <folder>", "the data folder to write", notEmpty, "rowhouse-data")
    .option("--rejects <file>", "append what was refused, as JSON lines", notEmpty)
    .option("--dry-run", "take over into a temporary folder, and say what was refused")
    .action(async (folder: string, options: ImportAzuriteOptions) => {
      process.exitCode = (await importAzurite(folder, options)) ? 0 : 1;
    });
}

/** Returns whether everything was taken. */
async function importAzurite(folder: string, options: ImportAzuriteOptions): Promise<boolean> {
  if (!existsSync(folder)) throw new Error(`There is no folder ${folder}.`);
  const path = options.dryRun
    ? mkdtempSync(join(tmpdir(), "rowhouse-import-"))
    : resolve(options.location);
  if (existsSync(join(path, "__azurite_db_table__.json"))) {
    throw new Error(`${path} is a folder of the emulator; name another one with --location.`);
  }
  const engine = await openLmdbEngine({ path });
  const rejects = new Rejects(options.rejects, (line) => process.stdout.write(`${line}\n`));
  const progress = new TransferProgress(folder);
  try {
    const counts = await importAzuriteFolder({
      folder,
      engine,
      onReject: (reject) => rejects.add(reject),
      onProgress: (things, done) => progress.add(things, done),
    }).finally(() => progress.end());
    const { tables, entities, queues, messages, containers, blobs, newerHere } = counts;
    const newer = newerHere > 0 ? `; ${newerHere} are newer in ${path}, and stay` : "";
    const where = options.dryRun ? "would be taken" : path;
    process.stdout.write(
      `${where}: ${entities} entities in ${tables} tables, ${messages} messages in ${queues} queues, ${blobs} blobs in ${containers} containers${newer}\n`,
    );
  } finally {
    rejects.close();
    await engine.close();
    if (options.dryRun) rmSync(path, { recursive: true });
  }
  return rejects.count === 0;
}
