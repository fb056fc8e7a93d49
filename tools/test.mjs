// Runs every *.test.ts below the folders named (default: all) with node's own runner.
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const given = process.argv.slice(2);
const folders =
  given.length > 0 ? given : ["protocol", "server", "patterns", "cli", "bench", "tests", "tools"];
const files = folders.flatMap((path) => (path.endsWith(".ts") ? [path] : testFiles(path))).sort();
if (files.length === 0) throw new Error(`No *.test.ts below ${folders.join(", ")}.`);

// What a failed test leaves open keeps its file from ending. Long forms, which name theirs, may take their time.
const timeout = given.length > 0 ? [] : ["--test-timeout=300000"];
const runner = spawn(
  process.execPath,
  [
    "--conditions=rowhouse-source",
    "--import",
    "tsx",
    "--test",
    "--test-concurrency=2",
    ...timeout,
    ...files,
  ],
  { cwd: root, stdio: "inherit" },
);
runner.on("exit", (code) => process.exit(code ?? 1));

function testFiles(folder) {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts") && !/(^|\/)(node_modules|dist)\//.test(name))
    .map((name) => join(folder, name));
}
