/**
 * The engine compared with the raw driver doing the same, in one run, in turns:
 *
 *   node --conditions=rowhouse-source --import tsx server/src/engine/postgres/test-speed.ts [rounds]
 *
 * Only the ratios are meaningful: the server shares this machine. `POSTGRES_URL` names another one.
 */
import pg from "pg";
import type { Engine, Key } from "../engine.ts";
import { partitionRange } from "../key-codec.ts";
import { openPostgresEngine } from "./postgres-engine.ts";
import { LocalServer, runAt } from "./test-server.ts";

const ROUNDS = Number(process.argv[2] ?? 5);
const ROUND_MS = 1_500;
const ENTITIES = 10_000;
const PARTITIONS = 16;
const VALUE = Buffer.alloc(1024, 7);
/** As many connections as the engine uses for writes. */
const POOL_SIZE = 16;

type Operation = (index: number) => Promise<unknown>;

interface Question {
  readonly name: string;
  readonly clients: number;
  /** The others are compared with the first one, the limit. */
  readonly forms: Readonly<Record<string, Operation>>;
}

const given = process.env.POSTGRES_URL;
const server = given === undefined ? await LocalServer.create() : undefined;
server?.configure({ max_wal_size: "4GB", checkpoint_timeout: "30min" });
await server?.start();
const url = given ?? (await server!.createDatabase());
const engine: Engine = await openPostgresEngine({ url });
const pool = new pg.Pool({ connectionString: url, max: POOL_SIZE });
const pipelined = new pg.Client({ connectionString: url, pipeline: true });
await pipelined.connect();
await fill();

let nextRow = 1_000_000;
for (const question of questions()) await ask(question);

await pipelined.end();
await pool.end();
await engine.close();
await server?.remove();

function questions(): Question[] {
  const get = "SELECT ver, val FROM rh_kv WHERE pk = $1 AND sk = $2";
  const scan = "SELECT sk, ver, val FROM rh_kv WHERE pk = $1 AND sk >= $2 ORDER BY sk LIMIT $3";
  const insert = "INSERT INTO rh_kv (pk, sk, ver, val) VALUES ($1, $2, $3, $4)";
  const rows = Array.from(
    { length: 100 },
    (_, row) => `($1, $${row * 2 + 3}, $2, $${row * 2 + 4})`,
  );
  const insertMany = `INSERT INTO rh_kv (pk, sk, ver, val) VALUES ${rows}`;

  const forms = (of: Readonly<Record<string, Operation>>) => of;
  const gets = forms({
    "raw driver, 16 connections": async (index) => {
      const { partition, sort } = keyOf(index % ENTITIES);
      await pool.query({ name: "get", text: get, values: [partition, sort] });
    },
    "raw driver, pipelined": async (index) => {
      const { partition, sort } = keyOf(index % ENTITIES);
      await pipelined.query({ name: "get", text: get, values: [partition, sort] });
    },
    engine: async (index) => engine.get([keyOf(index % ENTITIES)]),
    "engine, two partitions": async (index) =>
      engine.get([keyOf(index % ENTITIES), keyOf((index + 1) % ENTITIES)]),
  });
  const inserts = forms({
    "raw driver": async () => {
      const { partition, sort } = keyOf(nextRow++);
      const values = [partition, sort, engine.nextVersion(), VALUE];
      await pool.query({ name: "insert", text: insert, values });
    },
    engine: () => insertKeys([keyOf(nextRow++)]),
  });
  const groups = forms({
    "raw driver": async () => {
      const sorts = hundredKeys().flatMap(({ sort }) => [sort, VALUE]);
      const values = [Buffer.from("group"), engine.nextVersion(), ...sorts];
      await pool.query({ name: "group", text: insertMany, values });
    },
    engine: () => insertKeys(hundredKeys()),
  });
  const scans = forms({
    "raw driver": async (index) => {
      const values = [partitionOf(index), Buffer.from("row1"), 100];
      await pool.query({ name: "scan", text: scan, values, rowMode: "array" });
    },
    engine: async (index) => {
      let visited = 0;
      const range = partitionRange(partitionOf(index));
      const start = { partition: partitionOf(index), sort: Buffer.from("row1") };
      const visit = () => ++visited < 100;
      await engine.scan({ start, end: range.end }, visit, { entriesExpected: 100 });
    },
  });
  return [
    { name: "point read", clients: 1, forms: gets },
    { name: "point read", clients: 32, forms: gets },
    { name: "scan of 100", clients: 4, forms: scans },
    { name: "durable insert", clients: 1, forms: inserts },
    { name: "durable insert", clients: 64, forms: inserts },
    { name: "100 inserts", clients: 1, forms: groups },
    { name: "100 inserts", clients: 8, forms: groups },
  ];
}

async function ask({ name, clients, forms }: Question): Promise<void> {
  const measured = new Map<string, { rate: number; cpu: number }[]>();
  for (let round = 0; round < ROUNDS; round++) {
    for (const [form, operation] of Object.entries(forms)) {
      const results = measured.get(form) ?? [];
      results.push(await measure(clients, operation));
      measured.set(form, results);
    }
  }
  const [first] = measured.keys();
  const limit = median(measured.get(first!)!.map(({ rate }) => rate));
  console.log(`\n${name}, ${clients} at once`);
  for (const [form, results] of measured) {
    const rate = median(results.map((each) => each.rate));
    const cpu = median(results.map((each) => each.cpu));
    const columns = [form.padEnd(28), `${Math.round(rate)}/s`.padStart(9), `${cpu.toFixed(1)} µs`];
    console.log(`  ${columns.join("  ")}  ${(rate / limit).toFixed(2)} ×`);
  }
}

/** Operations a second, and microseconds of this process's processor time for each. */
async function measure(clients: number, operation: Operation) {
  let count = 0;
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  const one = async (client: number) => {
    for (let index = client * 7919; performance.now() - startedAt < ROUND_MS; index++) {
      await operation(index);
      count++;
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, client) => one(client)));
  const { user, system } = process.cpuUsage(cpuBefore);
  return { rate: (count * 1000) / (performance.now() - startedAt), cpu: (user + system) / count };
}

async function insertKeys(keys: readonly Key[]): Promise<void> {
  const result = await engine.commit({
    version: engine.nextVersion(),
    checks: keys.map((key) => ({ key, expected: "absent" as const })),
    puts: keys.map((key) => ({ key, value: VALUE })),
    deletes: [],
  });
  if (!result.committed) throw new Error("A key existed already.");
}

async function fill(): Promise<void> {
  for (let from = 0; from < ENTITIES; from += 500) {
    await insertKeys(Array.from({ length: 500 }, (_, index) => keyOf(from + index)));
  }
  await runAt(url, ["VACUUM ANALYZE rh_kv"]);
}

function keyOf(index: number): Key {
  return { partition: partitionOf(index), sort: Buffer.from(`row${index}`) };
}

function partitionOf(index: number): Buffer {
  return Buffer.from(`p${index % PARTITIONS}`);
}

function hundredKeys(): Key[] {
  const partition = Buffer.from("group");
  nextRow += 100;
  return Array.from({ length: 100 }, (_, row) => ({
    partition,
    sort: Buffer.from(`row${nextRow + row}`),
  }));
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1]!;
}
