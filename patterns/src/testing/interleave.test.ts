import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Database } from "../database.ts";
import { entity, f, k } from "../index.ts";
import { siblingIndex } from "../sibling-index.ts";
import { type InterleaveOptions, interleave } from "./interleave.ts";

const Counter = entity("Counter", {
  version: 1,
  fields: { group: f.string(), id: f.string(), count: f.int32() },
  key: { partition: [k.str("group")], row: [k.lit("id"), k.str("id")] },
  indexes: { count: siblingIndex({ row: [k.lit("count"), k.uint("count", 4)], unique: true }) },
});
const key = { group: "g", id: "c" };

const increment = (db: Database) =>
  db.open(Counter).update(key, ({ count }) => ({ count: count + 1 }));
const overwrite = async (db: Database) => {
  const { count } = await db.open(Counter).mustGet(key);
  await db.open(Counter).upsert({ ...key, count: count + 1 });
};

function counting(
  clients: InterleaveOptions["clients"],
  options: Partial<InterleaveOptions> = {},
): InterleaveOptions {
  return {
    clients,
    before: async (db) => {
      await db.createTables(Counter);
      await db.open(Counter).insert({ ...key, count: 0 });
    },
    check: async (db) => {
      const { count } = await db.open(Counter).mustGet(key);
      assert.equal(count, Object.keys(clients).length);
      assert.ok(await db.open(Counter).by.count.get({ group: "g", count }));
    },
    ...options,
  };
}

describe("interleave", () => {
  it("tries every schedule of two clients", async () => {
    const runs = await interleave(counting({ a: increment, b: increment }, { runs: "all" }));
    assert.equal(runs, 6);
  });

  it("finds a lost update, and repeats it in one run from its seed", async () => {
    const racy = counting({ a: increment, b: overwrite });
    let message = "";
    await assert.rejects(interleave({ ...racy, seed: 1, runs: 500 }), (error: Error) => {
      message = error.message;
      return true;
    });
    const seed = Number(message.match(/seed: (\d+)/)?.[1]);
    await assert.rejects(interleave({ ...racy, seed, runs: 1 }), { message });
    assert.ok(message.split("\n").length < 12, message);
  });

  it("passes three contending clients in random schedules, with and without crashes", async () => {
    await interleave(counting({ a: increment, b: increment, c: increment }, { runs: 100 }));
    await interleave(
      counting(
        { a: increment, b: increment, c: increment },
        {
          runs: 200,
          crashShare: 0.1,
          check: async (db) => {
            const { count } = await db.open(Counter).mustGet(key);
            assert.ok(await db.open(Counter).by.count.get({ group: "g", count }));
          },
        },
      ),
    );
  });

  it("reports a client that waits forever", async () => {
    const stuck = { clients: { a: () => new Promise<void>(() => {}) }, check: async () => {} };
    await assert.rejects(interleave({ ...stuck, runs: 1 }), /other than a request/);
  });
});
