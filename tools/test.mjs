// Runs every *.test.ts below the given folders (default: all) with node's own test runner.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const everything = [
  ...["protocol", "server", "patterns", "explorer", "cli"],
  ...["bench", "examples", "tests", "tools"],
];
const given = process.argv.slice(2);
const folders = given.length > 0 ? given : everything;
const missing = folders.find((path) => !existsSync(resolve(root, path)));
if (missing)
  fail(`There is no ${missing}; name test files, or folders such as ${everything.join(", ")}.`);
const files = folders.flatMap((path) => (path.endsWith(".ts") ? [path] : testFiles(path))).sort();
if (files.length === 0) fail(`No *.test.ts below ${folders.join(", ")}.`);

/**
 * The most files in one process: fewer limit what a broken file affects, more share half a second of CPU at
 * start.
 */
const GROUP_FILES_MAX = 16;
/** Folders whose files may share a process, one after the other. */
const SHARING =
  /^(protocol|server|patterns|explorer|cli|bench|tools|tests\/wire\/(table|queue|blob)-)/;
/**
 * Marks a file that needs its own process: hooks that apply to the whole process (`after` runs last and may
 * be shared), or use of its memory, its environment, its output or other processes.
 */
const APART =
  /^(before|beforeEach|afterEach)\(|memoryUsage|heapUsed|\bgc\b|process\.(on|once|env|exit|stdout|stderr)\b|console\.|child_process|rowhouse-process|rowhouse-command|test-server|diagnostics_channel/m;

const { failed, broken } = await run(
  given.length > 0 ? files.map((file) => [file]) : grouped(files),
);
process.exitCode = failed.length + broken.length === 0 ? 0 : 1;

// A test that passes only the second time is a fault, so a run that has one fails. With RETRY=1, for machines that are
// shared, a few failed files are run once more alone; the run passes if they do, and names them at its end. If a process
// of several files crashed, any of them may be the cause.
const retries = process.env.RETRY === "1" && given.length === 0;
if (retries && (broken.length > 0 || failed.length > 0) && failed.length <= 3) {
  const suspects = broken.flat();
  const once = [...new Set([...failed, ...suspects])];
  const again = await run(once.map((file) => [file]));
  const steady = once.filter((file) => again.failed.includes(file));
  const unsteady = failed.filter((file) => !again.failed.includes(file));
  process.exitCode = steady.length === 0 ? 0 : 1;
  for (const file of steady) console.log(`${file} failed twice.`);
  for (const file of unsteady) {
    console.log(`${file} failed alongside others and passed alone: see above, and fix it.`);
  }
  for (const group of broken.filter((files) => !files.some((file) => steady.includes(file)))) {
    console.log(
      `${group.join(", ")} crashed their process and passed alone: see above, and fix it.`,
    );
  }
}

/** Groups neighboring files that may share a process. */
function grouped(files) {
  const groups = [];
  const open = new Map();
  for (const file of files) {
    if (!SHARING.test(file) || APART.test(readFileSync(join(root, file), "utf8"))) {
      groups.push([file]);
      continue;
    }
    const folder = dirname(file).split("/").slice(0, 3).join("/");
    const group = open.get(folder);
    if (group !== undefined && group.length < GROUP_FILES_MAX) {
      group.push(file);
    } else {
      open.set(folder, [file]);
      groups.push(open.get(folder));
    }
  }
  return groups;
}

/**
 * Runs each group in its own process.
 * @returns The files in which a test failed, and the groups of several files whose process failed outside of
 * a test.
 */
async function run(groups) {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-tests-"));
  const list = join(folder, "failed");
  const programs = new Map(groups.map((group, i) => [programOf(group, folder, i), group]));
  // Resources that a failed test leaves open keep its file from ending. Long runs, which name their files,
  // get no timeout.
  const timeout = given.length > 0 ? [] : ["--test-timeout=480000"];
  const reporters = [
    ...["--test-reporter=spec", "--test-reporter-destination=stdout"],
    ...["--test-reporter=./tools/failed-files.mjs", `--test-reporter-destination=${list}`],
  ];
  const sources = ["--conditions=rowhouse-source", "--import", "tsx"];
  const runner = spawn(
    process.execPath,
    [...sources, "--test", "--test-concurrency=2", ...timeout, ...reporters, ...programs.keys()],
    { cwd: root, stdio: "inherit" },
  );
  const code = await new Promise((ended) => runner.on("exit", ended));
  const named = readFileSync(list, "utf8").split("\n").filter(Boolean);
  rmSync(folder, { recursive: true });
  // A runner that was stopped, or could not start, says nothing about files.
  if (code !== 0 && named.length === 0) return { failed: groups.flat(), broken: [] };
  const broken = named.map((name) => programs.get(name)).filter((group) => group?.length > 1);
  const failed = named.filter((name) => !(programs.get(name)?.length > 1));
  return { failed: failed.map((name) => relative(root, resolve(root, name))), broken };
}

/** The path to give to node's runner for a group: its only file, or a program that imports its files. */
function programOf(group, folder, i) {
  const [first, ...others] = group;
  if (others.length === 0) return first;
  const program = join(folder, `${dirname(first).replaceAll("/", "-")}-${i}.mjs`);
  const imports = group.map((file) => `await import("${pathToFileURL(join(root, file))}");\n`);
  writeFileSync(program, imports.join(""));
  return program;
}

function fail(message) {
  console.error(message);
  process.exit(2);
}

function testFiles(folder) {
  return readdirSync(resolve(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts") && !/(^|\/)(node_modules|dist)\//.test(name))
    .map((name) => join(folder, name));
}
