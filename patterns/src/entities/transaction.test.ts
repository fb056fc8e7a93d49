import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database, entity, f, isTableError, k } from "../index.ts";
import { siblingIndex } from "../sibling-index.ts";
import { crashEverywhere } from "../testing/crash-everywhere.ts";
import { interleave } from "../testing/interleave.ts";
import { memory } from "../testing/memory.ts";
import { schedules } from "../testing/test-histories.ts";
import { loseEveryAnswer } from "../testing/test-lose-every-answer.ts";

const Employee = entity("Employee", {
  version: 1,
  table: "Staff",
  fields: { dept: f.string(), id: f.int32(), email: f.string() },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
  indexes: { email: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true }) },
});

const Department = entity("Department", {
  version: 1,
  table: "Staff",
  fields: { dept: f.string(), employeeCount: f.int32() },
  key: { partition: [k.str("dept")], row: [k.lit("DEPARTMENT")] },
});

const sales = { dept: "Sales" };
type Transaction = Parameters<Parameters<Database["tx"]>[1]>[0];

async function open() {
  const backend = memory();
  const db = connect(backend);
  await db.createTables(Employee, Department);
  await db.open(Department).insert({ ...sales, employeeCount: 0 });
  const hire = (id: number, email: string) =>
    db.tx(sales, (t) => {
      t.insert(Employee, { ...sales, id, email });
      t.update(Department, sales, (current) => ({ employeeCount: current.employeeCount + 1 }));
    });
  return {
    backend,
    db,
    hire,
    count: async () => (await db.open(Department).mustGet(sales)).employeeCount,
  };
}

describe("a transaction", () => {
  it("commits entities of several types with their index entries in one commit", async () => {
    const { backend, db, count } = await open();
    const { requests } = await db.metered((metered) =>
      metered.tx(sales, (t) => {
        t.insert(Employee, { ...sales, id: 1, email: "a" });
        t.update(Department, sales, (current) => ({ employeeCount: current.employeeCount + 1 }));
      }),
    );
    assert.deepEqual([requests, await count()], [2, 1]);
    const { entities } = await backend.tables.query("Staff", {});
    assert.deepEqual(
      entities.map(({ rowKey }) => rowKey),
      ["DEPARTMENT", "email_a", "empid_000001"],
    );
  });

  it("leaves nothing behind if one part is refused, and names that part", async () => {
    const { hire, count } = await open();
    await hire(1, "a");
    await assert.rejects(
      hire(2, "a"),
      (error) => isTableError(error, "unique-violation") && error.index === "email",
    );
    await assert.rejects(
      hire(1, "b"),
      (error) => isTableError(error, "unique-violation") && error.index === "key",
    );
    assert.equal(await count(), 1);
  });

  it("runs again if an entity changed meanwhile, so no change is lost", async () => {
    const { hire, count } = await open();
    await Promise.all([1, 2, 3, 4].map((id) => hire(id, `e${id}`)));
    assert.equal(await count(), 4);
  });

  it("commits once, completely or not at all, despite crashes, lost answers and any interleaving", async () => {
    const before = async (db: Database) => {
      await db.createTables(Employee, Department);
      await db.open(Department).insert({ ...sales, employeeCount: 0 });
    };
    const hire = (id: number) => (db: Database) =>
      db.tx(sales, (t) => {
        t.insert(Employee, { ...sales, id, email: `e${id}` });
        t.update(Department, sales, ({ employeeCount }) => ({ employeeCount: employeeCount + 1 }));
      });
    const agrees = (count?: number) => async (db: Database) => {
      const { employeeCount } = await db.open(Department).mustGet(sales);
      assert.equal((await db.open(Employee).range(sales).all()).length, employeeCount);
      assert.equal((await db.open(Employee).by.email.range(sales).all()).length, employeeCount);
      if (count !== undefined) assert.equal(employeeCount, count);
    };
    assert.equal(await crashEverywhere(hire(1), { before, check: agrees() }), 4);
    assert.equal(await loseEveryAnswer(hire(1), { before, check: agrees(1) }), 2);
    const clients = { one: hire(1), two: hire(2), three: hire(3) };
    await interleave({ before, clients, check: agrees(3), runs: schedules(600) });
  });

  it("overwrites only the versions that it read", async () => {
    const before = async (db: Database) => {
      await db.createTables(Department);
    };
    const one = (db: Database) =>
      db.tx(sales, async (t) => {
        const { employeeCount } = (await t.get(Department, sales)) ?? { employeeCount: 0 };
        if (employeeCount === 2) t.delete(Department, sales);
        else t.upsert(Department, { ...sales, employeeCount: employeeCount + 1 });
      });
    const check = async (db: Database) =>
      assert.equal(await db.open(Department).get(sales), undefined);
    await interleave({
      before,
      clients: { one, two: one, three: one },
      check,
      runs: schedules(200),
    });
    const backend = memory();
    const db = connect(backend);
    await before(db);
    const { requests } = await db.metered(one);
    assert.equal(requests, 2);
  });

  it("moves the entries of an entity that the caller modified in place", async () => {
    const { db } = await open();
    const key = { ...sales, id: 1 };
    const employees = db.open(Employee);
    const rename = (email: string) => (current: { email: string }) =>
      Object.assign(current, { email });
    const writes: Record<string, (email: string) => Promise<unknown>> = {
      "an upsert of what get gave": (email) =>
        db.tx(sales, async (t) => {
          const found = await t.get(Employee, key);
          assert.ok(found);
          t.upsert(Employee, rename(email)(found) as typeof found);
        }),
      "an update in a transaction": (email) =>
        db.tx(sales, (t) => t.update(Employee, key, rename(email))),
      "an update": (email) => employees.update(key, rename(email)),
    };
    await employees.insert({ ...key, email: "before" });
    for (const [how, write] of Object.entries(writes)) {
      await write(how);
      const entries = await employees.by.email.range(sales).all();
      assert.deepEqual(
        entries.map(({ email }) => email),
        [how],
      );
    }
  });

  it("runs again if another client inserts the entity that it upserts", async () => {
    const { db } = await open();
    const key = { ...sales, id: 1 };
    const upsert = (email: string) => db.tx(sales, (t) => t.upsert(Employee, { ...key, email }));
    await Promise.all(["a", "b", "c", "d"].map(upsert));
    assert.ok(await db.open(Employee).get(key));
    assert.equal((await db.open(Employee).by.email.range(sales).all()).length, 1);
  });

  it("refuses a second partition, a second change of a row and too many operations", async () => {
    const { db } = await open();
    const refused = (
      code: "validation-failed" | "batch-too-large",
      work: Parameters<typeof db.tx>[1],
    ) => assert.rejects(db.tx(sales, work), (error) => isTableError(error, code));
    await refused("validation-failed", (t) =>
      t.insert(Department, { dept: "Marketing", employeeCount: 0 }),
    );
    await refused("validation-failed", (t) => {
      t.upsert(Department, { ...sales, employeeCount: 1 });
      t.upsert(Department, { ...sales, employeeCount: 2 });
    });
    const hire = (count: number) => (t: Transaction) => {
      for (let id = 0; id < count; id++) t.insert(Employee, { ...sales, id, email: `${id}` });
    };
    await refused("batch-too-large", (t) => {
      hire(50)(t);
      t.update(Department, sales, () => ({ employeeCount: 50 }));
    });
    await db.tx(sales, hire(50));
  });
});
