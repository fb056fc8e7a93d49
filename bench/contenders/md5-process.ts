import { createHash } from "node:crypto";
import { answerCommands } from "../harness/bench-process.ts";
import type { Window } from "../harness/contender.ts";
import type { Figures } from "../harness/figures.ts";
import { Stopwatch } from "../harness/stopwatch.ts";

export interface SumCommand extends Window {
  readonly bytes: number;
}

const chunk = Buffer.alloc(1 << 20, 1);

/** Computes the MD5 of this many bytes, in a loop. */
answerCommands<SumCommand, Figures>(async (command) => {
  const stopwatch = new Stopwatch(command, 1);
  while (stopwatch.goesOn()) {
    const startedAt = performance.now();
    const hash = createHash("md5");
    for (let summed = 0; summed < command.bytes; summed += chunk.length) {
      hash.update(chunk.subarray(0, command.bytes - summed));
    }
    hash.digest();
    stopwatch.record(performance.now() - startedAt, 0);
  }
  return stopwatch.figures();
});
