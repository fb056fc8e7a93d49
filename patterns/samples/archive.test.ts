import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database } from "@rowhouse/patterns";
import { createWorker } from "@rowhouse/patterns/queue-worker";
import { crashEverywhere, interleave, type Memory, memory } from "@rowhouse/patterns/testing";
import { Archive, archiveEmployee, Employee, readEmployee } from "./archive.ts";

const key = { dept: "Sales", id: 456 };
const start = (db: Database) => archiveEmployee.start(db, { id: "archive-456", input: key });

const worker = (db: Database) =>
  createWorker(db, { queue: "work", handlers: [archiveEmployee], concurrency: 1, maxDequeue: 50 });

async function before(db: Database) {
  await db.createTables(Employee, Archive, archiveEmployee);
  await worker(db).createQueues();
  await db.open(Employee).insert({ ...key, name: "Jones" });
}

async function recover(db: Database) {
  for (let round = 0; round < 6; round++) {
    await db.clock.sleep(61_000);
    await worker(db).drain();
  }
}

async function isArchived(db: Database, { queues }: Memory) {
  assert.equal(await db.open(Employee).get(key), undefined);
  assert.ok(await db.open(Archive).get(key));
  assert.equal((await archiveEmployee.state(db, "archive-456"))?.status, "done");
  assert.deepEqual([queues.contents("work"), queues.contents("work-poison")], [[], []]);
}

describe("the archive sample", () => {
  it("moves an employee in the documented number of requests", async () => {
    const db = connect(memory());
    await before(db);
    const { requests } = await db.metered(async (metered) => {
      await start(metered);
      const [message] = (await metered.queues?.receive("work", { max: 1, visibilityMs: 60_000 }))!;
      const { signal } = new AbortController();
      const content = JSON.parse(message!.text);
      await archiveEmployee.handle(content, { database: metered, signal });
      await metered.queues?.delete("work", message!);
    });
    // The six of the design (send, receive, read, copy, delete, message deleted) and four for the state.
    assert.equal(requests, 10);
  });

  it("finishes after a crash at any request", async () => {
    const run = async (db: Database) => {
      await start(db);
      await worker(db).drain();
    };
    await crashEverywhere(run, {
      before,
      // A client that got no answer asks again.
      recover: async (db) => {
        await start(db);
        await recover(db);
      },
      check: isArchived,
    });
  });

  it("loses no concurrent edit, and a reader always finds the employee in one of the tables", async () => {
    await interleave({
      before: async (db) => {
        await before(db);
        await start(db);
      },
      clients: {
        worker: (db) => worker(db).drain(),
        other: (db) => worker(db).drain(),
        editor: async (db) => {
          const edit = db.open(Employee).update(key, () => ({ name: "Jones-Lee" }));
          await edit.catch(() => undefined);
        },
        reader: async (db) => {
          for (let i = 0; i < 4; i++) assert.ok(await readEmployee(db, key), "nowhere");
        },
      },
      crashShare: 0.02,
      pausesMs: [61_000],
      recover,
      check: async (db, backend) => {
        await isArchived(db, backend);
      },
      runs: 150,
    });
  });

  it("leaves an employee alone who was rehired while a worker was stalled", async () => {
    await interleave({
      before: async (db) => {
        await before(db);
        await start(db);
      },
      clients: {
        stalls: (db) => worker(db).drain(),
        works: async (db) => {
          // The lease of the stalled worker has ended.
          await db.clock.sleep(61_000);
          await worker(db).drain();
        },
        office: async (db) => {
          for (let i = 0; i < 20; i++) {
            if ((await archiveEmployee.state(db, "archive-456"))?.status === "done") {
              await db.open(Employee).upsert({ ...key, name: "hired again" });
              return;
            }
            await db.clock.sleep(10_000);
          }
        },
      },
      recover,
      check: async (db) => {
        const state = await archiveEmployee.state(db, "archive-456");
        assert.equal(state?.status, "done");
        const employee = await db.open(Employee).get(key);
        if (employee) assert.equal(employee.name, "hired again");
        else assert.notEqual((await db.open(Archive).get(key))?.name, "hired again");
      },
      runs: 150,
    });
  });
});
