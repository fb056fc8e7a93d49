import { terminalText } from "@rowhouse/server/insight/terminal-text";
import type { Command } from "commander";

/**
 * Ends with 2, as what could not be carried out. The command line was right: its help would mislead. What a
 * server said may stand in the message.
 */
export function failWith(program: Command, message: string): never {
  const text = terminalText(message.split("\n")).trimEnd();
  return program.showHelpAfterError(false).error(text, { exitCode: 2 });
}
