import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RestError, TableClient, type TransactionAction } from "@azure/data-tables";
import { LocalServer } from "@rowhouse/server/engine/postgres/test-server";
import { settled } from "../support/database-engine.ts";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);
const rounds = Number(process.env.CRASH_ROUNDS ?? 3);
const WORKERS = 8;
const ROWS = 4;

/** What a worker knows of its partition: row key → value, as acknowledged, and what may have happened since. */
interface Knowledge {
  acknowledged: Map<string, number>;
  underWay: Map<string, number> | undefined;
}

describe(`A server killed under load (seed ${seed}, CRASH_SEED repeats it)`, () => {
  it(`has every acknowledged write and no half transaction, ${rounds} times over`, async () => {
    await withFolder((folder) => crash(rounds, () => startRowhouse(folder, ["--silent"])));
  });

  it("has them over PostgreSQL too, whose process lives on", async () => {
    const database = await LocalServer.create();
    try {
      await database.start();
      const url = await database.createDatabase();
      const flags = ["--silent", "--engine", url];
      await withFolder((folder) =>
        crash(process.env.CRASH_ROUNDS ? rounds : 1, async () => {
          await settled(url);
          return startRowhouse(folder, flags);
        }),
      );
    } finally {
      await database.remove();
    }
  });
});

async function crash(rounds: number, start: () => Promise<RowhouseProcess>): Promise<void> {
  const random = seededRandom(seed);
  const known: Knowledge[] = Array.from({ length: WORKERS }, () => ({
    acknowledged: new Map(),
    underWay: undefined,
  }));
  for (let round = 0; round < rounds; round++) {
    const server = await start();
    const table = clientOf(server.connectionString);
    await createUnlessThere(table);
    await verify(table, known, `before round ${round}`);
    const writes = { count: 0, max: 100 + Math.floor(random() * 400) };
    const workers = known.map((knowledge, worker) =>
      work(table, worker, knowledge, random, writes),
    );
    await Promise.race([Promise.all(workers), reached(writes)]);
    await server.kill();
    await Promise.all(workers);
  }
  const server = await start();
  await verify(clientOf(server.connectionString), known, "at the end");
  assert.equal(await server.stop(), 0);
}

function clientOf(connectionString: string): TableClient {
  return TableClient.fromConnectionString(connectionString, "Crash", {
    allowInsecureConnection: true,
    retryOptions: { maxRetries: 0 },
  });
}

/** Resolves once that many writes were acknowledged. */
async function reached(writes: { count: number; max: number }): Promise<void> {
  while (writes.count < writes.max) await new Promise((resolve) => setImmediate(resolve));
}

/** Writes to its own partition, one write after the other, until the server is gone. */
async function work(
  table: TableClient,
  worker: number,
  knowledge: Knowledge,
  random: () => number,
  writes: { count: number },
): Promise<void> {
  const partitionKey = `worker ${worker}`;
  for (let value = 1; ; value++) {
    const next = new Map(knowledge.acknowledged);
    const rowKey = String(Math.floor(random() * ROWS));
    const kind = random();
    let write: () => Promise<unknown>;
    if (kind < 0.3) {
      // All rows get one value, or none does.
      const actions: TransactionAction[] = [];
      for (let row = 0; row < ROWS; row++) {
        next.set(String(row), value);
        actions.push(["upsert", { partitionKey, rowKey: String(row), value }, "Replace"]);
      }
      write = () => table.submitTransaction(actions);
    } else if (kind < 0.5 && next.has(rowKey)) {
      next.delete(rowKey);
      write = () => table.deleteEntity(partitionKey, rowKey);
    } else {
      next.set(rowKey, value);
      write = () =>
        table.upsertEntity({ partitionKey, rowKey, value }, kind < 0.75 ? "Merge" : "Replace");
    }
    knowledge.underWay = next;
    try {
      await write();
    } catch (error) {
      assert.ok(error instanceof RestError && error.statusCode === undefined, String(error));
      return;
    }
    knowledge.acknowledged = next;
    knowledge.underWay = undefined;
    writes.count++;
  }
}

async function verify(table: TableClient, known: Knowledge[], when: string): Promise<void> {
  const found: Map<string, number>[] = known.map(() => new Map());
  for await (const { partitionKey = "", rowKey = "", value } of table.listEntities<{
    value: number;
  }>()) {
    found[Number(partitionKey.split(" ")[1])]!.set(rowKey, value);
  }
  for (const [worker, knowledge] of known.entries()) {
    const state = JSON.stringify([...found[worker]!].sort());
    const expected = [knowledge.acknowledged, knowledge.underWay].map(
      (state) => state && JSON.stringify([...state].sort()),
    );
    assert.ok(
      expected.includes(state),
      `${when}, worker ${worker}: found ${state}, expected ${expected.join(" or ")}`,
    );
    knowledge.acknowledged = found[worker]!;
    knowledge.underWay = undefined;
  }
}

async function createUnlessThere(table: TableClient): Promise<void> {
  // The client takes TableAlreadyExists for success.
  await table.createTable();
}
