import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database, isTableError } from "./index.ts";
import { indexLifeCycle } from "./index-life-cycle.ts";
import { indexRepairs } from "./index-repairs.ts";
import { repairIndex, verifyIndex } from "./index-scrub.ts";
import { controlledIndexes } from "./index-states.ts";
import { Indexed } from "./indexes/test-employee.ts";
import { entriesOf, MINUTE, NAMES, type Name, prepareIn } from "./indexes/test-life-cycle.ts";
import { isRefusal, isTooLate } from "./ports/port-error.ts";
import { createWorker } from "./queue-worker.ts";
import { schedules } from "./testing/test-histories.ts";
import { type Client, interleave, type Memory, memory } from "./testing.ts";

const indexStates = controlledIndexes({ unregistered: "readable" });

/** Lets the others change the index, or delete its table, but not a deadline end the work. */
const tolerant = (client: Client) => (db: Database) =>
  client(db).catch((error) => {
    const isExpected = isTableError(error) || isRefusal(error, 404, 409);
    if (!isExpected || isTooLate(error.cause)) throw error;
  });

async function inTurn(db: Database, ...clients: readonly Client[]): Promise<void> {
  for (const client of clients) {
    await db.clock.sleep(MINUTE * db.random());
    await tolerant(client)(db);
  }
}

const write = (db: Database) => {
  const one = async () => {
    const key = { dept: "Sales", id: 1 + Math.floor(3 * db.random()) };
    const email = `e${1 + Math.floor(4 * db.random())}`;
    const employees = db.open(Indexed);
    if (db.random() < 0.3) await employees.delete(key);
    else await employees.upsert({ ...key, email });
  };
  return inTurn(db, one, one, one);
};

const workerOf = (db: Database) =>
  createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Indexed])] });

const work = async (db: Database) => {
  const drain = () => workerOf(db).drain();
  await inTurn(db, drain, drain, drain);
};

/** A retired index has no entries, a readable one lacks none, and no message was set aside. */
async function check(backend: Memory, name: Name): Promise<void> {
  const db = connect({ ...backend, indexStates });
  const life = indexLifeCycle(db, Indexed, name);
  await db.clock.sleep(5 * MINUTE);
  const state = await life.state();
  if (state === "disabled" || state === "retiring") await life.retire();
  if (state === "writeonly") await life.build();
  if (state === "readable") assert.equal((await verifyIndex(db, Indexed, name)).missing, 0);
  for (let round = 0; round < 3; round++) {
    await db.clock.sleep(2 * MINUTE);
    await workerOf(db).drain();
  }
  assert.deepEqual(await workerOf(db).peekPoison(), []);
  if ((await life.state()) === "disabled") {
    assert.deepEqual(await entriesOf(backend, name), []);
    return;
  }
  await repairIndex(db, Indexed, name);
  await db.clock.sleep(2 * MINUTE);
  const { missing, wrong, dangling } = await verifyIndex(db, Indexed, name);
  assert.deepEqual([missing, wrong, dangling], [0, 0, 0]);
}

describe("an index that is built, repaired and retired by processes that stall", () => {
  for (const name of NAMES) {
    it(`has all entries or none (${name})`, async () => {
      const build = (db: Database) => indexLifeCycle(db, Indexed, name).build({ rate: 1000 });
      const retire = (db: Database) => indexLifeCycle(db, Indexed, name).retire();
      const repair = (db: Database) => repairIndex(db, Indexed, name);
      const shards = (db: Database) =>
        indexLifeCycle(db, Indexed, name).build({ shards: 2, rate: 1000 });
      await interleave({
        backend: (clock, seed) => memory({ clock, seed, pageEntitiesMax: 2 }),
        connect: { indexStates },
        before: async (db) => {
          await prepareIn(db, 3);
          // Keeps the table, whose name would not be free for a while.
          const other = { kind: "insert", partitionKey: "a", rowKey: "b", properties: {} } as const;
          await db.tables.commit("ByEmail", [other]);
          await indexLifeCycle(db, Indexed, name).disable();
          if (db.random() < 0.5) await build(db);
        },
        clients: {
          builder: (db) => inTurn(db, build, build),
          sharder: (db) => inTurn(db, shards),
          another: (db) => inTurn(db, shards, build),
          repair: (db) => inTurn(db, repair, repair),
          retirer: (db) => inTurn(db, retire, retire, retire),
          write,
          work,
        },
        check: (_db, backend) => check(backend, name),
        pausesMs: [400, 5000, 20_000, 45_000, 2 * MINUTE],
        crashShare: 0.004,
        runs: schedules(40),
      });
    });
  }
});
