import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { verifyIndex } from "./index-scrub.ts";
import { listIndex } from "./list-index.ts";
import {
  audit,
  auditChained,
  before,
  Chained,
  Employee,
  fields,
  jones,
  joneses,
  key,
  list,
  narrow,
  open,
  rename,
  Tight,
} from "./lists/test-lists.ts";
import { text } from "./ports/edm.ts";
import { deleteOf } from "./ports/mutation.ts";
import type { Layer } from "./store/layer.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { intercept } from "./testing/intercept.ts";
import { interleave } from "./testing/interleave.ts";
import { memory } from "./testing/memory.ts";
import { histories, schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";

describe("a list index", () => {
  it("lists the ids for a value in a row of the same partition", async () => {
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

  it("matches the entities after any history", async () => {
    const command = fc.tuple(
      fc.constantFrom("put", "delete", "age"),
      fc.integer({ min: 1, max: 6 }),
      fc.constantFrom("Jones", "Smith", "Adams"),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 30 }), async (commands) => {
        const { db, employees } = await open();
        for (const [kind, id, lastName] of commands) {
          const key = { dept: "Sales", id };
          if (kind === "put") await employees.upsert({ ...key, lastName });
          else if (kind === "delete") await employees.delete(key);
          else await employees.update(key, () => ({ age: id })).catch(() => undefined);
        }
        await audit(db);
      }),
      histories(50),
    );
  });

  it("refuses a member that its row has no room for", async () => {
    const { db } = await open();
    const tight = db.open(Tight);
    for (let id = 1; id <= 3; id++) await tight.insert(jones(id));
    await assert.rejects(tight.insert(jones(4)), { code: "entity-too-large" });
    assert.equal(await tight.get({ dept: "Sales", id: 4 }), undefined);
    await audit(db, "Tight");
  });

  it("continues in more rows if that is declared", async () => {
    const { backend, db } = await open();
    const chained = db.open(Chained);
    const fill = async (last: number) => {
      for (let id = 1; id <= last; id++) await chained.upsert(jones(id));
      await auditChained(db);
      const { entities } = await backend.tables.query("Chained", {});
      return entities
        .filter(({ rowKey }) => rowKey.startsWith("lastName_"))
        .map(({ rowKey, properties }) => `${rowKey}: ${properties.EmployeeIDs?.value}`);
    };
    assert.equal((await fill(15)).length, 1);
    const [first, second, ...others] = await fill(16);
    assert.match(first!, /^lastName_Jones: 000001,.*,000008$/);
    assert.match(second!, /^lastName_Jones!0001: 000009,.*,000016$/);
    assert.deepEqual(others, []);
    await fill(23);
    await assert.rejects(chained.insert(jones(24)), { code: "entity-too-large" });
    assert.equal(await chained.get({ dept: "Sales", id: 24 }), undefined);
    for (let id = 23; id >= 1; id--) {
      await chained.delete({ dept: "Sales", id });
      await auditChained(db);
    }
  });

  it("does not continue in a row whose key would be too long", async () => {
    const { db } = await open();
    // The row key of the list fits; that of a further row is five characters longer.
    const long = { dept: "Sales", lastName: "J".repeat(512 - "lastName_".length - 4) };
    const employees = db.open(Chained);
    for (let id = 1; id <= 15; id++) await employees.insert({ ...long, id });
    const { requests } = await db.metered((metered) =>
      assert.rejects(metered.open(Chained).insert({ ...long, id: 16 }), { code: "key-too-long" }),
    );
    // A refused write has only read.
    assert.equal(requests, 1);
    assert.equal((await employees.by.lastName.ids(long)).length, 15);
  });

  it("holds a separate range of ids in each row, in whatever order it grew", async () => {
    const Long = entity("Employee", {
      version: 1,
      fields,
      key,
      indexes: {
        lastName: listIndex({ ...list, spill: "entities", propertyLengthMax: 104 }),
      },
    });
    const { backend, db } = await open();
    const ids = Array.from({ length: 60 }, (_, i) => (i * 37) % 61);
    for (const id of ids) await db.open(Long).insert(jones(id));
    const { entities } = await backend.tables.query("Employee", {});
    const held = entities
      .filter(({ rowKey }) => rowKey.startsWith("lastName_"))
      .map(({ properties }) => String(properties.EmployeeIDs?.value).split(",").map(Number))
      .sort(([a = 0], [b = 0]) => a - b);
    assert.ok(held.length > 4);
    assert.deepEqual(
      held.flat(),
      ids.toSorted((a, b) => a - b),
    );
  });

  it("matches the entities after any history that spills to rows", async () => {
    const names = fc.constantFrom("Jones", "Jones", "Jones", "Smith");
    const phase = (...kinds: ("put" | "delete")[]) =>
      fc.array(fc.tuple(fc.constantFrom(...kinds), fc.integer({ min: 1, max: 40 }), names), {
        minLength: 60,
        maxLength: 90,
      });
    const history = fc.tuple(phase("put"), phase("put", "delete", "delete", "delete"));
    await fc.assert(
      fc.asyncProperty(history, async (phases) => {
        const { db } = await open();
        const employees = db.open(Chained);
        for (const commands of phases) {
          for (const [kind, id, lastName] of commands) {
            const write =
              kind === "put"
                ? employees.upsert({ dept: "Sales", id, lastName })
                : employees.delete({ dept: "Sales", id });
            await write.catch((error) => assert.equal(error.code, "entity-too-large"));
          }
          await auditChained(db);
        }
      }),
      histories(30),
    );
  });

  it("is verified correctly in the ordered layout, whose separator occurs in the key of the list", async () => {
    const Settler = entity("Settler", {
      version: 1,
      fields: { ...fields, town: f.string() },
      key,
      indexes: {
        home: listIndex({
          row: [k.lit("home"), k.str("town"), k.str("lastName")],
          property: "IDs",
          spill: "entities",
          propertyLengthMax: 34,
        }),
      },
    });
    const db = connect(memory());
    await db.createTables(Settler);
    for (let id = 1; id <= 20; id++) await db.open(Settler).insert({ ...jones(id), town: "Bath" });
    const verified = async () => {
      const { missing, dangling, duplicate } = await verifyIndex(db, Settler, "home");
      return [missing, dangling, duplicate];
    };
    assert.deepEqual(await verified(), [0, 0, 0]);
    for (const rowKey of ["empid_000001", "empid_000020"]) {
      await db.tables.commit("Settler", [deleteOf({ partitionKey: "Sales", rowKey })]);
    }
    assert.deepEqual(await verified(), [0, 2, 0]);
  });

  it("refuses to read or change a list in a form that only former versions knew", async () => {
    const { backend, db } = await open();
    const list = { partitionKey: "Sales", rowKey: "lastName_Jones" };
    const former = [
      { EmployeeIDs: text("[2,3]"), rh_x: text("json") },
      { EmployeeIDs_00: text("000002"), EmployeeIDs_01: text("000003"), rh_x: text("csv") },
    ];
    for (const properties of former) {
      await backend.tables.commit("Employee", [{ kind: "insertOrReplace", ...list, properties }]);
      await assert.rejects(db.open(Employee).by.lastName.ids(joneses), /build it again/);
      await assert.rejects(db.open(Employee).insert(jones(1)), { code: "validation-failed" });
    }
  });

  it("leaves ids that other software listed wrongly out of results, and reconcile lists an entity it inserted", async () => {
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

  const insert = (db: Database) => db.open(Employee).insert(jones(3));
  const remove = (db: Database) => db.open(Employee).delete({ dept: "Sales", id: 1 });

  it("costs the requests that the manual states", async () => {
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

  it("costs the requests that the manual states once it is in several rows", async () => {
    const { db } = await open();
    for (let id = 1; id <= 20; id++) await db.open(Chained).insert(jones(id));
    const cost = async (work: (db: Database) => Promise<unknown>) => {
      const { requests, entities } = await db.metered(work);
      return [requests, entities];
    };
    assert.deepEqual(await cost((db) => db.open(Chained).by.lastName.ids(joneses)), [1, 2]);
    // The rows read, the row written and the entity.
    assert.deepEqual(await cost((db) => db.open(Chained).insert(jones(30))), [2, 4]);
  });

  it("survives crashes, lost answers and any interleaving", async () => {
    const check = (db: Database) => audit(db);
    for (const operation of [insert, rename(2, "Jones"), remove]) {
      await crashEverywhere(operation, { before, check });
      await loseEveryAnswer(operation, { before, check });
    }
    const clients = { insert, rename: rename(2, "Jones"), remove };
    await interleave({ before, clients, check, runs: schedules(400) });
  });

  it("survives crashes, lost answers and any interleaving when a row is full", async () => {
    for (const members of [15, 16]) {
      const before = async (db: Database) => {
        await db.createTables(Chained);
        const employees = db.open(Chained);
        // The first is a Smith and not listed yet; the second row holds the upper half.
        await employees.insert({ ...jones(1), lastName: "Smith" });
        for (let id = 2; id <= members + 1; id++) await employees.insert(jones(id));
      };
      const check = auditChained;
      const add = (db: Database) => db.open(Chained).insert(jones(50));
      const join = (db: Database) =>
        db.open(Chained).update({ dept: "Sales", id: 1 }, () => ({ lastName: "Jones" }));
      const leave = (db: Database) => db.open(Chained).delete({ dept: "Sales", id: 10 });
      for (const operation of [add, join, leave]) {
        await crashEverywhere(operation, { before, check });
        await loseEveryAnswer(operation, { before, check });
      }
      await interleave({ before, clients: { add, join, leave }, check, runs: schedules(60) });
    }
  });

  it("returns each member once if a row is split between two pages", async () => {
    const Rows = entity("Chained", {
      version: 1,
      fields,
      key,
      indexes: { lastName: listIndex({ ...narrow, rowsMax: 3 }) },
    });
    const backend = memory({ pageEntitiesMax: 1 });
    const db = connect(backend);
    await db.createTables(Rows);
    // Two rows, the first of which is full: filled from above, it is split before the second page is requested.
    for (let id = 23; id > 0; id--) await db.open(Rows).insert(jones(id));
    let queries = 0;
    const insertBeforeSecondPage: Layer = async ({ method }, send) => {
      if (method === "query" && ++queries === 2) await db.open(Rows).insert(jones(0));
      return send();
    };
    const { lastName } = connect({
      ...backend,
      ...intercept(backend, insertBeforeSecondPage),
    }).open(Rows).by;
    // The new member was not there yet when its row was read.
    const ids = Array.from({ length: 23 }, (_, id) => String(id + 1).padStart(6, "0"));
    assert.deepEqual(await lastName.ids(joneses), ids);
  });

  it("refuses definitions whose lists would be ambiguous, unreadable or too large", () => {
    const refused = (declare: () => unknown) =>
      assert.throws(declare, (error) => isTableError(error, "invalid-definition"));
    const declare = (
      row: typeof list.row | readonly [ReturnType<typeof k.lit>],
      property: string,
    ) =>
      entity("X1X", { version: 1, fields, key, indexes: { list: listIndex({ row, property }) } });
    refused(() => declare([k.lit("empid")], "Ids"));
    refused(() => declare(list.row, "Employee IDs"));
    refused(() =>
      entity("X4X", {
        version: 1,
        fields,
        key,
        indexes: { list: listIndex({ ...list, rowsMax: 17 }) },
      }),
    );
    const byName = { partition: [k.str("dept")], row: [k.lit("n"), k.str("lastName")] } as const;
    refused(() =>
      entity("X2X", { version: 1, fields, key: byName, indexes: { list: listIndex(list) } }),
    );
  });
});
