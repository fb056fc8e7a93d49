// The entry point of a fresh clone, in plain JavaScript because nothing is installed yet: installs what the
// lock file lists, builds what is stale, then hands over.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const [command = "start", ...rest] = process.argv.slice(2);

installWhenTheLockFileChanged();
switch (command) {
  case "start":
    build();
    buildExplorer();
    // In this process, so that signals and exit codes have only one process to pass through.
    endWithParent();
    process.argv.splice(1, process.argv.length, join(root, "cli/dist/main.js"), "serve", ...rest);
    await import("../cli/dist/main.js");
    break;
  case "dev":
    buildExplorer();
    hand(process.execPath, [
      "--watch",
      "--conditions=rowhouse-source",
      "--import",
      "tsx",
      "cli/src/main.ts",
      "serve",
      ...rest,
    ]);
    break;
  case "test":
    if (rest.length === 0) {
      check();
      // The compiled command starts faster than its sources do.
      process.env.TEST_BUILT = "1";
    }
    hand(process.execPath, ["tools/test.mjs", ...rest]);
    break;
  default:
    throw new Error(`Unknown command "${command}"; start, dev and test are known.`);
}

/** npm runs scripts in a shell, passes SIGTERM on to the shell alone, and exits: nobody would stop the server. */
function endWithParent() {
  const parent = process.ppid;
  const look = () => {
    if (process.ppid === parent) return;
    clearInterval(looking);
    process.kill(process.pid, "SIGTERM");
  };
  const looking = setInterval(look, 200).unref();
}

/** The stamp is a copy of the lock file installed last, so an unchanged tree costs one comparison. */
function installWhenTheLockFileChanged() {
  const lock = readFileSync(join(root, "package-lock.json"), "utf8");
  const stamp = join(root, "node_modules/.rowhouse-lock");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return;
  run("npm", ["ci", "--no-audit", "--no-fund"]);
  writeFileSync(stamp, lock);
}

function build() {
  run(process.execPath, ["node_modules/typescript/bin/tsc", "--build", "cli"]);
}

/** The page that the server serves; nothing to do unless its sources changed. */
function buildExplorer() {
  run(process.execPath, ["explorer/build.mjs"]);
}

function check() {
  run(process.execPath, ["node_modules/typescript/bin/tsc", "--build"]);
  buildExplorer();
  run(process.execPath, ["node_modules/@biomejs/biome/bin/biome", "check", "."]);
}

function run(file, args) {
  const { status, error } = spawnSync(file, args, {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

/** Runs a command until it ends. The terminal sends its signals to the whole process group. */
function hand(file, args) {
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => {});
  run(file, args);
}
