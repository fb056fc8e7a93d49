import { spawnSync } from "node:child_process";
import { root } from "./manifests.ts";

/** Runs a program to its end. @returns what it printed on standard output @throws Error if it fails */
export function run(file: string, args: readonly string[], cwd = root): string {
  const { status, stdout, error } = spawnSync(file, args, {
    cwd,
    encoding: "utf8",
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`${file} ${args.join(" ")} ended with ${status}:\n${stdout}`);
  return stdout;
}
