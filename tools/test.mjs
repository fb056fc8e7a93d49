// Runs every *.test.ts below the folders named (default: all) with node's own runner.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const everything = ["protocol", "server", "patterns", "cli", "bench", "tests", "tools"];
const given = process.argv.slice(2);
const folders = given.length > 0 ? given : everything;
const missing = folders.find((path) => !existsSync(resolve(root, path)));
if (missing)
  fail(`There is no ${missing}; name test files, or folders such as ${everything.join(", ")}.`);
const files = folders.flatMap((path) => (path.endsWith(".ts") ? [path] : testFiles(path))).sort();
if (files.length === 0) fail(`No *.test.ts below ${folders.join(", ")}.`);

/** Most files of one process: fewer share what one of them breaks, more begin with half a second of CPU each. */
const GROUP_FILES_MAX = 16;
/** Folders whose files may share a process, one after the other. */
const SHARING = /^(protocol|server|patterns|cli|bench|tools|tests\/wire\/(table|queue|blob)-)/;
/**
 * What a file has that must have a process of its own: hooks of all that runs in it (`after` comes last,
 * and may be shared), its memory, its environment, what it prints, other processes.
 */
const APART =
  /^(before|beforeEach|afterEach)\(|memoryUsage|heapUsed|\bgc\b|process\.(on|once|env|exit|stdout|stderr)\b|console\.|child_process|rowhouse-process|rowhouse-command|test-server|diagnostics_channel/m;

const { failed, broken } = await run(
  given.length > 0 ? files.map((file) => [file]) : grouped(files),
);
process.exitCode = failed.length + broken.length === 0 ? 0 : 1;

// Servers are started, killed and starved here, beside each other: what fails among everything is run once more alone.
// A process of several files that ended by a crash has not said which of them it was.
if (given.length === 0 && (broken.length > 0 || failed.length > 0) && failed.length <= 3) {
  const suspects = broken.flat();
  const once = [...new Set([...failed, ...suspects])];
  const again = await run(once.map((file) => [file]));
  const steady = once.filter((file) => again.failed.includes(file));
  const unsteady = failed.filter((file) => !again.failed.includes(file));
  process.exitCode = steady.length === 0 ? 0 : 1;
  for (const file of steady) console.log(`${file} failed twice.`);
  for (const file of unsteady) {
    console.log(`${file} failed beside the others and passed alone: see above, and mend it.`);
  }
  for (const group of broken.filter((files) => !files.some((file) => steady.includes(file)))) {
    console.log(
      `${group.join(", ")} broke their process and passed alone: see above, and mend it.`,
    );
  }
}

/** Neighbours that may share a process, together. */
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
 * Runs each group in a process.
 * @returns The files in which a test failed, and the groups of several whose process failed outside of tests.
 */
async function run(groups) {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-tests-"));
  const list = join(folder, "failed");
  const programs = new Map(groups.map((group, i) => [programOf(group, folder, i), group]));
  // What a failed test leaves open keeps its file from ending. Long forms, which name theirs, may take their time.
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
  // A runner that was stopped, or could not begin, says nothing about files.
  if (code !== 0 && named.length === 0) return { failed: groups.flat(), broken: [] };
  const broken = named.map((name) => programs.get(name)).filter((group) => group?.length > 1);
  const failed = named.filter((name) => !(programs.get(name)?.length > 1));
  return { failed: failed.map((name) => relative(root, resolve(root, name))), broken };
}

/** What node's runner is given for a group: its file, or a program that imports its files. */
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
