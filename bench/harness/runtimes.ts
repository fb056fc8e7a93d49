import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { arch, platform } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const RUNTIMES = fileURLToPath(new URL("../../.build/runtimes/", import.meta.url));

/** The executable of that version of Node, fetched from the package registry if it is not here yet. */
export function nodeOf(version: string, architecture: string = arch()): string {
  const folder = join(RUNTIMES, architecture === arch() ? version : `${version}-${architecture}`);
  const name = `node-${platform() === "win32" ? "win" : platform()}-${architecture}`;
  const executable = join(folder, "node_modules", name, "bin", "node");
  if (existsSync(executable)) return executable;
  mkdirSync(folder, { recursive: true });
  const { status } = spawnSync(
    "npm",
    ["install", "--prefix", folder, "--no-save", "--force", `${name}@${version}`],
    {
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
  if (status !== 0) throw new Error(`No Node ${version} for this machine in the registry.`);
  return executable;
}
