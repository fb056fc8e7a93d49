import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, f, isTableError, k } from "./index.ts";
import { hours, series, slots } from "./series.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { intercept, withFaults } from "./testing/intercept.ts";
import { memory } from "./testing/memory.ts";
import { histories } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";

const fields = { dept: f.string(), id: f.int32(), day: f.string() };
const key = {
  partition: [k.str("dept")],
  row: [k.uint("id", 6), k.str("day")],
} as const;
const Stats = series("MessageStats", { fields, key, slots: hours("count") });
const Busy = series("Busy", { fields, key, slots: hours("count"), writers: 4 });
const july31 = { dept: "Sales", id: 123, day: "20140731" };
const august1 = { ...july31, day: "20140801" };

async function open() {
  const backend = memory();
  const db = connect(backend);
  await db.createTables(Stats, Busy);
  return { backend, db, stats: db.open(Stats) };
}

describe("a series", () => {
  it("stores its points in one row, each as a numbered property", async () => {
    const { backend, stats } = await open();
    await stats.set(july31, 0, 7);
    await stats.set(july31, 23, 9);
    const rowKey = "000123_20140731";
    const stored = await backend.tables.get("MessageStats", { partitionKey: "Sales", rowKey });
    assert.deepEqual(stored?.properties, {
      count_00: { type: "Int32", value: 7 },
      count_23: { type: "Int32", value: 9 },
      rh_t: { type: "String", value: "MessageStats:1" },
    });
  });

  it("reads points with gaps and across midnight, and clears them", async () => {
    const { stats } = await open();
    await stats.set(july31, 23, 1);
    await stats.set(august1, 0, 2);
    assert.equal((await stats.read(july31)).length, 24);
    assert.deepEqual(await stats.window([july31, august1], 22, 26), [undefined, 1, 2, undefined]);
    await stats.clear(july31, [23, 5]);
    assert.deepEqual(new Set(await stats.read(july31)), new Set([undefined]));
    await stats.clear({ ...july31, id: 9 }, [1]);
  });

  it("gives up adding to a key that holds a row of another kind", async () => {
    const { backend, db } = await open();
    const row = { partitionKey: "Sales", rowKey: "000123_20140731" };
    const properties = { rh_t: { type: "String", value: "Other:1" } } as const;
    await db.tables.commit("MessageStats", [{ kind: "insert", ...row, properties }]);
    const faults = withFaults((_call, count) =>
      count > 200 ? { kind: "refuse", status: 403, code: "AuthorizationFailure" } : undefined,
    );
    const stats = connect({ ...backend, ...intercept(backend, faults) }).open(Stats);
    await assert.rejects(stats.add(july31, 0, 1), { code: "contention-exhausted" });
  });

  it("matches arrays of numbers after any history", async () => {
    const command = fc.record({
      kind: fc.constantFrom("set", "add", "clear"),
      slot: fc.nat(2),
      value: fc.integer({ min: -5, max: 5 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 40 }), async (commands) => {
        const { stats } = await open();
        const model: (number | undefined)[] = new Array(24).fill(undefined);
        for (const { kind, slot, value } of commands) {
          if (kind === "set") {
            await stats.set(july31, slot, value);
            model[slot] = value;
          } else if (kind === "add") {
            await stats.add(july31, slot, value);
            model[slot] = (model[slot] ?? 0) + value;
          } else {
            await stats.clear(july31, [slot]);
            model[slot] = undefined;
          }
        }
        assert.deepEqual(await stats.read(july31), model);
      }),
      histories(60),
    );
  });

  it("counts exactly when 10 clients add 21 times each, on one row and on four", async () => {
    const { db } = await open();
    for (const definition of [Stats, Busy]) {
      const counters = db.open(definition);
      const client = async () => {
        for (let i = 0; i < 21; i++) await counters.add(july31, i % 2, 1, { attempts: 1000 });
      };
      await Promise.all(Array.from({ length: 10 }, client));
      const [even = 0, odd = 0] = await counters.read(july31);
      assert.deepEqual([even, odd], [110, 100]);
    }
  });

  it("gives each writer its own row, and adds them up when read", async () => {
    const { backend, db } = await open();
    await db.open(Busy).add(july31, 0, 1, { writer: 0 });
    await db.open(Busy).add(july31, 0, 2, { writer: 3 });
    const { entities } = await backend.tables.query("Busy", {});
    assert.deepEqual(
      entities.map(({ rowKey }) => rowKey),
      ["000123_20140731_w00", "000123_20140731_w03"],
    );
    assert.equal((await db.open(Busy).read(july31))[0], 3);
    const refused = (call: Promise<unknown>) =>
      assert.rejects(call, (error) => isTableError(error, "validation-failed"));
    await refused(db.open(Busy).set(july31, 0, 1));
    await refused(db.open(Busy).add(july31, 0, 1, { writer: 4 }));
  });

  const add = (db: Database) => db.open(Stats).add(july31, 18, 1);
  const before = (db: Database) => db.createTables(Stats);
  const beforeWithRow = async (db: Database) => {
    await before(db);
    await db.open(Stats).add(july31, 18, 1);
  };
  const countOf = async (db: Database) => (await db.open(Stats).read(july31))[18] ?? 0;

  it("adds once if answers are lost, and once or not at all in a crash", async () => {
    const is = (count: number) => async (db: Database) => assert.equal(await countOf(db), count);
    await loseEveryAnswer(add, { before, check: is(1) });
    await loseEveryAnswer(add, { before: beforeWithRow, check: is(2) });
    const crashes = await crashEverywhere(add, {
      before: beforeWithRow,
      check: async (db) => assert.ok([1, 2].includes(await countOf(db))),
    });
    assert.equal(crashes, 4);
  });

  it("costs the requests that the manual states", async () => {
    const { db, stats } = await open();
    const cost = async (work: (db: Database) => Promise<unknown>) => {
      const { requests, entities } = await db.metered(work);
      return [requests, entities];
    };
    assert.deepEqual(await cost((db) => db.open(Stats).set(july31, 1, 1)), [1, 1]);
    await stats.add(july31, 1, 1);
    assert.deepEqual(await cost((db) => db.open(Stats).add(july31, 1, 1)), [2, 2]);
    assert.deepEqual(await cost((db) => db.open(Stats).read(july31)), [1, 1]);
  });

  it("refuses to add values of another type, or none", async () => {
    const { db } = await open();
    const stats = db.open(Stats);
    await stats.add(july31, 3, 5);
    for (const delta of ["1", undefined, null, 1n, 0.5, Number.NaN] as number[]) {
      await assert.rejects(stats.add(july31, 3, delta), (error) =>
        isTableError(error, "validation-failed"),
      );
    }
    assert.equal((await stats.read(july31))[3], 5);
  });

  it("needs at least one writer", () => {
    for (const writers of [0, -1, 1.5, Number.NaN]) {
      assert.throws(
        () => series("None", { fields, key, slots: slots("p", 2), writers }),
        (error) => isTableError(error, "invalid-definition"),
      );
    }
  });

  it("has 1 to 248 points of a number type", async () => {
    const { db } = await open();
    for (const count of [0, 249]) {
      assert.throws(
        () => series("Many", { fields, key, slots: slots("p", count) }),
        (error) => isTableError(error, "invalid-definition"),
      );
    }
    const Many = series("Many", { fields, key, slots: slots("p", 248, f.int64()) });
    await db.createTables(Many);
    for (const slot of [0, 247]) await db.open(Many).add(july31, slot, 2n ** 40n);
    assert.equal((await db.open(Many).read(july31))[247], 2n ** 40n);
    for (const slot of [-1, 248, 1.5]) {
      await assert.rejects(db.open(Many).set(july31, slot, 1n), (error) =>
        isTableError(error, "validation-failed"),
      );
    }
  });
});
