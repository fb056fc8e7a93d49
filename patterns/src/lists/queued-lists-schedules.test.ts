import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Database } from "../database.ts";
import { isTableError } from "../index.ts";
import { repairIndex } from "../index-scrub.ts";
import { schedules } from "../testing/test-histories.ts";
import { loseEveryAnswer } from "../testing/test-lose-every-answer.ts";
import {
  type Client,
  crashEverywhere,
  interleave,
  type Layer,
  type Memory,
  type Ports,
} from "../testing.ts";
import {
  audit,
  Employee,
  jones,
  letWorkersFinish,
  NAMES,
  Plain,
  prepareIn,
  work,
} from "./test-queued-lists.ts";

describe("lists maintained by a worker, in any schedule", () => {
  const before = async (db: Database) => {
    await prepareIn(db);
    for (const id of [1, 2, 3]) await db.open(Employee).insert(jones(id));
    await letWorkersFinish(db, 1);
  };
  const rename = (id: number, lastName: string | undefined) => (db: Database) =>
    db
      .open(Employee)
      .update({ dept: "Sales", id }, () => ({ lastName }))
      .catch((error) => {
        if (!isTableError(error, "not-found")) throw error;
      });
  const insert = (db: Database) => db.open(Employee).insert(jones(4));
  const remove = (db: Database) => db.open(Employee).delete({ dept: "Sales", id: 1 });
  const withWorker = (work: (db: Database) => Promise<unknown>) => async (db: Database) => {
    await work(db);
    await letWorkersFinish(db, 1);
  };

  it("are correct after a crash at any request of writer and worker, and after lost answers", async () => {
    for (const operation of [insert, remove, rename(2, "Smith"), rename(3, undefined)]) {
      const whole = withWorker(operation);
      await crashEverywhere(whole, { before, recover: letWorkersFinish, check: audit });
      const check = async (db: Database, backend: Memory) => {
        await letWorkersFinish(db);
        await audit(db, backend);
      };
      await loseEveryAnswer(whole, { before, check });
    }
  });

  /** While others sleep, a minute may pass between any two requests, so a writer may be too late. */
  const tolerant = (client: Client) => (db: Database) =>
    client(db).catch((error) => {
      const isExpected =
        isTableError(error, "throttled") || isTableError(error, "contention-exhausted");
      if (!isExpected) throw error;
    });
  const clients = {
    insert: tolerant(insert),
    remove: tolerant(remove),
    rename: tolerant(rename(2, "Smith")),
    back: tolerant(async (db: Database) => {
      await rename(2, "Adams")(db);
      await rename(2, "Jones")(db);
    }),
    one: (db: Database) => work(db, 2),
    two: (db: Database) => work(db, 2),
  };
  const working = { before, clients, recover: letWorkersFinish, check: audit };

  it("are correct after any interleaving of writers and workers", async () => {
    await interleave({ ...working, crashShare: 0.01, runs: schedules(80) });
  });

  it("are correct after any interleaving of writers and repairs, with crashes", async () => {
    const repair = tolerant(async (db: Database) => {
      for (const name of NAMES) await repairIndex(db, Employee, name);
    });
    await interleave({
      ...working,
      before: async (db) => {
        await before(db);
        // Other software: one employee leaves, one changes its name, one arrives.
        await db.open(Plain).delete({ dept: "Sales", id: 1 });
        await db.open(Plain).update({ dept: "Sales", id: 2 }, () => ({ lastName: "Smith" }));
        await db.open(Plain).insert(jones(5));
        await db.clock.sleep(120_000);
      },
      clients: {
        repair,
        another: repair,
        again: tolerant((db) => db.open(Employee).insert(jones(1))),
        back: tolerant(rename(2, "Jones")),
        leave: tolerant((db) => db.open(Employee).delete({ dept: "Sales", id: 5 })),
        worker: (db) => work(db, 1),
      },
      recover: async (db) => {
        await letWorkersFinish(db);
        await repair(db);
      },
      crashShare: 0.01,
      runs: schedules(40),
    });
  });

  it("would be wrong if workers wrote blobs unconditionally (the check notices)", async () => {
    const blind =
      (_client: string, ports: Ports): Layer =>
      (call, send) => {
        if (call.port !== "blobs" || call.method !== "put") return send();
        // The arguments are those of `BlobsPort.put`.
        const [container, name, body] = call.args as Parameters<Ports["blobs"]["put"]>;
        return ports.blobs.put(container, name, body);
      };
    await assert.rejects(interleave({ ...working, runs: 2000, layer: blind }), /Fails with/);
  });
});
