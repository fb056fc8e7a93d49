// Runs in a package's folder before it is packed: rebuilds from nothing, so that no file of an older build is
// packed and a fresh clone has a build.
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

rmSync("dist", { recursive: true, force: true });
const compiler = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
// A program may read what npm prints on standard output.
const { status } = spawnSync(process.execPath, [compiler, "--build"], {
  stdio: ["ignore", process.stderr, "inherit"],
});
process.exitCode = status ?? 1;
