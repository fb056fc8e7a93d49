import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { verifyIndex } from "./index-scrub.ts";
import { listIndex } from "./list-index.ts";
import {
  audit,
  auditSpilled,
  before,
  binary,
  Chained,
  Employee,
  fields,
  InBlobs,
  InJson,
  jones,
  joneses,
  key,
  list,
  narrow,
  open,
  Packed,
  rename,
  Spilling,
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

  it("matches the entities after any history, spilling or not", async () => {
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
        histories(50),
      );
    }
  });

  it("continues in more properties if that is declared, and refuses the write otherwise", async () => {
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

  it("continues in more rows, and then in a blob, if that is declared", async () => {
    const { backend, db } = await open();
    const events: string[] = [];
    const telling = connect({ ...backend, onEvent: ({ kind }) => events.push(kind) });
    const [chained, inBlobs] = [db.open(Chained), telling.open(InBlobs)];
    const fill = async (last: number) => {
      for (let id = 1; id <= last; id++) {
        await chained.upsert(jones(id));
        await inBlobs.upsert(jones(id));
      }
      for (const definition of [Chained, InBlobs]) await auditSpilled(db, definition);
    };
    const lists = async (table: string) => {
      const { entities } = await backend.tables.query(table, {});
      return entities.filter(({ rowKey }) => rowKey.startsWith("lastName_"));
    };
    await fill(15);
    assert.equal((await lists("InBlobs")).length, 1);
    await fill(16);
    const [first, second, ...others] = await lists("InBlobs");
    assert.deepEqual([first?.rowKey, second?.rowKey], ["lastName_Jones", "lastName_Jones!0001"]);
    assert.equal(first?.properties.EmployeeIDs_07?.value, "000008");
    assert.equal(second?.properties.EmployeeIDs_00?.value, "000009");
    assert.deepEqual(others, []);
    await fill(23);
    assert.deepEqual(events, []);
    await inBlobs.insert(jones(24));
    assert.deepEqual(events, ["list in blob"]);
    const [row, ...rest] = await lists("InBlobs");
    const { EmployeeIDs, rh_x } = row!.properties;
    assert.match(
      String(EmployeeIDs?.value),
      /^InBlobs\/Sales\/lastName_Jones\/lastName\/[0-9A-Z]{26}$/,
    );
    assert.deepEqual([rh_x?.value, rest], ["blob", []]);
    await assert.rejects(chained.insert(jones(24)), { code: "entity-too-large" });
    assert.equal(await chained.get({ dept: "Sales", id: 24 }), undefined);
    assert.equal((await inBlobs.by.lastName.get(joneses)).length, 24);
    for (let id = 24; id >= 1; id--) {
      await inBlobs.delete({ dept: "Sales", id });
      await chained.delete({ dept: "Sales", id });
      for (const definition of [Chained, InBlobs]) await auditSpilled(db, definition);
    }
    assert.deepEqual(events, ["list in blob"]);
  });

  it("does not continue in a row whose key would be too long", async () => {
    const { db } = await open();
    // The row key of the list fits; that of a further row is five characters longer.
    const long = { dept: "Sales", lastName: "J".repeat(512 - "lastName_".length - 4) };
    for (const [definition, more] of [
      [Chained, false],
      [InBlobs, true],
    ] as const) {
      const employees = db.open(definition);
      for (let id = 1; id <= 15; id++) await employees.insert({ ...long, id });
      const { requests, result } = await db.metered((metered) =>
        metered
          .open(definition)
          .insert({ ...long, id: 16 })
          .then(
            () => true,
            (error) => !isTableError(error, "key-too-long"),
          ),
      );
      assert.equal(result, more);
      // A refused write has only read.
      if (!more) assert.equal(requests, 1);
      assert.equal((await employees.by.lastName.ids(long)).length, more ? 16 : 15);
    }
  });

  it("holds a separate range of ids in each row, in whatever order it grew", async () => {
    const Long = entity("Employee", {
      version: 1,
      fields,
      key,
      indexes: {
        lastName: listIndex({ ...list, spill: "entities", propertyLengthMax: 6 }),
      },
    });
    const { backend, db } = await open();
    const ids = Array.from({ length: 60 }, (_, i) => (i * 37) % 61);
    for (const id of ids) await db.open(Long).insert(jones(id));
    const { entities } = await backend.tables.query("Employee", {});
    const held = entities
      .filter(({ rowKey }) => rowKey.startsWith("lastName_"))
      .map(({ properties }) =>
        Object.entries(properties)
          .filter(([name]) => name.startsWith("EmployeeIDs"))
          .map(([, { value }]) => Number(value))
          .sort((a, b) => a - b),
      )
      .sort(([a = 0], [b = 0]) => a - b);
    assert.ok(held.length > 4);
    assert.deepEqual(
      held.flat(),
      ids.toSorted((a, b) => a - b),
    );
  });

  it("matches the entities after any history that spills to rows or a blob", async () => {
    const names = fc.constantFrom("Jones", "Jones", "Jones", "Smith");
    const phase = (...kinds: ("put" | "delete")[]) =>
      fc.array(fc.tuple(fc.constantFrom(...kinds), fc.integer({ min: 1, max: 40 }), names), {
        minLength: 60,
        maxLength: 90,
      });
    const history = fc.tuple(phase("put"), phase("put", "delete", "delete", "delete"));
    for (const definition of [Chained, InBlobs, InJson, Packed]) {
      await fc.assert(
        fc.asyncProperty(history, async (phases) => {
          const { db } = await open();
          const employees = db.open(definition);
          for (const commands of phases) {
            for (const [kind, id, lastName] of commands) {
              const write =
                kind === "put"
                  ? employees.upsert({ dept: "Sales", id, lastName })
                  : employees.delete({ dept: "Sales", id });
              await write.catch((error) => assert.equal(error.code, "entity-too-large"));
            }
            await auditSpilled(db, definition);
          }
        }),
        histories(15),
      );
    }
  });

  it("does not copy into a blob a member that is deleted while the blob is written", async () => {
    const { backend, db } = await open();
    const lists = db.open(InBlobs);
    // A full row, followed by one with a single member.
    for (let id = 101; id <= 116; id++) await lists.insert(jones(id));
    for (let id = 110; id <= 116; id++) await lists.delete({ dept: "Sales", id });
    for (let id = 1; id <= 7; id++) await lists.insert(jones(id));
    let isBegun = false;
    const layer: Layer = async ({ method }, send) => {
      if (method === "commit" && !isBegun) {
        isBegun = true;
        await lists.delete({ dept: "Sales", id: 109 });
      }
      return send();
    };
    await connect({ ...backend, ...intercept(backend, layer) })
      .open(InBlobs)
      .insert(jones(8));
    await auditSpilled(db, InBlobs);
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
          propertyLengthMax: 6,
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

  it("is encoded as declared, also where it spills", async () => {
    const { backend, db } = await open();
    const stored = async (table: string, rowKey: string) =>
      (await backend.tables.get(table, { partitionKey: "Sales", rowKey }))!.properties;
    for (const [definition, one, of16] of [
      [InJson, text('["000001"]'), text('["000016"]')],
      [Packed, binary("AAAAAQ=="), binary("AAAAEA==")],
    ] as const) {
      const { name } = definition;
      await db.open(definition).insert(jones(1));
      const { EmployeeIDs, rh_x } = await stored(name, "lastName_Jones");
      assert.deepEqual([EmployeeIDs, rh_x?.value], [one, name === "InJson" ? "json" : "packed"]);
      for (let id = 2; id <= 16; id++) await db.open(definition).insert(jones(id));
      assert.deepEqual((await stored(name, "lastName_Jones!0001")).EmployeeIDs_07, of16);
      await auditSpilled(db, definition);
    }
  });

  it("reads lists in another encoding, and re-encodes them with the next write", async () => {
    const { backend, db } = await open();
    const list = { partitionKey: "Sales", rowKey: "lastName_Jones" };
    const properties = { EmployeeIDs: text("000002,000003"), rh_x: text("csv") };
    await backend.tables.commit("Packed", [{ kind: "insert", ...list, properties }]);
    const { lastName } = db.open(Packed).by;
    assert.deepEqual(await lastName.ids(joneses), ["000002", "000003"]);
    await db.open(Packed).insert(jones(1));
    assert.deepEqual(await lastName.ids(joneses), ["000001", "000002", "000003"]);
    const { rh_x, EmployeeIDs_02 } = (await backend.tables.get("Packed", list))!.properties;
    assert.deepEqual([rh_x?.value, EmployeeIDs_02], ["packed", binary("AAAAAw==")]);
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

  it("costs the requests that the manual states once it is in rows or a blob", async () => {
    const { db } = await open();
    for (const [definition, members, ids, insert] of [
      [Chained, 20, [1, 2], [2, 4]],
      [InBlobs, 24, [2, 1], [5, 3]],
    ] as const) {
      for (let id = 1; id <= members; id++) await db.open(definition).insert(jones(id));
      const cost = async (work: (db: Database) => Promise<unknown>) => {
        const { requests, entities } = await db.metered(work);
        return [requests, entities];
      };
      assert.deepEqual(await cost((db) => db.open(definition).by.lastName.ids(joneses)), ids);
      // The rows read, the row written and the entity.
      assert.deepEqual(await cost((db) => db.open(definition).insert(jones(30))), insert);
    }
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

  it("survives crashes, lost answers and any interleaving at the edge of each spill", async () => {
    for (const [definition, members] of [
      [Chained, 15],
      [Chained, 16],
      [InBlobs, 23],
      [InBlobs, 24],
    ] as const) {
      const before = async (db: Database) => {
        await db.createTables(definition);
        await db.blobs!.createContainer("lists");
        const employees = db.open(definition);
        // The first is a Smith and not listed yet; the second row holds the upper half.
        await employees.insert({ ...jones(1), lastName: "Smith" });
        for (let id = 2; id <= members + 1; id++) await employees.insert(jones(id));
      };
      const check = (db: Database) => auditSpilled(db, definition);
      const add = (db: Database) => db.open(definition).insert(jones(50));
      const join = (db: Database) =>
        db.open(definition).update({ dept: "Sales", id: 1 }, () => ({ lastName: "Jones" }));
      const leave = (db: Database) => db.open(definition).delete({ dept: "Sales", id: 10 });
      for (const operation of [add, join, leave]) {
        await crashEverywhere(operation, { before, check });
        await loseEveryAnswer(operation, { before, check });
      }
      await interleave({ before, clients: { add, join, leave }, check, runs: schedules(60) });
    }
  });

  describe("whose rows span several pages", () => {
    const Rows = entity("InBlobs", {
      version: 1,
      fields,
      key,
      indexes: { lastName: listIndex({ ...narrow, spill: "entities", rowsMax: 3 }) },
    });

    /**
     * Two rows, the first of which was filled from above; it gets one more member before the second page is
     * requested.
     */
    async function between(definition: typeof InBlobs) {
      const backend = memory({ pageEntitiesMax: 1 });
      const db = connect(backend);
      await db.createTables(definition);
      await backend.blobs.createContainer("lists");
      for (let id = 23; id > 0; id--) await db.open(definition).insert(jones(id));
      let queries = 0;
      const insertBeforeSecondPage: Layer = async ({ method }, send) => {
        if (method === "query" && ++queries === 2) await db.open(definition).insert(jones(0));
        return send();
      };
      return connect({ ...backend, ...intercept(backend, insertBeforeSecondPage) }).open(
        definition,
      );
    }
    const ids = (count: number) =>
      Array.from({ length: count }, (_, id) => String(id).padStart(6, "0"));

    it("is read completely if it moves to a blob between two pages", async () => {
      const employees = await between(InBlobs);
      assert.deepEqual(await employees.by.lastName.ids(joneses), ids(24));
    });

    it("drops a member that is deleted while it moves to a blob", async () => {
      const employees = await between(InBlobs);
      await employees.delete({ dept: "Sales", id: 23 });
      assert.deepEqual(await employees.by.lastName.ids(joneses), ids(23));
    });

    it("returns each member once if a row is split between two pages", async () => {
      const employees = await between(Rows);
      // The new member was not there yet when its row was read.
      assert.deepEqual(await employees.by.lastName.ids(joneses), ids(24).slice(1));
    });
  });

  it("refuses to read or extend a list in a blob if no container is declared", async () => {
    const { db } = await open();
    for (let id = 1; id <= 31; id++) await db.open(InBlobs).insert(jones(id));
    const InRows = entity("InBlobs", {
      version: 1,
      fields,
      key,
      indexes: { lastName: listIndex({ ...narrow, spill: "entities" }) },
    });
    const isRefused = (error: unknown) => isTableError(error, "validation-failed");
    await assert.rejects(db.open(InRows).by.lastName.ids(joneses), isRefused);
    await assert.rejects(db.open(InRows).insert(jones(32)), isRefused);
    assert.equal((await db.open(InBlobs).by.lastName.ids(joneses)).length, 31);
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
      entity("X3X", {
        version: 1,
        fields,
        key,
        indexes: { list: listIndex({ ...list, spill: "blob" }) },
      }),
    );
    refused(() =>
      entity("X4X", {
        version: 1,
        fields,
        key,
        indexes: { list: listIndex({ ...list, rowsMax: 17 }) },
      }),
    );
    refused(() =>
      entity("X5X", {
        version: 1,
        fields: { ...fields, guid: f.guid() },
        key: { partition: [k.str("dept")], row: [k.lit("empid"), k.guid("guid")] },
        indexes: { list: listIndex({ ...list, encoding: "packed" }) },
      }),
    );
    const byName = { partition: [k.str("dept")], row: [k.lit("n"), k.str("lastName")] } as const;
    refused(() =>
      entity("X2X", { version: 1, fields, key: byName, indexes: { list: listIndex(list) } }),
    );
  });
});
