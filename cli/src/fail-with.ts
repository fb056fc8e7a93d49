import { terminalText } from "@rowhouse/server/insight/terminal-text";
import type { Command } from "commander";

/**
 * Exits with 2: the command could not run. The command line was correct, so no hint about --help is printed. The
 * message may contain text from a server, hence the escaping.
 */
export function failWith(program: Command, message: string): never {
  const text = terminalText(message.split("\n")).trimEnd();
  return program.showHelpAfterError(false).error(text, { exitCode: 2 });
}
