#!/usr/bin/env node
import { Command } from "commander";
import { emulatorName, serveArguments } from "./emulator-names.ts";
import { failWith } from "./fail-with.ts";
import { messageOf } from "./message-of.ts";
import { packageVersion } from "./version.ts";

/** Each command in its own file, loaded when it is named: a server does not wait for what copies or checks need. */
const commands = {
  serve: async () => (await import("./serve.ts")).addServeCommand,
  account: async () => (await import("./account.ts")).addAccountCommand,
  "connection-string": async () =>
    (await import("./connection-string.ts")).addConnectionStringCommand,
  engine: async () => (await import("./engine-command.ts")).addEngineCommand,
  explain: async () => (await import("./explain.ts")).addExplainCommand,
  index: async () => (await import("./index-command.ts")).addIndexCommand,
  inspect: async () => (await import("./inspect.ts")).addInspectCommand,
  backup: async () => (await import("./backup.ts")).addBackupCommand,
  restore: async () => (await import("./restore.ts")).addRestoreCommand,
  compact: async () => (await import("./compact.ts")).addCompactCommand,
  copy: async () => (await import("./copy.ts")).addCopyCommand,
  export: async () => (await import("./export.ts")).addExportCommand,
  import: async () => (await import("./import.ts")).addImportCommand,
  purge: async () => (await import("./purge.ts")).addPurgeCommand,
  verify: async () => (await import("./verify.ts")).addVerifyCommand,
  report: async () => (await import("./report.ts")).addReportCommand,
  healthcheck: async () => (await import("./healthcheck.ts")).addHealthcheckCommand,
  advise: async () => (await import("./advise.ts")).addAdviseCommand,
  patterns: async () => (await import("./patterns.ts")).addPatternsCommand,
};

const emulated = emulatorName();
if (emulated !== undefined) {
  const { args, warnings } = serveArguments(emulated, process.argv.slice(2));
  process.argv.splice(2, process.argv.length, ...args);
  for (const warning of warnings) process.stderr.write(`${emulated}: ${warning}\n`);
}

const program = new Command("rowhouse")
  .description("a table store that speaks the Azure Table, Queue and Blob protocols")
  .version(packageVersion(), "-v, --version", "print the version")
  .helpOption("-h, --help", "print this help")
  .helpCommand("help [command]", "print the help of a command")
  .showHelpAfterError("(add --help for the allowed arguments)")
  // Exit code 1 means a finding, so a wrong command line exits with 2. Commands added below inherit this.
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2));

// The reader of standard output may be gone, as with `| head`, or with `| tee` when the terminal ends both. Report
// files are still written and exit codes keep their meaning. A server also keeps running if the disk behind
// standard output is full.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  // Reported once: every later line fails as well.
  if (error.code === "EPIPE" || error.code === "EIO" || process.exitCode === 2) return;
  process.stderr.write(`rowhouse: cannot write to standard output: ${error.message}\n`);
  process.exitCode = 2;
});
process.stderr.on("error", () => {});

// Without a command name, `serve` runs; it would report an unknown command as an argument too many.
const [first = "-", second = "-"] = process.argv.slice(2);
const given = first === "help" ? second : first;
const names = [...Object.keys(commands), "help"];
if (!given.startsWith("-") && !names.includes(given)) {
  program.error(`error: unknown command '${given}'; the commands are ${names.join(", ")}`);
}

// Not awaited: the executable is built from a form of this file that cannot wait at its top level.
run().catch((error) => {
  // Exits with 2; 1 means that a command found something.
  failWith(program, `rowhouse: ${messageOf(error)}`);
});

async function run(): Promise<void> {
  for (const name of needed()) (await commands[name]())(program);
  await program.parseAsync();
}

/** The commands to load: the one named, all for the general help, and `serve` if none is named. */
function needed(): readonly (keyof typeof commands)[] {
  if (isCommand(first)) return [first];
  const asksForHelp =
    first === "help" || process.argv.some((arg) => arg === "-h" || arg === "--help");
  return asksForHelp ? Object.keys(commands).filter(isCommand) : ["serve"];
}

function isCommand(name: string): name is keyof typeof commands {
  return Object.hasOwn(commands, name);
}
