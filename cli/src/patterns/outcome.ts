import { CLEAR_LINE } from "../clear-line.ts";
import { messageOf } from "../message-of.ts";

/** The result of a command, as text and as JSON. */
export interface Outcome {
  readonly lines: readonly string[];
  readonly json: unknown;
  /** Whether the command found a problem: exit code 1. */
  readonly found: boolean;
}

export interface OutcomeOptions {
  readonly json?: true;
}

/** Reports progress on stderr, so that stdout contains only the result. */
export type Progress = (line: string) => void;

/**
 * Runs `work` and prints its outcome. Exit codes: 0 if all is well, 1 if something was found, 2 if the work failed,
 * 130 if it was interrupted.
 */
export async function perform(
  { json }: OutcomeOptions,
  work: (signal: AbortSignal, progress: Progress) => Promise<Outcome>,
): Promise<void> {
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort(new Error("Interrupted."));
  for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, interrupt);
  try {
    const outcome = await work(interrupted.signal, progressTo(process.stderr)).finally(() =>
      // Otherwise later output would follow the progress on its line.
      process.stderr.isTTY ? process.stderr.write(CLEAR_LINE) : undefined,
    );
    process.stdout.write(
      json ? `${JSON.stringify(outcome.json, null, 2)}\n` : `${outcome.lines.join("\n")}\n`,
    );
    process.exitCode = outcome.found ? 1 : 0;
  } catch (error) {
    process.stderr.write(`rowhouse patterns: ${messageOf(error)}\n`);
    process.exitCode = interrupted.signal.aborted ? 130 : 2;
  } finally {
    for (const name of ["SIGINT", "SIGTERM"] as const) process.off(name, interrupt);
  }
}

function progressTo(stream: NodeJS.WriteStream): Progress {
  return (line) => {
    // On a terminal, one line is overwritten; a log gets every line.
    stream.write(stream.isTTY ? CLEAR_LINE + line : `${line}\n`);
  };
}

/** Pads columns to their widest cell, except the last one. */
export function alignColumns(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  }
  return rows.map((row) =>
    row
      .map((cell, i) => (i < row.length - 1 ? cell.padEnd(widths[i]!) : cell))
      .join("  ")
      .trimEnd(),
  );
}

/** `1 message`, `2 messages`. */
export function countOf(count: number, noun: string, plural = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : plural}`;
}
