import assert from "node:assert/strict";
import { connect, type Database, entity, f, k } from "../index.ts";
import { listIndex } from "../list-index.ts";
import { memory } from "../testing/memory.ts";

export const fields = {
  dept: f.string(),
  id: f.int32(),
  lastName: f.string(),
  age: f.int32().optional(),
};
export const key = { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] } as const;
export const list = {
  row: [k.lit("lastName"), k.str("lastName")],
  property: "EmployeeIDs",
} as const;
export const Employee = entity("Employee", {
  version: 1,
  fields,
  key,
  indexes: { lastName: listIndex(list) },
});
/** Three ids of six digits in a row. */
export const Tight = entity("Tight", {
  version: 1,
  fields,
  key,
  indexes: { lastName: listIndex({ ...list, propertyLengthMax: 20 }) },
});
/** 15 ids in a row, and so at most 30 in the two rows that are allowed. */
export const narrow = { ...list, spill: "entities", propertyLengthMax: 104, rowsMax: 2 } as const;
export const Chained = entity("Chained", {
  version: 1,
  fields,
  key,
  indexes: { lastName: listIndex(narrow) },
});
export const jones = (id: number) => ({ dept: "Sales", id, lastName: "Jones" });
export const joneses = { dept: "Sales", lastName: "Jones" };

export async function open() {
  const backend = memory();
  const db = connect(backend);
  await db.createTables(Employee, Tight, Chained);
  return { backend, db, employees: db.open(Employee) };
}

/** Every list holds exactly the ids of the entities with its value. */
export async function audit(db: Database, table = "Employee"): Promise<Map<string, string>> {
  const { entities } = await db.tables.query(table, {});
  const expected = new Map<string, string[]>();
  const lists = new Map<string, string[]>();
  for (const { rowKey, properties } of entities) {
    if (rowKey.startsWith("empid_")) {
      const list = `lastName_${properties.lastName?.value}`;
      expected.set(list, [...(expected.get(list) ?? []), rowKey.slice(6)]);
    } else {
      lists.set(rowKey, String(properties.EmployeeIDs?.value).split(","));
    }
  }
  assert.deepEqual(lists, expected);
  return new Map(Array.from(lists, ([name, ids]) => [name, ids.join()]));
}

/** The same for lists of several rows; nothing is left of empty lists. */
export async function auditChained(db: Database) {
  const definition = Chained;
  const { entities } = await db.tables.query(definition.name, {});
  const expected = new Map<string, string[]>();
  for (const { rowKey, properties } of entities) {
    if (!rowKey.startsWith("empid_")) continue;
    const lastName = String(properties.lastName?.value);
    expected.set(lastName, [...(expected.get(lastName) ?? []), rowKey.slice(6)]);
  }
  const { lastName: index } = db.open(definition).by;
  for (const lastName of ["Jones", "Smith"]) {
    const rows = entities.filter(({ rowKey }) => rowKey.startsWith(`lastName_${lastName}`));
    const members = expected.get(lastName) ?? [];
    assert.deepEqual(await index.ids({ dept: "Sales", lastName }), members);
    if (members.length === 0) assert.deepEqual(rows, []);
  }
}

/** Two employees, for changes to them. */
export const before = async (db: Database) => {
  await db.createTables(Employee);
  await db.open(Employee).insert(jones(1));
  await db.open(Employee).insert({ ...jones(2), lastName: "Smith" });
};

export const rename = (id: number, lastName: string) => (db: Database) =>
  db.open(Employee).update({ dept: "Sales", id }, () => ({ lastName }));
