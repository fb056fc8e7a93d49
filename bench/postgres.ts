import { availableParallelism } from "node:os";
import { LocalCluster, NO_CLUSTER } from "@rowhouse/server/engine/postgres/test-cluster";
import { LocalServer } from "@rowhouse/server/engine/postgres/test-server";
import { FrontEnds } from "./contenders/front-ends.ts";
import { RawPostgres } from "./contenders/raw-postgres.ts";
import type { Bench } from "./harness/bench.ts";
import type { Reach } from "./harness/case.ts";
import { median } from "./harness/measurement.ts";
import type { Question } from "./harness/question.ts";

const RAW = "raw driver";

const DATASET = { table: "entities", entities: 10_000 };
/** Of so many partitions that every worker has some. */
const SPREAD_DATASET = { table: "entities", entities: 80_000 };

const works = [
  { name: "point query, 1 client", workload: { kind: "point-query" }, connections: 1 },
  { name: "point query, 32 clients", workload: { kind: "point-query" }, connections: 32 },
  {
    name: "range of 100, 8 clients",
    workload: { kind: "range-query", rows: 100 },
    connections: 8,
    rows: 100,
  },
  { name: "durable insert, 64 clients", workload: { kind: "insert" }, connections: 64 },
  {
    name: "100 inserts, 16 clients",
    workload: { kind: "transaction" },
    connections: 16,
    rows: 100,
  },
] as const;

/** Two front ends, the database and the load generators need a core each. */
const hasCoreForEach = availableParallelism() >= 4;
/** The share of a core, so that two front ends, their database and their clients fit into less than one. */
const HELD_SHARE = 0.1;
const ONE = "1 front end";
const TWO = "2 front ends";

export const postgres: Question = {
  name: "postgres",
  asks: "How much of PostgreSQL's speed remains behind a front end?",
  async run(bench) {
    const database = await LocalServer.create();
    let raw: RawPostgres | undefined;
    try {
      database.configure({ max_wal_size: "4GB" });
      await database.start();
      const url = await database.createDatabase();
      const flags = ["--engine", url];
      const front = await bench.startRowhouse("rowhouse", { flags });
      raw = await RawPostgres.start(url);
      for (const work of works) {
        await bench.compare({ ...work, dataset: DATASET, reaches: [THROUGHPUT] }, [front, raw]);
      }
      raw.pause();
      await compareFrontEnds(bench, flags, database.pid!);
    } finally {
      raw?.resume();
      await raw?.stop();
      await database.remove();
    }
    if (NO_CLUSTER === undefined && process.env.CITUS_URL === undefined) await overCluster(bench);
    else console.log(`No cases over a cluster: ${NO_CLUSTER ?? "CITUS_URL is not for benchmarks"}`);
  },
};

const THROUGHPUT = throughputOf("rowhouse");

function throughputOf(name: string): Reach {
  return {
    what: "throughput of the raw driver",
    value: (comparison) => comparison.ratio("operationsPerSecond", name, RAW),
    atLeast: 0.6,
  };
}

/** The same on a Citus cluster, and how evenly its workers are used. */
async function overCluster(bench: Bench): Promise<void> {
  const cluster = await LocalCluster.start();
  let raw: RawPostgres | undefined;
  try {
    const url = await cluster.coordinator.createDatabase();
    const name = "rowhouse, Citus";
    const front = await bench.startRowhouse(name, { flags: ["--engine", url] });
    raw = await RawPostgres.start(url);
    for (const work of works) {
      const before = await transactionsOf(cluster, url);
      const reaches = [throughputOf(name)];
      const dataset = SPREAD_DATASET;
      const compared = { ...work, name: `${work.name}, Citus`, dataset, reaches };
      await bench.compare(compared, [front, raw]);
      const after = await transactionsOf(cluster, url);
      const counts = after.map((count, worker) => count - before[worker]!);
      console.log(`Transactions of the workers: ${counts.join(", ")}`);
    }
  } finally {
    await raw?.stop();
    await cluster.remove();
  }
}

async function transactionsOf(cluster: LocalCluster, url: string): Promise<number[]> {
  const database = new URL(url).pathname.slice(1);
  const sql = `SELECT xact_commit FROM pg_stat_database WHERE datname = '${database}'`;
  const rows = await Promise.all(cluster.workers.map((worker) => worker.run(sql)));
  return rows.map((row) => Number(row[0]?.[0]));
}

/**
 * What a second front end adds to reads: unlimited where there are enough cores and, on every machine, with
 * each front end held to a share of a core. In the second form the front ends are the bottleneck and the
 * database and the load generators have room: throughput then shows whether twice the front ends do twice the
 * work, and the processor time of each part shows the cost.
 */
async function compareFrontEnds(bench: Bench, flags: string[], databasePid: number): Promise<void> {
  const servers = [
    await bench.startServer("front end 1", { cores: "all", flags }),
    await bench.startServer("front end 2", { cores: "all", flags }),
  ];
  try {
    for (const share of [undefined, HELD_SHARE]) {
      const contenders = [
        await FrontEnds.start({ name: ONE, servers: servers.slice(0, 1), databasePid, share }),
        await FrontEnds.start({ name: TWO, servers, databasePid, share }),
      ];
      const isHeld = share !== undefined;
      const crowd = hasCoreForEach ? "" : " (fewer than 4 cores for front ends, database and load)";
      await bench.compare(
        {
          name: isHeld ? `reads, each held to ${share} of a core` : `reads${crowd}`,
          workload: { kind: "point-query" },
          dataset: DATASET,
          connections: 32,
          reaches: [
            {
              what: "throughput over one front end",
              value: (comparison) => comparison.ratio("operationsPerSecond", TWO, ONE),
              ...(isHeld || hasCoreForEach ? { atLeast: 1.6 } : {}),
            },
            {
              what: "front ends' CPU per request over one's",
              value: (comparison) => comparison.ratio("cpuMicrosPerOperation", TWO, ONE),
              ...(isHeld ? { atMost: 1.15 } : {}),
            },
            ...contenders.map((contender) => ({
              what: `database's CPU µs per request, ${contender.name}`,
              value: () => median(contender.databaseMicros.slice(1)),
            })),
          ],
        },
        contenders,
      );
      for (const contender of contenders) await contender.stop();
    }
  } finally {
    for (const server of servers) await server.stop();
  }
}
