import { fdatasyncSync, openSync, writeSync } from "node:fs";
import { answerCommands } from "../harness/bench-process.ts";
import type { Window } from "../harness/contender.ts";
import type { Figures } from "../harness/figures.ts";
import { Stopwatch } from "../harness/stopwatch.ts";

export interface FlushCommand extends Window {
  readonly file: string;
}

const page = Buffer.alloc(4096, 1);
let file: number | undefined;

/** Appends 4 KB and waits for the flush, in a loop. */
answerCommands<FlushCommand, Figures>(async (command) => {
  file ??= openSync(command.file, "a");
  const stopwatch = new Stopwatch(command, 1);
  while (stopwatch.goesOn()) {
    const startedAt = performance.now();
    writeSync(file, page);
    fdatasyncSync(file);
    stopwatch.record(performance.now() - startedAt, 0);
  }
  return stopwatch.figures();
});
