import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { listIndex } from "./list-index.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { interleave } from "./testing/interleave.ts";
import { loseEveryAnswer } from "./testing/lose-every-answer.ts";
import { memory } from "./testing/memory.ts";

const fields = { dept: f.string(), id: f.int32(), lastName: f.string(), age: f.int32().optional() };
const key = { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] } as const;
const list = { row: [k.lit("lastName"), k.str("lastName")], property: "EmployeeIDs" } as const;
const Employee = entity("Employee", {
  version: 1,
  fields,
  key,
  indexes: { lastName: listIndex(list) },
});
/** Three ids of six digits in a property. */
const Spilling = entity("Spilling", {
  version: 1,
  fields,
  key,
  indexes: { lastName: listIndex({ ...list, spill: "properties", propertyLengthMax: 20 }) },
});
const Tight = entity("Tight", {
  version: 1,
  fields,
  key,
  indexes: { lastName: listIndex({ ...list, propertyLengthMax: 20 }) },
});
const jones = (id: number) => ({ dept: "Sales", id, lastName: "Jones" });
const joneses = { dept: "Sales", lastName: "Jones" };

async function open() {
  const backend = memory();
  const db = connect(backend);
  await db.createTables(Employee, Spilling, Tight);
  return { backend, db, employees: db.open(Employee) };
}

/** Every list holds exactly the ids of the entities with its value. */
async function audit(db: Database, table = "Employee"): Promise<Map<string, string>> {
  const { entities } = await db.tables.query(table, {});
  const expected = new Map<string, string[]>();
  const lists = new Map<string, string[]>();
  for (const { rowKey, properties } of entities) {
    if (rowKey.startsWith("empid_")) {
      const list = `lastName_${properties.lastName?.value}`;
      expected.set(list, [...(expected.get(list) ?? []), rowKey.slice(6)]);
    } else {
      const parts = Object.entries(properties).filter(([name]) => name.startsWith("EmployeeIDs"));
      lists.set(
        rowKey,
        parts
          .map(([, { value }]) => String(value))
          .join()
          .split(","),
      );
    }
  }
  assert.deepEqual(lists, expected);
  return new Map(Array.from(lists, ([name, ids]) => [name, ids.join()]));
}

describe("a list index", () => {
  it("lists the ids of a value in a row of the same partition", async () => {
    const { backend, db, employees } = await open();
    for (const id of [223, 152]) await employees.insert(jones(id));
    const stored = await backend.tables.get("Employee", {
      partitionKey: "Sales",
      rowKey: "lastName_Jones",
    });
    const { rh_w: _, ...properties } = stored!.properties;
    assert.deepEqual(properties, {
      EmployeeIDs: { type: "String", value: "000152,000223" },
      rh_t: { type: "String", value: "Employee.lastName:1" },
      rh_x: { type: "String", value: "csv" },
    });
    assert.deepEqual(await employees.by.lastName.ids(joneses), ["000152", "000223"]);
    const { requests, entities, result } = await db.metered((metered) =>
      metered.open(Employee).by.lastName.get(joneses),
    );
    assert.deepEqual([requests, entities], [3, 3]);
    assert.deepEqual(
      result.map(({ id }) => id),
      [152, 223],
    );
  });

  it("equals the entities after any history, spilling or not", async () => {
    const command = fc.tuple(
      fc.constantFrom("put", "delete", "age"),
      fc.integer({ min: 1, max: 6 }),
      fc.constantFrom("Jones", "Smith", "Adams"),
    );
    for (const definition of [Employee, Spilling]) {
      await fc.assert(
        fc.asyncProperty(fc.array(command, { maxLength: 30 }), async (commands) => {
          const { db } = await open();
          const employees = db.open(definition);
          for (const [kind, id, lastName] of commands) {
            const key = { dept: "Sales", id };
            if (kind === "put") await employees.upsert({ ...key, lastName });
            else if (kind === "delete") await employees.delete(key);
            else await employees.update(key, () => ({ age: id })).catch(() => undefined);
          }
          await audit(db, definition.name);
        }),
        { numRuns: 50 },
      );
    }
  });

  it("goes on in more properties where that is declared, and is refused otherwise", async () => {
    const { backend, db } = await open();
    const [spilling, tight] = [db.open(Spilling), db.open(Tight)];
    for (let id = 1; id <= 3; id++) {
      await spilling.insert(jones(id));
      await tight.insert(jones(id));
    }
    const stored = async () =>
      (await backend.tables.get("Spilling", { partitionKey: "Sales", rowKey: "lastName_Jones" }))!
        .properties;
    assert.equal((await stored()).EmployeeIDs?.value, "000001,000002,000003");
    await spilling.insert(jones(4));
    assert.equal((await stored()).EmployeeIDs_00?.value, "000001,000002,000003");
    assert.equal((await stored()).EmployeeIDs_01?.value, "000004");
    assert.equal((await stored()).EmployeeIDs, undefined);
    await assert.rejects(tight.insert(jones(4)), (error) =>
      isTableError(error, "entity-too-large"),
    );
    assert.equal(await tight.get({ dept: "Sales", id: 4 }), undefined);
    for (let id = 5; id <= 45; id++) await spilling.insert(jones(id));
    await assert.rejects(spilling.insert(jones(46)), (error) =>
      isTableError(error, "entity-too-large"),
    );
    await audit(db, "Spilling");
  });

  it("drops on read what other software listed wrongly, and lists what it inserted", async () => {
    const { db, employees } = await open();
    await employees.insert(jones(1));
    const at = (rowKey: string) => ({ partitionKey: "Sales", rowKey });
    const value = (value: string) => ({ type: "String", value }) as const;
    await db.tables.commit("Employee", [
      {
        kind: "merge",
        ...at("lastName_Jones"),
        ifMatch: "*",
        properties: { EmployeeIDs: value("000001,000099") },
      },
      { kind: "insert", ...at("empid_000002"), properties: { lastName: value("Smith") } },
    ]);
    assert.deepEqual(
      (await employees.by.lastName.get(joneses)).map(({ id }) => id),
      [1],
    );
    await employees.reconcile({ dept: "Sales", id: 2 });
    assert.deepEqual(await employees.by.lastName.ids({ dept: "Sales", lastName: "Smith" }), [
      "000002",
    ]);
  });

  const before = async (db: Database) => {
    await db.createTables(Employee);
    await db.open(Employee).insert(jones(1));
    await db.open(Employee).insert({ ...jones(2), lastName: "Smith" });
  };
  const rename = (id: number, lastName: string) => (db: Database) =>
    db.open(Employee).update({ dept: "Sales", id }, () => ({ lastName }));
  const insert = (db: Database) => db.open(Employee).insert(jones(3));
  const remove = (db: Database) => db.open(Employee).delete({ dept: "Sales", id: 1 });

  it("costs what the manual says", async () => {
    const { db } = await open();
    await before(db);
    const cost = async (work: (db: Database) => Promise<unknown>) =>
      (await db.metered(work)).requests;
    assert.equal(await cost(insert), 2);
    assert.equal(await cost(rename(3, "Smith")), 4);
    assert.equal(
      await cost((db) => db.open(Employee).update({ dept: "Sales", id: 3 }, () => ({ age: 1 }))),
      2,
    );
  });

  it("is right after crashes, lost answers and any interleaving", async () => {
    const check = (db: Database) => audit(db);
    for (const operation of [insert, rename(2, "Jones"), remove]) {
      await crashEverywhere(operation, { before, check });
      await loseEveryAnswer(operation, { before, check });
    }
    const clients = { insert, rename: rename(2, "Jones"), remove };
    await interleave({ before, clients, check, runs: 200 });
  });

  it("refuses definitions whose lists could not be told apart or parsed", () => {
    const refused = (declare: () => unknown) =>
      assert.throws(declare, (error) => isTableError(error, "invalid-definition"));
    const declare = (
      row: typeof list.row | readonly [ReturnType<typeof k.lit>],
      property: string,
    ) =>
      entity("X1X", { version: 1, fields, key, indexes: { list: listIndex({ row, property }) } });
    refused(() => declare([k.lit("empid")], "Ids"));
    refused(() => declare(list.row, "Employee IDs"));
    const byName = { partition: [k.str("dept")], row: [k.lit("n"), k.str("lastName")] } as const;
    refused(() =>
      entity("X2X", { version: 1, fields, key: byName, indexes: { list: listIndex(list) } }),
    );
  });
});
