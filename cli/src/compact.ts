import { spawnSync } from "node:child_process";
import { existsSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { flushFolder } from "@rowhouse/server/engine/make-folder";
import type { Command } from "commander";
import { copyData, isWhole } from "./copy-data.ts";
import { parseSeconds, readyWithin } from "./healthcheck.ts";
import { openDataFolder } from "./inspect-data.ts";
import { notEmpty } from "./not-empty.ts";

interface CompactOptions {
  readonly location: string;
  readonly stop?: string;
  readonly start?: string;
  readonly against: string;
  readonly wait: number;
}

/**
 * `rowhouse compact`: a data folder without the free space between its entries.
 *
 *   1. LOCATION            → copied to LOCATION.compact, checking all of it
 *   2. LOCATION            → renamed to LOCATION.before-compact
 *   3. LOCATION.compact    → renamed to LOCATION
 *
 * Killed between 2 and 3, there is no LOCATION; run again, the command finishes step 3. With commands that stop and
 * start the server, it is stopped before and started afterwards, and LOCATION.before-compact is removed once it serves.
 */
export function addCompactCommand(program: Command): void {
  program
    .command("compact")
    .description("rewrite a data folder that is not being served, without the free space in it")
    .option("-l, --location <folder>", "the data folder", notEmpty, "rowhouse-data")
    .option(
      "--stop <command>",
      'stop the server before, such as "systemctl stop rowhouse"',
      notEmpty,
    )
    .option(
      "--start <command>",
      "start it afterwards, and remove the old data once it serves",
      notEmpty,
    )
    .option(
      "--against <url>",
      "with --start: where it then serves",
      notEmpty,
      "http://127.0.0.1:10002",
    )
    .option(
      "--wait <seconds>",
      "with --start: how long it may take until it serves",
      parseSeconds,
      60,
    )
    .action(async ({ location, stop, start, against, wait }: CompactOptions) => {
      const folder = resolve(location);
      if (start === undefined || stop === undefined) {
        if (start !== stop)
          throw new Error("--stop and --start go together: give both, or neither.");
        await compact(folder);
        const before = beforeOf(folder);
        process.stdout.write(`Start the server; once it serves, remove ${before}\n`);
        return;
      }
      if (!URL.canParse("/readyz", against)) throw new Error(`"${against}" is not a URL.`);
      await compactBetween(folder, { stop, start, wait, readyz: new URL("/readyz", against) });
    });
}

/** How a server is stopped and started, and how many seconds it may take until it is ready. */
interface Restart {
  readonly stop: string;
  readonly start: string;
  readonly wait: number;
  readonly readyz: URL;
}

/** @throws Error if the server is not ready in time; both folders are kept then */
async function compactBetween(
  folder: string,
  { stop, start, wait, readyz }: Restart,
): Promise<void> {
  run(stop);
  try {
    await compact(folder);
  } catch (error) {
    run(start);
    throw error;
  }
  run(start);
  const { ready, detail } = await readyWithin(wait, readyz);
  if (ready) {
    rmSync(beforeOf(folder), { recursive: true });
    process.stdout.write(`The server is ready; ${beforeOf(folder)} is removed.\n`);
    return;
  }
  // It is not put back here: the server may be slow, or serve elsewhere, and have written to the new data.
  throw new Error(
    `The server was not ready within ${wait} s (${detail.trim()}). It was started with the new data, and the old data is in ${beforeOf(folder)}: remove that once the server serves, or stop the server and rename it to ${folder}.`,
  );
}

/** Runs a command of the user's, as a shell does. @throws Error if it fails */
function run(command: string): void {
  const { status, error } = spawnSync(command, { shell: true, stdio: "inherit" });
  if (error) throw error;
  if (status !== 0) throw new Error(`"${command}" ended with ${status}.`);
}

function beforeOf(folder: string): string {
  return `${folder}.before-compact`;
}

async function compact(folder: string): Promise<void> {
  const part = `${folder}.compact`;
  const before = beforeOf(folder);
  if (!existsSync(folder) && existsSync(part) && existsSync(before)) {
    swap(part, folder);
    return;
  }
  if (existsSync(before)) {
    throw new Error(`${before} is left of an earlier run; remove it once its successor serves.`);
  }
  rmSync(part, { recursive: true, force: true });
  const sizeBefore = dataBytes(folder);
  if (!(await copyUnserved(folder, part))) {
    rmSync(part, { recursive: true });
    throw new Error(`${folder} stays as it is, because something in it is damaged: see above.`);
  }
  swap(folder, before);
  swap(part, folder);
  const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1);
  process.stdout.write(
    `${folder}: ${megabytes(sizeBefore)} MB before, ${megabytes(dataBytes(folder))} MB now\n`,
  );
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
