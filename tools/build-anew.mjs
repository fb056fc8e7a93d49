// Before a package is packed, in its folder: nothing of an older build is in it, and a fresh clone has one.
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

rmSync("dist", { recursive: true, force: true });
const compiler = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
// What npm prints on standard output may be read by a program.
const { status } = spawnSync(process.execPath, [compiler, "--build"], {
  stdio: ["ignore", process.stderr, "inherit"],
});
process.exitCode = status ?? 1;
