// Runs every *.test.ts below the given folders (default: all) with node's own test runner.
import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
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
  /^(tests\/(explorer|crash|postgres)|server\/src\/engine\/postgres)\/|^patterns\/src\/(declarations|bundle)/,
  /^(tests|examples)\//,
];
/** Marks a file that loads other sources while it runs, or shares the state of what it loads with those. */
const LOADS_SOURCES = /\bloadSchema\(|pattern-suite\.ts|import\(pathToFileURL/;
/** More than the cores, because tests of whole processes often wait for them. */
const PROCESSES = 3;
/** A source that its package is built from. */
const PACKAGED = /^(protocol|server|patterns|cli)\/src\/(.*)\.ts$/;
const SOURCES = ["--conditions=rowhouse-source", "--import", "tsx"];

if (process.env.TEST_BUILT) {
  await runBuilt();
} else {
  // Long runs name their files, and get no timeout.
  process.exitCode = await runNode([...SOURCES, "--test-reporter=spec", ...files]);
}

/**
 * A test that passes only the second time is a fault, so a run that has one fails. With RETRY=1, for machines that are
 * shared, a few failed files are run once more alone; the run passes if they do, and names them at its end. If a process
 * of several files crashed, any of them may be the cause.
 */
async function runBuilt() {
  mkdirSync(join(root, ".build"), { recursive: true });
  const folder = mkdtempSync(join(root, ".build/run-"));
  process.env.TEST_PROGRAMS = folder;
  // Where PostgreSQL's own user can look.
  const template = join(tmpdir(), `rowhouse-postgres-template-${process.pid}`);
  process.env.TEST_POSTGRES_TEMPLATE = template;
  try {
    await buildTests(folder);
    const first = await runGroups(folder, grouped(files));
    process.exitCode = first.failed.length + first.crashed.length === 0 ? 0 : 1;
    if (process.exitCode === 1 && process.env.RETRY === "1" && first.failed.length <= 3) {
      await runAgain(folder, first);
    }
  } finally {
    for (const made of [folder, template]) rmSync(made, { recursive: true, force: true });
  }
}

async function runAgain(folder, { failed, crashed }) {
  const alone = [...new Set([...failed, ...crashed.flat()])].map((file) => [file]);
  const again = await runGroups(folder, alone);
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

/**
 * Compiles all that only tests consist of to `<folder>/<path>.js`, because compiling the sources as they are loaded
 * takes a process one to three seconds. What packages consist of is imported from where they were built.
 */
async function buildTests(folder) {
  const { build } = await import("esbuild");
  const ownPlace = ({ path }) => {
    const text = readFileSync(path, "utf8");
    const place = [pathToFileURL(path).href, dirname(path)].map((text) => JSON.stringify(text));
    // On the first line, to keep the numbers of the others.
    const own = `const OWN_URL = ${place[0]}, OWN_FOLDER = ${place[1]}; `;
    return { loader: "ts", contents: text.includes("import.meta") ? own + text : text };
  };
  const inPackage = ({ path, resolveDir, kind }) => {
    const found = PACKAGED.exec(join(resolveDir, path).slice(root.length + 1));
    if (found === null || kind === "entry-point") return undefined;
    return { path: join(root, found[1], "dist", `${found[2]}.js`), external: true };
  };
  await build({
    absWorkingDir: root,
    // Some tests run others.
    entryPoints: everything.flatMap(testFiles),
    outdir: folder,
    outbase: root,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "es2023",
    packages: "external",
    jsx: "automatic",
    jsxImportSource: "preact",
    sourcemap: "linked",
    logLevel: "warning",
    define: { "import.meta.url": "OWN_URL", "import.meta.dirname": "OWN_FOLDER" },
    plugins: [
      {
        name: "where sources are",
        setup({ onLoad, onResolve }) {
          onLoad({ filter: /\.ts$/ }, ownPlace);
          onResolve({ filter: /^\..*\.ts$/ }, inPackage);
        },
      },
    ],
  });
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
async function runGroups(folder, groups) {
  const list = join(folder, "failed");
  const programs = new Map(groups.map((group, i) => [programOf(group, folder, i), group]));
  const code = await runNode([
    "--enable-source-maps",
    // Resources that a failed test leaves open keep its process from ending.
    "--test-timeout=900000",
    ...["--test-reporter=spec", "--test-reporter-destination=stdout"],
    ...["--test-reporter=./tools/failed-files.mjs", `--test-reporter-destination=${list}`],
    ...programs.keys(),
  ]);
  const named = readFileSync(list, "utf8").split("\n").filter(Boolean);
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
function programOf(group, folder, i) {
  const place = LONGEST.findIndex((pattern) => group.some((file) => pattern.test(file)));
  const rank = place === -1 ? LONGEST.length : place;
  const program = join(folder, `${rank}-${dirname(group[0]).replaceAll("/", "-")}-${i}.mjs`);
  const loadsSources = group.some(loadsSourcesLater);
  const suites = group.map((file) => {
    const path = loadsSources ? join(root, file) : join(folder, file.replace(/\.ts$/, ".js"));
    return `describe("${file}", async () => { await import("${pathToFileURL(path)}"); });\n`;
  });
  const loader = 'import { register } from "tsx/esm/api";\nregister();\n';
  const head = `import { describe } from "node:test";\n${loadsSources ? loader : ""}`;
  writeFileSync(program, head + suites.join(""));
  return program;
}

function loadsSourcesLater(file) {
  return LOADS_SOURCES.test(textOf(file));
}

function runNode(args) {
  const node = ["--test", `--test-concurrency=${PROCESSES}`, ...args];
  const runner = spawn(process.execPath, node, { cwd: root, stdio: "inherit" });
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
