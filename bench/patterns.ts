import type { Bench } from "./harness/bench.ts";
import { BenchProcess } from "./harness/bench-process.ts";
import type { Reach } from "./harness/case.ts";
import { Comparison } from "./harness/comparison.ts";
import { type Measurement, toMeasurement } from "./harness/measurement.ts";
import { privateMemoryMb } from "./harness/process-figures.ts";
import type { Question } from "./harness/question.ts";
import { finding, toCaseResult } from "./harness/results.ts";
import type { Hand, PatternAnswer, PatternCommand } from "./patterns/client-process.ts";

type Client = BenchProcess<PatternCommand, PatternAnswer>;

const HANDS: readonly Hand[] = ["library", "by hand"];
const CLIENTS = 8;

const REACHES: readonly Reach[] = [
  {
    what: "throughput of hand-written code",
    value: (comparison) => comparison.ratio("operationsPerSecond", "library", "by hand"),
    atLeast: 0.9,
  },
];

/** The pattern library and hand-written code on the official client, in turns, in one process. */
export const patterns: Question = {
  name: "patterns",
  asks: "What does the pattern library cost, compared with hand-written code that sends the same requests?",
  async run(bench) {
    const server = await bench.startServer("patterns");
    const module = new URL("./patterns/client-process.ts", import.meta.url);
    const client: Client = await BenchProcess.start(module, "client", "compiled");
    try {
      const { host, port, account: name, keyBase64 } = server.target;
      const account = { url: `http://${host}:${port}/${name}`, name, keyBase64 };
      const { names = [] } = await client.ask({ kind: "open", account, serverPid: server.pid });
      for (const work of names.keys()) await compareWork(bench, client, work, names);
      await compareBuilds(bench, client);
    } finally {
      await client.stop();
      await server.stop();
    }
  },
};

async function compareWork(
  bench: Bench,
  client: Client,
  work: number,
  names: readonly string[],
): Promise<void> {
  const name = names[work]!;
  const { short } = bench.options;
  const window = short ? { warmUpMs: 150, windowMs: 500 } : { warmUpMs: 500, windowMs: 3000 };
  const rounds = await inTurns(bench, client, name, short ? 5 : 7, (by) => {
    return { kind: "measure", work, by, clients: CLIENTS, ...window };
  });
  const { cost } = await client.ask({ kind: "cost", work });
  const result = toCaseResult({ name, reaches: REACHES }, rounds);
  const costs = [
    finding("requests per operation", cost?.requests ?? Number.NaN),
    finding("entities per operation", cost?.entities ?? Number.NaN),
    ...cpuFindings(rounds),
  ];
  bench.record({ ...result, findings: [...result.findings, ...costs] });
}

async function compareBuilds(bench: Bench, client: Client): Promise<void> {
  const { short, full } = bench.options;
  const persons = short ? 1000 : full ? 100_000 : 10_000;
  const name = `index build of ${persons} entities`;
  const rounds = await inTurns(bench, client, name, 3, (by) => ({ kind: "build", by, persons }));
  const result = toCaseResult({ name, rows: 1, reaches: REACHES }, rounds);
  bench.record({ ...result, findings: [...result.findings, ...cpuFindings(rounds)] });
}

/** Round 0 is a warm-up. */
async function inTurns(
  bench: Bench,
  client: Client,
  name: string,
  count: number,
  commandOf: (by: Hand) => PatternCommand,
): Promise<Comparison> {
  const rounds = new Map<string, Measurement[]>(HANDS.map((by) => [by, []]));
  for (let round = 0; round <= count; round++) {
    // The second one runs with the heap that the first one left, so they alternate in the order too.
    for (const by of round % 2 === 0 ? HANDS : [...HANDS].reverse()) {
      bench.progress.show(`${name}: round ${round} of ${count}, ${by}`);
      const { figures } = await client.ask(commandOf(by));
      if (!figures) throw new Error("The client measured nothing.");
      if (figures.failures > 0) throw new Error(`${name}, ${by}: ${figures.firstFailure}`);
      const measurement = toMeasurement(figures, privateMemoryMb(client.pid));
      if (round > 0) rounds.get(by)?.push(measurement);
    }
  }
  return new Comparison(rounds);
}

/** CPU of the client's process, a figure that holds even if other processes load the machine. */
function cpuFindings(rounds: Comparison) {
  const micros = (by: Hand) =>
    Math.min(
      ...rounds
        .rounds(by)
        .map((each) => (each.clientCpuShare * 1_000_000) / each.operationsPerSecond),
    );
  return [
    finding("client CPU µs each, library", micros("library")),
    finding("client CPU µs each, by hand", micros("by hand")),
    finding("client CPU by hand over the library's", micros("by hand") / micros("library"), {
      atLeast: 0.9,
    }),
  ];
}
