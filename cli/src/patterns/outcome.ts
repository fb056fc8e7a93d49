import { CLEAR_LINE } from "../clear-line.ts";
import { messageOf } from "../message-of.ts";

/** What a command found, for people and for machines. */
export interface Outcome {
  readonly lines: readonly string[];
  readonly json: unknown;
  /** Something is not as it should be: exit code 1. */
  readonly found: boolean;
}

export interface OutcomeOptions {
  readonly json?: true;
}

/** A person's sign that it goes on, on stderr: output stays for machines. */
export type Progress = (line: string) => void;

/**
 * Prints what `work` finds. Exit codes: 0 all is well, 1 something was found, 2 it could not be found out,
 * 130 interrupted.
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
      // What follows would stand behind the line that changes.
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
    // A terminal keeps one line that changes; a log gets them all.
    stream.write(stream.isTTY ? CLEAR_LINE + line : `${line}\n`);
  };
}

/** Columns as wide as their widest cell; the last one ends where it ends. */
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
export function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
