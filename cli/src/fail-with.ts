import type { Command } from "commander";

/** Ends with 2, as what could not be carried out. The command line was right: its help would mislead. */
export function failWith(program: Command, message: string): never {
  return program.showHelpAfterError(false).error(message, { exitCode: 2 });
}
