/**
 * Front ends beside the raw driver doing the same from one process, in one run, in turns:
 *
 *   node --conditions=source --import tsx tests/postgres/speed.ts [rounds]
 *
 * Only ratios mean anything: database, front ends and clients share this machine.
 */
import { LocalServer } from "@rowhouse/server/engine/postgres/test-server";
import pg from "pg";
import { BenchProcess } from "../../bench/harness/bench-process.ts";
import { fillTransactions } from "../../bench/load/fill.ts";
import type { LoadCommand, LoadResult } from "../../bench/load/load-process.ts";
import type { WorkloadKind } from "../../bench/load/workload.ts";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";

const ROUNDS = Number(process.argv[2] ?? 5);
const WINDOW_MS = 1_000;
const DATASET = { table: "entities", entities: 10_000 };
const VALUE = Buffer.alloc(1024, 7);
/** As many connections as a front end writes over. */
const POOL_SIZE = 16;

interface Question {
  readonly name: string;
  readonly clients: number;
  readonly workload: () => WorkloadKind;
  readonly raw: () => Promise<unknown>;
}

const database = await LocalServer.create();
database.configure({ max_wal_size: "4GB" });
await database.start();
const url = await database.createDatabase();
const pool = new pg.Pool({ connectionString: url, max: POOL_SIZE });
const module = new URL("../../bench/load/load-process.ts", import.meta.url);
const loads = [
  await BenchProcess.start<LoadCommand, LoadResult>(module, "client"),
  await BenchProcess.start<LoadCommand, LoadResult>(module, "client"),
];
let run = 0;
let nextRow = 0;

await withFolder(async (folder) => {
  const flags = ["--silent", "--engine", url];
  const fronts = [await startRowhouse(folder, flags), await startRowhouse(folder, flags)];
  try {
    await fill(fronts[0]!);
    for (const question of await questions()) await ask(question, fronts);
  } finally {
    await Promise.all(fronts.map((front) => front.stop()));
    await Promise.all(loads.map((load) => load.stop()));
    await pool.end();
    await database.remove();
  }
});

async function questions(): Promise<Question[]> {
  const { rows } = await pool.query("SELECT pk, sk FROM rh_kv WHERE length(val) > 500 LIMIT 5000");
  const get = "SELECT ver, val FROM rh_kv WHERE pk = $1 AND sk = $2";
  const insert = "INSERT INTO rh_kv (pk, sk, ver, val) VALUES ($1, $2, 1, $3)";
  // One statement, hence durable as a whole; a value for each row, as rows of a table have.
  const tuples = Array.from(
    { length: 100 },
    (_, row) => `($1, $${2 * row + 2}, 1, $${2 * row + 3})`,
  );
  const insertMany = `INSERT INTO rh_kv (pk, sk, ver, val) VALUES ${tuples}`;
  const newSort = () => Buffer.from(`raw ${nextRow++}`);
  const partition = Buffer.from("~raw");
  return [
    {
      name: "point query",
      clients: 32,
      workload: () => ({ kind: "point-query" }),
      raw: () => {
        const { pk, sk } = rows[nextRow++ % rows.length];
        return pool.query({ name: "get", text: get, values: [pk, sk] });
      },
    },
    {
      name: "durable insert",
      clients: 64,
      workload: () => ({ kind: "insert" }),
      raw: () =>
        pool.query({ name: "insert", text: insert, values: [partition, newSort(), VALUE] }),
    },
    {
      name: "transaction of 100",
      clients: 8,
      workload: () => ({ kind: "fill", order: "sorted", firstTransaction: ++run * 10_000 }),
      raw: () => {
        const values: Buffer[] = [partition];
        for (let row = 0; row < 100; row++) values.push(newSort(), VALUE);
        return pool.query({ name: "many", text: insertMany, values });
      },
    },
  ];
}

async function ask({ name, clients, workload, raw }: Question, fronts: readonly RowhouseProcess[]) {
  const rates: Record<string, number[]> = { "raw driver": [], "one front end": [], two: [] };
  for (let round = 0; round <= ROUNDS; round++) {
    const measured = {
      "raw driver": await rawRate(clients, raw),
      "one front end": await rate(fronts.slice(0, 1), clients, workload),
      two: await rate(fronts, clients, workload),
    };
    // Round 0 warms up.
    if (round === 0) continue;
    for (const [form, value] of Object.entries(measured)) rates[form]!.push(value);
  }
  const limit = median(rates["raw driver"]!);
  console.log(`\n${name}, ${clients} at once`);
  for (const [form, values] of Object.entries(rates)) {
    const value = median(values);
    console.log(
      `  ${form.padEnd(14)} ${Math.round(value)}/s`.padEnd(28),
      `${(value / limit).toFixed(2)} ×`,
    );
  }
}

async function rawRate(clients: number, operation: () => Promise<unknown>): Promise<number> {
  let count = 0;
  const startedAt = performance.now();
  const work = async () => {
    for (; performance.now() - startedAt < WINDOW_MS; count++) await operation();
  };
  await Promise.all(Array.from({ length: clients }, work));
  return (count * 1000) / (performance.now() - startedAt);
}

/** Each front end has a client process of its own; together they have `clients` connections. */
async function rate(
  fronts: readonly RowhouseProcess[],
  clients: number,
  workload: () => WorkloadKind,
): Promise<number> {
  const until = { warmUpMs: 100, windowMs: WINDOW_MS };
  const results = await Promise.all(
    fronts.map((front, index) =>
      loads[index]!.ask(command(front, workload(), clients / fronts.length, until)),
    ),
  );
  return results.reduce((sum, { failures, firstFailure, milliseconds, operations }) => {
    if (failures > 0) throw new Error(firstFailure);
    return sum + (operations * 1000) / milliseconds;
  }, 0);
}

async function fill(front: RowhouseProcess): Promise<void> {
  const { TableClient } = await import("@azure/data-tables");
  const options = { allowInsecureConnection: true };
  await TableClient.fromConnectionString(
    front.connectionString,
    DATASET.table,
    options,
  ).createTable();
  const kind = { kind: "fill", order: "sorted", firstTransaction: 0 } as const;
  const operations = fillTransactions(DATASET.entities);
  await loads[0]!.ask(command(front, kind, 4, { operations }));
  await pool.query("VACUUM ANALYZE rh_kv");
}

function command(
  front: RowhouseProcess,
  workload: WorkloadKind,
  connections: number,
  until: LoadCommand["until"],
): LoadCommand {
  const { hostname: host, port } = new URL(front.tableUrl);
  const keyBase64 = /AccountKey=([^;]+)/.exec(front.connectionString)![1]!;
  const account = "devstoreaccount1";
  const target = { service: "table", host, port: Number(port), account, keyBase64 } as const;
  return {
    target,
    workload,
    dataset: DATASET,
    run: run++,
    connections,
    until,
    serverPid: front.pid,
  };
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1]!;
}
