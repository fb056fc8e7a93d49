import { TableClient } from "@azure/data-tables";
import { startRowhouse, type TestServer } from "rowhouse/testing";
import { median } from "./harness/measurement.ts";
import type { Question } from "./harness/question.ts";
import { finding } from "./harness/results.ts";

const ENTITIES = 1000;
const TRANSACTION = 100;

/** In this process, as a test has it. */
export const testServer: Question = {
  name: "test-server",
  asks: "How long does a test wait for a server of its own, and for an empty one?",
  async run(bench) {
    const starts = newTimes();
    const resets = newTimes();
    for (let round = 0; round <= (bench.options.short ? 20 : 60); round++) {
      bench.progress.show(`test server, round ${round}`);
      const started = await timed(() => startRowhouse());
      const server = started.result;
      await fill(server);
      const emptied = await timed(() => server.reset());
      await server.close();
      // Round 0 compiles.
      if (round === 0) continue;
      starts.push(started);
      resets.push(emptied);
    }
    bench.record({
      name: `memory, ${ENTITIES} entities`,
      contenders: [],
      findings: [
        finding("ms from startRowhouse() to a server that answers", median(starts.milliseconds), {
          atMost: 40,
        }),
        finding("… of which processor time", median(starts.cpuMilliseconds)),
        finding("ms for reset()", median(resets.milliseconds), { atMost: 5 }),
        finding("… of which processor time", median(resets.cpuMilliseconds)),
      ],
    });
  },
};

interface Timed {
  readonly milliseconds: number;
  readonly cpuMilliseconds: number;
}

function newTimes() {
  const milliseconds: number[] = [];
  const cpuMilliseconds: number[] = [];
  const push = (each: Timed) => {
    milliseconds.push(each.milliseconds);
    cpuMilliseconds.push(each.cpuMilliseconds);
  };
  return { milliseconds, cpuMilliseconds, push };
}

async function timed<Result>(
  work: () => Promise<Result>,
): Promise<Timed & { readonly result: Result }> {
  const began = performance.now();
  const before = process.cpuUsage();
  const result = await work();
  const { user, system } = process.cpuUsage(before);
  const cpuMilliseconds = (user + system) / 1000;
  return { result, milliseconds: performance.now() - began, cpuMilliseconds };
}

/** One table of small entities, in transactions. */
async function fill({ connectionString, clientOptions }: TestServer): Promise<void> {
  const table = TableClient.fromConnectionString(connectionString, "Films", clientOptions);
  await table.createTable();
  for (let from = 0; from < ENTITIES; from += TRANSACTION) {
    const keys = Array.from({ length: TRANSACTION }, (_, i) => String(from + i));
    await table.submitTransaction(
      keys.map((rowKey) => ["create", { partitionKey: "p", rowKey, number: from }]),
    );
  }
}
