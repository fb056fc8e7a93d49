#!/usr/bin/env node
import { Command } from "commander";
import { addAccountCommand } from "./account.ts";
import { addAdviseCommand } from "./advise.ts";
import { addBackupCommand } from "./backup.ts";
import { addCompactCommand } from "./compact.ts";
import { addConnectionStringCommand } from "./connection-string.ts";
import { addCopyCommand } from "./copy.ts";
import { emulatorName, serveArguments } from "./emulator-names.ts";
import { addEngineCommand } from "./engine-command.ts";
import { addExplainCommand } from "./explain.ts";
import { addExportCommand } from "./export.ts";
import { failWith } from "./fail-with.ts";
import { addHealthcheckCommand } from "./healthcheck.ts";
import { addImportCommand } from "./import.ts";
import { addIndexCommand } from "./index-command.ts";
import { addInspectCommand } from "./inspect.ts";
import { messageOf } from "./message-of.ts";
import { addPatternsCommand } from "./patterns.ts";
import { addPurgeCommand } from "./purge.ts";
import { addReportCommand } from "./report.ts";
import { addRestoreCommand } from "./restore.ts";
import { addServeCommand } from "./serve.ts";
import { addVerifyCommand } from "./verify.ts";
import { packageVersion } from "./version.ts";

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

addServeCommand(program);
addAccountCommand(program);
addConnectionStringCommand(program);
addEngineCommand(program);
addExplainCommand(program);
addIndexCommand(program);
addInspectCommand(program);
addBackupCommand(program);
addRestoreCommand(program);
addCompactCommand(program);
addCopyCommand(program);
addExportCommand(program);
addImportCommand(program);
addPurgeCommand(program);
addVerifyCommand(program);
addReportCommand(program);
addHealthcheckCommand(program);
addAdviseCommand(program);
addPatternsCommand(program);

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
const names = [...program.commands.map((command) => command.name()), "help"];
if (!given.startsWith("-") && !names.includes(given)) {
  program.error(`error: unknown command '${given}'; the commands are ${names.join(", ")}`);
}

// Not awaited: the executable is built from a form of this file that cannot wait at its top level.
program.parseAsync().catch((error) => {
  // Exits with 2; 1 means that a command found something.
  failWith(program, `rowhouse: ${messageOf(error)}`);
});
