import pg from "pg";
import { answerCommands } from "../harness/bench-process.ts";
import type { Window } from "../harness/contender.ts";
import type { Figures } from "../harness/figures.ts";
import { Stopwatch } from "../harness/stopwatch.ts";
import { entityJson, partitionKey, rowKey } from "../load/dataset.ts";
import { Client } from "../load/workload.ts";

export interface RawPostgresCommand extends Window {
  readonly url: string;
  readonly entities: number;
  readonly clients: number;
  readonly run: number;
  readonly work: RawPostgresWork;
}

/**
 * Reads a row by its key, or this many from a key on; or inserts this many rows in one statement, which is durable as
 * a whole.
 */
export type RawPostgresWork =
  | { readonly kind: "read" }
  | { readonly range: number }
  | { readonly insert: number };

type Operation = (client: Client) => Promise<unknown>;

/** As many connections as a front end uses for writing. */
const CONNECTIONS = 16;
const ROWS_KNOWN = 5000;

let pool: pg.Pool | undefined;

answerCommands<RawPostgresCommand, Figures>(async (command) => {
  pool ??= new pg.Pool({ connectionString: command.url, max: CONNECTIONS });
  const operation = await operationOf(pool, command);
  const stopwatch = new Stopwatch(command, command.clients);
  await Promise.all(
    Array.from({ length: command.clients }, (_, index) =>
      loop(new Client(index, command.run), operation, stopwatch),
    ),
  );
  return stopwatch.figures();
});

async function operationOf(
  pool: pg.Pool,
  { entities, work }: RawPostgresCommand,
): Promise<Operation> {
  if ("insert" in work) return insertsOf(pool, work.insert, entities);
  return "range" in work ? rangesOf(pool, work.range) : readsOf(pool);
}

async function loop(client: Client, operation: Operation, stopwatch: Stopwatch): Promise<void> {
  while (stopwatch.goesOn()) {
    const startedAt = performance.now();
    await operation(client);
    stopwatch.record(performance.now() - startedAt, client.index);
  }
}

/** Keys of rows that hold entities, whichever contender wrote them, of all partitions. */
async function knownKeys(pool: pg.Pool): Promise<{ pk: Buffer; sk: Buffer }[]> {
  const { rows } = await pool.query(
    `SELECT pk, sk FROM rh_kv WHERE length(val) > 500 ORDER BY hash_array(ARRAY[pk, sk]) LIMIT ${ROWS_KNOWN}`,
  );
  return rows;
}

async function readsOf(pool: pg.Pool): Promise<Operation> {
  const rows = await knownKeys(pool);
  const text = "SELECT ver, val FROM rh_kv WHERE pk = $1 AND sk = $2";
  return async (client) => {
    const { pk, sk } = rows[client.random(rows.length)]!;
    const found = await pool.query({ name: "read", text, values: [pk, sk] });
    if (found.rows.length !== 1) throw new Error("A row is missing.");
  };
}

/** From a random row on; fewer where the partition ends, which is one in a hundred. */
async function rangesOf(pool: pg.Pool, count: number): Promise<Operation> {
  const rows = await knownKeys(pool);
  const text = "SELECT sk, ver, val FROM rh_kv WHERE pk = $1 AND sk >= $2 ORDER BY sk LIMIT $3";
  return async (client) => {
    const { pk, sk } = rows[client.random(rows.length)]!;
    const found = await pool.query({ name: "range", text, values: [pk, sk, count] });
    if (found.rows.length === 0) throw new Error("Rows are missing.");
  };
}

/** Neighbors of a random entry, placed as `Requests.insert` places them, in a partition of their own. */
function insertsOf(pool: pg.Pool, count: number, entities: number): Operation {
  const tuples = Array.from({ length: count }, (_, i) => `($1, $${2 * i + 2}, 1, $${2 * i + 3})`);
  const text = `INSERT INTO rh_kv (pk, sk, ver, val) VALUES ${tuples}`;
  return (client) => {
    const index = client.random(entities);
    const suffix = client.newRowSuffix();
    const values: Buffer[] = [Buffer.from(`~raw ${partitionKey(index)}`)];
    for (let i = 0; i < count; i++) {
      values.push(Buffer.from(`${rowKey(index)}${suffix}-${String(i).padStart(3, "0")}`));
      values.push(Buffer.from(entityJson(index + i)));
    }
    return pool.query({ name: `insert ${count}`, text, values });
  };
}
