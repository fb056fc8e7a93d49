import { LocalServer } from "@rowhouse/server/engine/postgres/test-server";
import { RawPostgres } from "./contenders/raw-postgres.ts";
import type { Question, Reach } from "./harness/question.ts";

const RAW = "raw driver";

const works = [
  { name: "point query, 32 clients", workload: { kind: "point-query" }, connections: 32 },
  { name: "durable insert, 64 clients", workload: { kind: "insert" }, connections: 64 },
  { name: "100 inserts, 8 clients", workload: { kind: "transaction" }, connections: 8, rows: 100 },
] as const;

export const postgres: Question = {
  name: "postgres",
  asks: "What of PostgreSQL's speed is left behind a front end?",
  async run(bench) {
    const database = await LocalServer.create();
    let raw: RawPostgres | undefined;
    try {
      database.configure({ max_wal_size: "4GB" });
      await database.start();
      const url = await database.createDatabase();
      const front = await bench.startRowhouse("rowhouse", { flags: ["--engine", url] });
      raw = await RawPostgres.start(url);
      for (const work of works) {
        const dataset = { table: "entities", entities: 10_000 };
        await bench.compare({ ...work, dataset, reaches: [THROUGHPUT] }, [front, raw]);
      }
    } finally {
      await raw?.stop();
      await database.remove();
    }
  },
};

const THROUGHPUT: Reach = {
  what: "throughput of the raw driver",
  value: (comparison) => comparison.ratio("operationsPerSecond", "rowhouse", RAW),
  atLeast: 0.6,
};
