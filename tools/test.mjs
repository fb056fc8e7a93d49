// Runs every *.test.ts below the folders named (default: all) with node's own runner.
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const everything = ["protocol", "server", "patterns", "cli", "bench", "tests", "tools"];
const given = process.argv.slice(2);
const folders = given.length > 0 ? given : everything;
const files = folders.flatMap((path) => (path.endsWith(".ts") ? [path] : testFiles(path))).sort();
if (files.length === 0) throw new Error(`No *.test.ts below ${folders.join(", ")}.`);

const failed = await run(files);
process.exitCode = failed.length === 0 ? 0 : 1;

// Servers are started, killed and starved here, beside each other: what fails among everything is run once more alone.
if (given.length === 0 && failed.length > 0 && failed.length <= 3) {
  const again = await run(failed);
  process.exitCode = again.length === 0 ? 0 : 1;
  const steady = failed.filter((file) => again.includes(file));
  const unsteady = failed.filter((file) => !again.includes(file));
  for (const file of steady) console.log(`${file} failed twice.`);
  for (const file of unsteady) {
    console.log(`${file} failed beside the others and passed alone: see above, and mend it.`);
  }
}

/** @returns The files in which a test failed, as they were named to the runner. */
async function run(files) {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-tests-"));
  const list = join(folder, "failed");
  // What a failed test leaves open keeps its file from ending. Long forms, which name theirs, may take their time.
  const timeout = given.length > 0 ? [] : ["--test-timeout=480000"];
  const reporters = [
    ...["--test-reporter=spec", "--test-reporter-destination=stdout"],
    ...["--test-reporter=./tools/failed-files.mjs", `--test-reporter-destination=${list}`],
  ];
  const sources = ["--conditions=rowhouse-source", "--import", "tsx"];
  const runner = spawn(
    process.execPath,
    [...sources, "--test", "--test-concurrency=2", ...timeout, ...reporters, ...files],
    { cwd: root, stdio: "inherit" },
  );
  const code = await new Promise((ended) => runner.on("exit", ended));
  const failed = readFileSync(list, "utf8").split("\n").filter(Boolean);
  rmSync(folder, { recursive: true });
  // A runner that was stopped, or could not begin, says nothing about files.
  if (code !== 0 && failed.length === 0) return files;
  return failed.map((file) => relative(root, resolve(root, file)));
}

function testFiles(folder) {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts") && !/(^|\/)(node_modules|dist)\//.test(name))
    .map((name) => join(folder, name));
}
