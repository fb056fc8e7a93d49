#!/usr/bin/env node
import { Command } from "commander";
import { addAdviseCommand } from "./advise.ts";
import { addBackupCommand } from "./backup.ts";
import { addEngineCommand } from "./engine-command.ts";
import { addExplainCommand } from "./explain.ts";
import { failWith } from "./fail-with.ts";
import { addInspectCommand } from "./inspect.ts";
import { messageOf } from "./message-of.ts";
import { addPatternsCommand } from "./patterns.ts";
import { addReportCommand } from "./report.ts";
import { addServeCommand } from "./serve.ts";
import { packageVersion } from "./version.ts";

const program = new Command("rowhouse")
  .description("A table store you can own: serves the Azure Table, Queue and Blob protocols.")
  .version(packageVersion(), "-v, --version")
  .showHelpAfterError("(add --help for the allowed arguments)")
  // What is wrong with a command line is no finding. Commands made from here on inherit it.
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2));

addServeCommand(program);
addEngineCommand(program);
addExplainCommand(program);
addInspectCommand(program);
addBackupCommand(program);
addReportCommand(program);
addAdviseCommand(program);
addPatternsCommand(program);

// Whoever read our lines may be gone, as behind `| head`, or behind `| tee` when a terminal ends both. Reports
// are written all the same, and exit codes tell what they tell. A server goes on also where its lines find no room.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  // Told once: every line that follows fails as well.
  if (error.code === "EPIPE" || error.code === "EIO" || process.exitCode === 2) return;
  process.stderr.write(`rowhouse: cannot write to standard output: ${error.message}\n`);
  process.exitCode = 2;
});
process.stderr.on("error", () => {});

// Without a command it serves, and what is none would be told as an argument too many of that.
const [given = "-"] = process.argv.slice(2);
const names = [...program.commands.map((command) => command.name()), "help"];
if (!given.startsWith("-") && !names.includes(given)) {
  program.error(`error: there is no command '${given}'; there are ${names.join(", ")}`);
}

try {
  await program.parseAsync();
} catch (error) {
  // 1 is what commands answer that found something.
  failWith(program, `rowhouse: ${messageOf(error)}`);
}
