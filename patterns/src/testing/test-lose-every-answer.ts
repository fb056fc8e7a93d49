import { connect, type Database } from "../database.ts";
import { intercept, withFaults } from "./intercept.ts";
import { type Memory, memory } from "./memory.ts";

/**
 * Runs `operation` once to count its requests, then again for each of them with its answer lost. After each run
 * `check` checks what is stored.
 * @returns the number of answers lost.
 */
export async function loseEveryAnswer(
  operation: (database: Database) => Promise<unknown>,
  options: {
    readonly before: (database: Database) => Promise<unknown>;
    readonly check: (database: Database, backend: Memory) => Promise<unknown>;
  },
): Promise<number> {
  let requests = 0;
  for (let lost = 0; lost <= requests; lost++) {
    const backend = memory();
    await options.before(connect(backend));
    const faults = withFaults((_call, count) => {
      if (lost === 0) requests = count;
      return count === lost ? { kind: "lose answer" } : undefined;
    });
    await operation(connect({ ...backend, ...intercept(backend, faults) }));
    await options.check(connect(backend), backend);
  }
  return requests;
}
