import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { siblingIndex } from "./sibling-index.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { memory } from "./testing/memory.ts";
import { histories } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";
import { is, type UnknownRow, union } from "./union.ts";

const partition = [k.str("dept")] as const;
const Employee = entity("Employee", {
  version: 2,
  table: "Staff",
  fields: { dept: f.string(), id: f.int32(), lastName: f.string(), level: f.int32() },
  key: { partition, row: [k.lit("EMPLOYEE"), k.uint("id", 6)] },
  indexes: { lastName: siblingIndex({ row: [k.lit("LAST"), k.str("lastName"), k.uint("id", 6)] }) },
  upgrade: { 1: (old) => ({ ...old, level: 1 }) },
});
const Department = entity("Department", {
  version: 1,
  table: "Staff",
  fields: { dept: f.string(), employeeCount: f.int32() },
  key: { partition, row: [k.lit("DEPARTMENT")] },
});
const Staff = union(Employee, Department);
const all = { allow: "table-scan", because: "test" } as const;

const before = async (db: Database) => {
  await db.createTables(Staff);
  await db.open(Department).insert({ dept: "Sales", employeeCount: 1 });
  await db.open(Employee).insert({ dept: "Sales", id: 123, lastName: "Jones", level: 3 });
  const foreign = { EmployeeCount: { type: "Int32", value: 1 } } as const;
  await db.tables.commit("Staff", [
    { kind: "insert", partitionKey: "Sales", rowKey: "FOREIGN", properties: foreign },
  ]);
};

async function open() {
  const backend = memory();
  const db = connect(backend);
  await before(db);
  return { backend, db, staff: db.open(Staff) };
}

describe("a union", () => {
  it("refuses to narrow a range by a field outside its partition key", async () => {
    const { staff } = await open();
    const query = { dept: "Sales", id: 123 };
    assert.throws(() => staff.range(query), /id: is not a key segment/);
    for (const nothing of [undefined, null, 5] as never[]) {
      assert.throws(
        () => staff.range(nothing),
        (error) => isTableError(error, "validation-failed"),
      );
    }
  });

  it("returns rows in key order with their kinds, and unknown rows as they are stored", async () => {
    const { staff } = await open();
    const rows = await staff.range({ dept: "Sales" }).all();
    assert.deepEqual(
      rows.map(({ kind }) => kind),
      ["Department", "Employee", "unknown", "unknown"],
    );
    const [department, employee, foreign, entry] = rows;
    assert.ok(department && is(department, Department) && department.employeeCount === 1);
    assert.ok(employee && is(employee, Employee) && employee.lastName === "Jones");
    assert.equal(foreign?.kind === "unknown" && foreign.raw.rowKey, "FOREIGN");
    assert.equal(entry?.kind === "unknown" && entry.raw.rowKey, "LAST_Jones_000123");
    assert.equal((await staff.scan().all(all)).length, 4);
  });

  it("upgrades rows of an older version", async () => {
    const { db, staff } = await open();
    const text = (value: string) => ({ type: "String", value }) as const;
    await db.tables.commit("Staff", [
      {
        kind: "insert",
        partitionKey: "Old",
        rowKey: "EMPLOYEE_000007",
        properties: { lastName: text("Adams"), rh_t: text("Employee:1") },
      },
    ]);
    const [old] = await staff.range({ dept: "Old" }).all();
    assert.ok(old && is(old, Employee) && old.level === 1 && old.lastName === "Adams");
  });

  it("returns every entity that was written, whatever the mixture", async () => {
    const person = fc.record({ id: fc.nat(999), lastName: fc.string({ maxLength: 20 }) });
    await fc.assert(
      fc.asyncProperty(fc.array(person, { maxLength: 20 }), async (people) => {
        const db = connect(memory());
        await db.createTables(Staff);
        const expected = new Map<number, string>();
        for (const { id, lastName } of people.filter(({ lastName }) => lastName !== "")) {
          await db.open(Employee).upsert({ dept: "A", id, lastName, level: 1 });
          expected.set(id, lastName);
        }
        await db.open(Department).upsert({ dept: "A", employeeCount: expected.size });
        const rows = await db.open(Staff).range({ dept: "A" }).all();
        const employees = rows.flatMap((row) => (is(row, Employee) ? [row] : []));
        assert.deepEqual(new Map(employees.map(({ id, lastName }) => [id, lastName])), expected);
        assert.equal(rows.filter((row) => is(row, Department)).length, 1);
      }),
      histories(30),
    );
  });

  it("selects the type along with a projection, for the cost of a range", async () => {
    const { db } = await open();
    const { requests, entities, result } = await db.metered((metered) =>
      metered.open(Staff).range({ dept: "Sales" }).select("kind").all(),
    );
    assert.deepEqual([requests, entities], [1, 4]);
    assert.equal(result[1]?.kind, "Employee");
  });

  const foreignOf = async (db: Database): Promise<UnknownRow> => {
    const rows = await db.open(Staff).range({ dept: "Sales" }).all();
    const found = rows.find((row) => row.kind === "unknown" && row.raw.rowKey === "FOREIGN");
    assert.ok(found?.kind === "unknown");
    return found;
  };
  const two = { EmployeeCount: { type: "Int32", value: 2 } } as const;
  const merge = async (db: Database) =>
    db.open(Staff).mergeUnknown(await foreignOf(db), two, "EmployeeCount");
  const check = async (db: Database) => {
    const { raw } = await foreignOf(db);
    assert.deepEqual(raw.properties.EmployeeCount, two.EmployeeCount);
  };

  it("changes an unknown row only if it has the expected property and is unchanged", async () => {
    const { db, staff } = await open();
    const row = await foreignOf(db);
    await assert.rejects(staff.mergeUnknown(row, two, "Salary"), (error) =>
      isTableError(error, "validation-failed"),
    );
    await staff.mergeUnknown(row, two, "EmployeeCount");
    await assert.rejects(staff.mergeUnknown(row, two, "EmployeeCount"), (error) =>
      isTableError(error, "conflict"),
    );
  });

  it("survives crashes and lost answers", async () => {
    assert.equal(await crashEverywhere(merge, { before, recover: merge, check }), 4);
    assert.equal(await loseEveryAnswer(merge, { before, check }), 2);
  });

  it("refuses definitions that it could not tell apart", () => {
    const refused = (declare: () => unknown) =>
      assert.throws(declare, (error) => isTableError(error, "invalid-definition"));
    refused(() => union());
    refused(() => union(Employee, Employee));
    refused(() => union(Employee, Department.in("Elsewhere")));
    const fields = { dept: f.string(), kind: f.string() };
    refused(() =>
      union(entity("X", { version: 1, fields, key: { partition, row: [k.lit("X")] } })),
    );
  });
});
