import type { Bench } from "./harness/bench.ts";
import { BenchProcess } from "./harness/bench-process.ts";
import type { Reach } from "./harness/case.ts";
import { Comparison } from "./harness/comparison.ts";
import { exchange } from "./harness/exchange.ts";
import { HttpContender } from "./harness/http-contender.ts";
import type { Measurement } from "./harness/measurement.ts";
import { toCaseResult } from "./harness/results.ts";
import type { LoadCommand, LoadResult } from "./load/load-process.ts";
import { ACCEPT_AND_CONTENT, RequestWriter, type Target } from "./load/request-writer.ts";

const ALONE = "no build";
const BUILD = "a build";
const FAST = "a build with --fast";
/** Members of a declaration. */
const BUILDS: Readonly<Record<string, object>> = { [BUILD]: {}, [FAST]: { rate: 0 } };
/** Merges change it, at random. */
const KEY = "Salary:Int32";
const WRITERS = 4;

/**
 * Point queries at half their highest rate, beside writers, alone and while an index is built: over HTTP, because what
 * clients notice of a build is how long it keeps the server from answering.
 */
export async function measureBuilds(bench: Bench): Promise<void> {
  const { progress } = bench;
  const { short } = bench.options;
  const dataset = { table: "entities", entities: short ? 50_000 : 200_000 };
  const reads = { workload: { kind: "point-query" }, dataset, connections: 32 } as const;
  const writes = { workload: { kind: "merge" }, dataset, connections: WRITERS } as const;
  const readers = await bench.rowhouse();
  const { server } = readers;
  const module = new URL("./load/load-process.ts", import.meta.url);
  const load = await BenchProcess.start<LoadCommand, LoadResult>(module, "client");
  const writers = new HttpContender("writers", server, load, progress).holds(dataset);
  // A whole turn of a build: reading entities, then writing their entries.
  const window = { warmUpMs: 500, windowMs: short ? 2000 : 6000 };
  const measure = async (operationsPerSecond?: number) => {
    const paced = operationsPerSecond === undefined ? reads : { ...reads, operationsPerSecond };
    const [measured, written] = await Promise.all([
      readers.measure(paced, window),
      writers.measure(writes, window),
    ]);
    if (written.failures > 0) throw new Error(`${written.failures} merges failed.`);
    return measured;
  };
  try {
    await readers.prepare(reads);
    const half = (await measure()).operationsPerSecond / 2;
    const rounds = new Map<string, Measurement[]>([ALONE, BUILD, FAST].map((name) => [name, []]));
    // Each index stays: to free its entries would disturb what follows.
    for (let round = 0; round < (short ? 3 : 7); round++) {
      for (const [name, measurements] of rounds) {
        progress.show(`builds beside point queries: round ${round}, ${name}`);
        const build = BUILDS[name];
        const index = `Round${round}${name.replaceAll(/\W/g, "")}`;
        if (build)
          await declare(server.target, index, { ...build, table: dataset.table, key: KEY });
        measurements.push(await measure(half));
        if (build) await untilReady(server.target, index);
      }
    }
    const work = {
      name: `point queries at half their highest rate beside ${WRITERS} writers, ${dataset.entities} entities`,
      reaches: [tailOf(BUILD, 2), tailOf(FAST)],
    };
    bench.record(toCaseResult(work, new Comparison(rounds)));
  } finally {
    await load.stop();
  }
}

function tailOf(build: string, atMost?: number): Reach {
  return {
    what: `p99 beside ${build} over that without`,
    value: (comparison) => comparison.ratio("p99Ms", build, ALONE),
    ...(atMost !== undefined && { atMost }),
  };
}

async function declare(target: Target, name: string, declaration: object): Promise<void> {
  const body = JSON.stringify(declaration);
  const headers = ACCEPT_AND_CONTENT;
  const answer = await exchange(
    target,
    new RequestWriter(target).write("PUT", `/_rowhouse/indexes/${name}`, { headers, body }),
  );
  if (answer.status !== 201)
    throw new Error(`${name} was answered ${answer.status}: ${answer.body}`);
}

async function untilReady(target: Target, name: string): Promise<void> {
  const request = new RequestWriter(target).write("GET", `/_rowhouse/indexes/${name}`);
  while (!(await exchange(target, request)).body.includes('"state":"ready"')) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
