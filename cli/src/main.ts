#!/usr/bin/env node
import { Command } from "commander";
import { addServeCommand } from "./serve.ts";
import { packageVersion } from "./version.ts";

const program = new Command("rowhouse")
  .description("A table store one can own: serves the Azure Table, Queue and Blob protocols.")
  .version(packageVersion(), "-v, --version")
  .showHelpAfterError("(rowhouse --help lists what is allowed)");

addServeCommand(program);

await program.parseAsync();
