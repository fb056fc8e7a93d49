import { existsSync, readdirSync, rmdirSync } from "node:fs";
import type { Command } from "commander";
import { copyData, isWhole } from "./copy-data.ts";
import { openDataFolder } from "./inspect-data.ts";
import { notEmpty } from "./not-empty.ts";

export function addRestoreCommand(program: Command): void {
  program
    .command("restore")
    .description("copy a backup, checking all of it, to the place of a data folder")
    .argument("<backup>", "the backup; it stays as it is")
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
      const engine = await openDataFolder(backup);
      try {
        process.exitCode = isWhole(await copyData(engine, location)) ? 0 : 1;
      } finally {
        await engine.close();
      }
    });
}
