import { existsSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { flushFolder } from "@rowhouse/server/engine/make-folder";
import type { Command } from "commander";
import { copyData, isWhole } from "./copy-data.ts";
import { openDataFolder } from "./inspect-data.ts";
import { notEmpty } from "./not-empty.ts";

/**
 * `rowhouse compact`: a data folder without the free space between its entries.
 *
 *   1. LOCATION            → copied to LOCATION.compact, checking all of it
 *   2. LOCATION            → renamed to LOCATION.before-compact
 *   3. LOCATION.compact    → renamed to LOCATION
 *
 * Killed between 2 and 3, there is no LOCATION; run again, the command finishes step 3.
 */
export function addCompactCommand(program: Command): void {
  program
    .command("compact")
    .description("rewrite a data folder that is not being served, without the free space in it")
    .option("-l, --location <folder>", "the data folder", notEmpty, "rowhouse-data")
    .action(async ({ location }: { readonly location: string }) => {
      const folder = resolve(location);
      const compact = `${folder}.compact`;
      const before = `${folder}.before-compact`;
      if (!existsSync(folder) && existsSync(compact) && existsSync(before)) {
        swap(compact, folder);
      } else {
        if (existsSync(before)) {
          throw new Error(
            `${before} is left of an earlier run; remove it once its successor serves.`,
          );
        }
        rmSync(compact, { recursive: true, force: true });
        const sizeBefore = dataBytes(folder);
        if (!(await copyUnserved(folder, compact))) {
          rmSync(compact, { recursive: true });
          throw new Error(
            `${folder} stays as it is, because something in it is damaged: see above.`,
          );
        }
        swap(folder, before);
        swap(compact, folder);
        const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1);
        process.stdout.write(
          `${folder}: ${megabytes(sizeBefore)} MB before, ${megabytes(dataBytes(folder))} MB now\n`,
        );
      }
      process.stdout.write(`Start the server; once it serves, remove ${before}\n`);
    });
}

/** Returns whether everything was copied. @throws Error if a server uses the folder: it would go on in the old one */
async function copyUnserved(folder: string, to: string): Promise<boolean> {
  const engine = await openDataFolder(folder);
  try {
    if (engine.isShared()) {
      throw new Error(`${folder} is being served; stop the server first.`);
    }
    const copied = await copyData(engine, to);
    // A server that was started meanwhile may have written.
    if (engine.isShared()) {
      rmSync(to, { recursive: true });
      throw new Error(`${folder} was served meanwhile; stop the server first.`);
    }
    return isWhole(copied);
  } finally {
    await engine.close();
  }
}

function swap(from: string, to: string): void {
  renameSync(from, to);
  flushFolder(dirname(to));
}

function dataBytes(folder: string): number {
  const path = join(folder, "data.mdb");
  return existsSync(path) ? statSync(path).size : 0;
}
