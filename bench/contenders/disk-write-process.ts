import { closeSync, fsyncSync, openSync, unlinkSync, writeSync } from "node:fs";
import { answerCommands } from "../harness/bench-process.ts";
import type { Window } from "../harness/contender.ts";
import type { Figures } from "../harness/figures.ts";
import { Stopwatch } from "../harness/stopwatch.ts";

export interface WriteCommand extends Window {
  readonly file: string;
  readonly bytes: number;
}

const chunk = Buffer.alloc(1 << 20, 1);

/** Writes a new file, waits for the flush, and removes the file, in a loop. */
answerCommands<WriteCommand, Figures>(async (command) => {
  const stopwatch = new Stopwatch(command, 1);
  while (stopwatch.goesOn()) {
    const startedAt = performance.now();
    const file = openSync(command.file, "w");
    for (let written = 0; written < command.bytes; ) {
      written += writeSync(file, chunk, 0, Math.min(chunk.length, command.bytes - written));
    }
    fsyncSync(file);
    closeSync(file);
    stopwatch.record(performance.now() - startedAt, 0);
    unlinkSync(command.file);
  }
  return stopwatch.figures();
});
