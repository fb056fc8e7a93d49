import { existsSync } from "node:fs";
import { join } from "node:path";
import { CONTENTS_FOLDER, FileContentStore } from "@rowhouse/server/content/file-content-store";
import { type Checked, verifyAll } from "@rowhouse/server/verify";
import type { Command } from "commander";
import { CLEAR_LINE } from "./clear-line.ts";
import { openDataFolder } from "./inspect-data.ts";
import { notEmpty } from "./not-empty.ts";

export function addVerifyCommand(program: Command): void {
  program
    .command("verify")
    .description("read a whole data folder, even while it is being served, and report damage")
    .option("-l, --location <folder>", "the data folder", notEmpty, "rowhouse-data")
    .action(async ({ location }: { readonly location: string }) => {
      const engine = await openDataFolder(location);
      try {
        const folder = join(engine.path, CONTENTS_FOLDER);
        const contentStore = existsSync(folder) ? await FileContentStore.open(folder) : undefined;
        const show = process.stderr.isTTY ? progressOn(process.stderr) : undefined;
        const { damaged, ...checked } = await verifyAll(engine, contentStore, show).finally(() => {
          if (show) process.stderr.write(CLEAR_LINE);
        });
        for (const what of damaged) process.stdout.write(`damaged: ${what}\n`);
        process.stdout.write(`${engine.path}: ${describe(checked)}; ${damaged.length} damaged\n`);
        if (engine.lacksChecksums || checked.contentsUnchecked > 0) {
          process.stdout.write(
            "Some of it has no checksums yet, because an older release wrote it, and could only be read.\n",
          );
        }
        process.exitCode = damaged.length > 0 ? 1 : 0;
      } finally {
        await engine.close();
      }
    });
}

const SHOW_EVERY_MS = 200;

function progressOn(terminal: NodeJS.WriteStream): (checked: Readonly<Checked>) => void {
  let shownAt = 0;
  return (checked) => {
    const now = Date.now();
    if (now - shownAt < SHOW_EVERY_MS) return;
    shownAt = now;
    terminal.write(CLEAR_LINE + describe(checked));
  };
}

function describe({ entries, entryBytes, contents }: Readonly<Checked>): string {
  const megabytes = (entryBytes / 1e6).toFixed(1);
  return `${entries} entries (${megabytes} MB) and ${contents} content files checked`;
}
