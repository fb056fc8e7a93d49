import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import {
  type PackedPackage,
  packPackages,
  stageRowhouse,
} from "../../tools/release/npm-packages.ts";

/** Whether what needs more than npm, or more than a minute, is tried as well: `npm run try`. */
export const TRIES_ALL = process.env.TRY === "long";

/** A user's project, which begins empty. */
export class EmptyFolder {
  readonly path: string;

  /** @param parent where Node looks for packages, too */
  constructor(parent: string = tmpdir()) {
    this.path = mkdtempSync(join(parent, "rowhouse-try-"));
  }

  /** Installs what one command line names, as cautious users do: without scripts of packages. */
  async install(...what: readonly string[]): Promise<void> {
    const quiet = ["--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"];
    await this.run("npm", ["install", "--ignore-scripts", ...quiet, ...what]);
  }

  /** Runs a program in the folder. @returns what it printed @throws Error if it does not exit with 0 */
  async run(file: string, args: readonly string[]): Promise<{ stdout: string; stderr: string }> {
    // Node's runner tells the tests that it starts not to print for people.
    const { NODE_OPTIONS: _, TEST_BUILT: __, NODE_TEST_CONTEXT: ___, ...env } = process.env;
    try {
      return await promisify(execFile)(file, args, {
        cwd: this.path,
        env,
        maxBuffer: 1 << 26,
      });
    } catch (cause) {
      const { stdout = "", stderr = "" } = cause as { stdout?: string; stderr?: string };
      throw new Error(`${file} ${args.join(" ")} failed:\n${stdout}${stderr}`, { cause });
    }
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.path, name), text);
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

export interface Packed {
  readonly rowhouse: PackedPackage;
  readonly patterns: PackedPackage;
  remove(): void;
}

/** The package of the command, staged as a release does, where the repository's packages are found. */
export async function packRowhouse(): Promise<{ readonly stage: string; remove(): void }> {
  const folder = fileURLToPath(new URL(`../../.build/try-${process.pid}`, import.meta.url));
  const { stage } = await stageRowhouse(folder);
  return { stage, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Packs the packages as a release does. */
export async function packed(): Promise<Packed> {
  const folder = fileURLToPath(new URL(`../../.build/try-${process.pid}`, import.meta.url));
  const [rowhouse, patterns] = await packPackages(folder);
  return {
    rowhouse: rowhouse!,
    patterns: patterns!,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** @returns the bytes of all files below a folder */
export function bytesBelow(folder: string): number {
  return filesBelow(folder).reduce((sum, file) => sum + statSync(file).size, 0);
}

/** @returns the files below a folder that contain a text */
export function filesNaming(text: string, folder: string): string[] {
  return filesBelow(folder).filter((file) => readFileSync(file).includes(text));
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
