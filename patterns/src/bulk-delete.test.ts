import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { bulkDelete } from "./bulk-delete.ts";
import { connect, type Database } from "./index.ts";
import { PortError } from "./ports/port-error.ts";
import { schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";
import {
  crashEverywhere,
  intercept,
  interleave,
  type Layer,
  type Memory,
  memory,
} from "./testing.ts";

const TABLE = "Attempts";
const IN_MAY = { partitionKey: "ann", rows: { from: "05", to: "06" } };
const rowKey = (i: number) => `05${String(i).padStart(4, "0")}`;

async function fill(db: Database, count: number): Promise<void> {
  await db.tables.createTable(TABLE);
  const properties = {};
  const insert = (partitionKey: string, key: string) =>
    db.tables.commit(TABLE, [{ kind: "insert", partitionKey, rowKey: key, properties }]);
  for (let i = 0; i < count; i++) await insert("ann", rowKey(i));
  for (const key of ["049999", "06"]) await insert("ann", key);
  await insert("bob", rowKey(0));
}

async function left({ tables }: Memory): Promise<string[]> {
  const { entities } = await tables.query(TABLE, {});
  return entities.map(({ partitionKey, rowKey }) => `${partitionKey} ${rowKey}`);
}

const OTHERS = ["ann 049999", "ann 06", `bob ${rowKey(0)}`];

describe("a bulk delete", () => {
  it("deletes exactly the rows in its range, with one request for each page and each hundred rows", async () => {
    for (const [count, requests] of [
      [0, 1],
      [99, 2],
      [100, 2],
      [101, 3],
      [250, 4],
    ] as const) {
      const backend = memory();
      const db = connect(backend);
      await fill(db, count);
      const cost = await db.metered((metered) => bulkDelete(metered, TABLE, IN_MAY));
      assert.deepEqual([cost.result, cost.requests, cost.entities], [count, requests, 2 * count]);
      assert.deepEqual(await left(backend), OTHERS);
    }
  });

  it("finishes when run again after a crash at any request", async () => {
    const crashes = await crashEverywhere((db) => bulkDelete(db, TABLE, IN_MAY), {
      backend: () => memory({ pageEntitiesMax: 3 }),
      before: (db) => fill(db, 8),
      recover: (db) => bulkDelete(db, TABLE, IN_MAY),
      check: async (_db, backend) => {
        const rest = [];
        for (const key of ["049999", "06"]) {
          rest.push(await backend.tables.get(TABLE, { partitionKey: "ann", rowKey: key }));
        }
        rest.push(await backend.tables.get(TABLE, { partitionKey: "bob", rowKey: rowKey(0) }));
        assert.ok(rest.every((row) => row !== undefined));
        assert.equal(await bulkDelete(connect(backend), TABLE, IN_MAY), 0);
      },
    });
    assert.equal(crashes, 2 * 6);
  });

  it("counts the deleted rows correctly if answers are lost", async () => {
    let deleted = 0;
    const lost = await loseEveryAnswer(
      async (db) => {
        deleted = await bulkDelete(db, TABLE, IN_MAY);
      },
      {
        before: (db) => fill(db, 101),
        check: async (_db, backend) => {
          assert.equal(deleted, 101);
          assert.deepEqual(await left(backend), OTHERS);
        },
      },
    );
    assert.equal(lost, 3);
  });

  it("shares its rows with concurrent deletes, and each row is counted once", async () => {
    const deleted: number[] = [];
    await interleave({
      backend: (clock, seed) => {
        deleted.length = 0;
        return memory({ clock, seed, pageEntitiesMax: 3 });
      },
      before: (db) => fill(db, 7),
      clients: {
        one: async (db) => deleted.push(await bulkDelete(db, TABLE, IN_MAY)),
        other: async (db) => deleted.push(await bulkDelete(db, TABLE, IN_MAY)),
        single: (db) =>
          db.tables
            .commit(TABLE, [
              { kind: "delete", partitionKey: "ann", rowKey: rowKey(4), ifMatch: "*" },
            ])
            .then(
              () => deleted.push(1),
              () => undefined,
            ),
      },
      check: async (db) => {
        assert.equal(
          deleted.reduce((sum, count) => sum + count, 0),
          7,
        );
        assert.equal(await bulkDelete(db, TABLE, IN_MAY), 0);
      },
      runs: schedules(600),
    });
  });

  it("ends if the table is deleted meanwhile", async () => {
    const backend = memory();
    await fill(connect(backend), 150);
    let commits = 0;
    const layer: Layer = async ({ method }, send) => {
      if (method === "commit" && ++commits === 2) await backend.tables.deleteTable(TABLE);
      return send();
    };
    const db = connect({ ...backend, ...intercept(backend, layer) });
    assert.deepEqual([await bulkDelete(db, TABLE, IN_MAY), commits], [100, 2]);
  });

  it("fails if the table is missing, or if a 404 names no row of its transaction", async () => {
    const backend = memory();
    const db = connect(backend);
    await assert.rejects(bulkDelete(db, "Nowhere"), { code: "TableNotFound" });
    await fill(db, 3);
    const outside: Layer = async ({ method }, send) => {
      if (method !== "commit") return send();
      throw new PortError("7:It is not there.", {
        status: 404,
        code: "ResourceNotFound",
        index: 7,
      });
    };
    const strange = connect({ ...backend, ...intercept(backend, outside) });
    await assert.rejects(bulkDelete(strange, TABLE, IN_MAY), { code: "ResourceNotFound" });
  });
});
