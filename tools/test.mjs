// Runs every *.test.ts below the given folders (default: all) with node's own test runner.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
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
 * Files share a process, one after the other, because starting one takes up to two seconds of CPU. Fewer files limit
 * what a broken one affects; those in `tests` take longest.
 */
const groupFilesMax = (file) => (file.startsWith("tests/") ? 4 : 16);
/** Marks a file that needs its own process: it uses the memory, environment, output or signals that all share. */
const APART =
  /memoryUsage|heapUsed|\bgc\b|process\.(on|once|env|exit|stdout|stderr)\b|console\.|diagnostics_channel/;
/** Whole processes and databases come first: a run that ended with them would leave a core idle. */
const LONGEST = [
  /^tests\/(patterns|readme)\/(command|pages)/,
  /^tests\/(explorer|crash|postgres)\//,
  /^(tests|examples)\//,
];
/** Those that a full run has built start three times as fast from there. */
const BUILT = /^((protocol|server|patterns|cli)\/)src\/(.*)\.ts$/;
/** Marks a file that looks for others beside its source. */
const FINDS_FILES = /import\.meta|test-entry-points/;
/** From their sources: more than the cores, because tests of whole processes often wait for them. */
const SOURCES = {
  flags: ["--conditions=rowhouse-source", "--import", "tsx"],
  processes: 3,
  pathOf: (file) => file,
};
const BUILDS = {
  flags: [],
  processes: 2,
  pathOf: (file) => file.replace(BUILT, "$1dist/$3.js"),
};

if (given.length > 0) {
  // Long runs name their files, and get no timeout.
  process.exitCode = await runNode(SOURCES, ["--test-reporter=spec", ...files]);
} else {
  await runEverything();
}

/**
 * A test that passes only the second time is a fault, so a run that has one fails. With RETRY=1, for machines that are
 * shared, a few failed files are run once more alone; the run passes if they do, and names them at its end. If a process
 * of several files crashed, any of them may be the cause.
 */
async function runEverything() {
  const isBuilt = (file) =>
    process.env.TEST_BUILT && BUILT.test(file) && !FINDS_FILES.test(textOf(file));
  const built = await runGroups(BUILDS, grouped(files.filter(isBuilt)));
  const others = await runGroups(SOURCES, grouped(files.filter((file) => !isBuilt(file))));
  const failed = [...built.failed, ...others.failed];
  const crashed = [...built.crashed, ...others.crashed];
  process.exitCode = failed.length + crashed.length === 0 ? 0 : 1;
  if (process.exitCode === 0 || process.env.RETRY !== "1" || failed.length > 3) return;

  const again = await runGroups(
    SOURCES,
    [...new Set([...failed, ...crashed.flat()])].map((file) => [file]),
  );
  const steady = [...again.failed, ...again.crashed.flat()];
  process.exitCode = steady.length === 0 ? 0 : 1;
  for (const file of steady) console.log(`${file} failed twice.`);
  for (const file of failed.filter((file) => !steady.includes(file))) {
    console.log(`${file} failed alongside others and passed alone: see above, and fix it.`);
  }
  for (const group of crashed.filter((files) => !files.some((file) => steady.includes(file)))) {
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
    if (APART.test(textOf(file))) {
      groups.push([file]);
      continue;
    }
    const folder = dirname(file).split("/").slice(0, 3).join("/");
    const group = open.get(folder);
    if (group !== undefined && group.length < groupFilesMax(file)) {
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
 * @returns The files in which a test failed, and the groups whose process failed outside of a test.
 */
async function runGroups(form, groups) {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-tests-"));
  const list = join(folder, "failed");
  const programs = new Map(groups.map((group, i) => [programOf(form, group, folder, i), group]));
  const code = await runNode(form, [
    // Resources that a failed test leaves open keep its process from ending.
    "--test-timeout=900000",
    ...["--test-reporter=spec", "--test-reporter-destination=stdout"],
    ...["--test-reporter=./tools/failed-files.mjs", `--test-reporter-destination=${list}`],
    ...programs.keys(),
  ]);
  const named = readFileSync(list, "utf8").split("\n").filter(Boolean);
  rmSync(folder, { recursive: true });
  // A runner that was stopped, or could not start, says nothing about files.
  if (code !== 0 && named.length === 0) return { failed: groups.flat(), crashed: [] };
  return {
    failed: named.filter((name) => !programs.has(name)),
    crashed: named.filter((name) => programs.has(name)).map((name) => programs.get(name)),
  };
}

/**
 * Writes the program of a group. It imports each file as a suite of the file's name, so that its hooks are its own. The
 * runner starts programs in the order of their names.
 */
function programOf({ pathOf }, group, folder, i) {
  const place = LONGEST.findIndex((pattern) => pattern.test(group[0]));
  const rank = place === -1 ? LONGEST.length : place;
  const program = join(folder, `${rank}-${dirname(group[0]).replaceAll("/", "-")}-${i}.mjs`);
  const suites = group.map((file) => {
    const url = pathToFileURL(join(root, pathOf(file)));
    return `describe("${file}", async () => { await import("${url}"); });\n`;
  });
  writeFileSync(program, `import { describe } from "node:test";\n${suites.join("")}`);
  return program;
}

function runNode({ flags, processes }, args) {
  const runner = spawn(
    process.execPath,
    [...flags, "--test", `--test-concurrency=${processes}`, ...args],
    { cwd: root, stdio: "inherit" },
  );
  return new Promise((ended) => runner.on("exit", (code) => ended(code ?? 1)));
}

function fail(message) {
  console.error(message);
  process.exit(2);
}

function textOf(file) {
  return readFileSync(join(root, file), "utf8");
}

function testFiles(folder) {
  return readdirSync(resolve(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts") && !/(^|\/)(node_modules|dist)\//.test(name))
    .map((name) => join(folder, name));
}
