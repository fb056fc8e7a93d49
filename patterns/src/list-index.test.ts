import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { indexLifeCycle } from "./index-life-cycle.ts";
import { repairIndex, type VerifyProgress, verifyIndex } from "./index-scrub.ts";
import { controlledIndexes } from "./index-states.ts";
import { listIndex } from "./list-index.ts";
import type { AnyEntity } from "./model/entity.ts";
import { text } from "./ports/edm.ts";
import { deleteOf, writeOver } from "./ports/mutation.ts";
import type { Layer } from "./store/layer.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { intercept } from "./testing/intercept.ts";
import { type Client, interleave } from "./testing/interleave.ts";
import { loseEveryAnswer } from "./testing/lose-every-answer.ts";
import { memory } from "./testing/memory.ts";
import { histories, schedules } from "./testing/test-histories.ts";

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
/** An id in a property, so 15 in a row and 30 in the two rows that are allowed. */
const narrow = { ...list, propertyLengthMax: 6, rowsMax: 2 } as const;
const Chained = entity("Chained", {
  version: 1,
  fields,
  key,
  indexes: { lastName: listIndex({ ...narrow, spill: "entities" }) },
});
const InBlobs = entity("InBlobs", {
  version: 1,
  fields,
  key,
  indexes: { lastName: listIndex({ ...narrow, spill: "blob", container: "lists" }) },
});
/** The same limits for the other encodings: `["000001"]` is ten characters, and four bytes are two. */
const InJson = entity("InJson", {
  version: 1,
  fields,
  key,
  indexes: {
    lastName: listIndex({ ...narrow, spill: "entities", encoding: "json", propertyLengthMax: 10 }),
  },
});
const Packed = entity("Packed", {
  version: 1,
  fields,
  key,
  indexes: {
    lastName: listIndex({
      ...narrow,
      spill: "blob",
      container: "lists",
      encoding: "packed",
      propertyLengthMax: 2,
    }),
  },
});
const jones = (id: number) => ({ dept: "Sales", id, lastName: "Jones" });
const binary = (value: string) => ({ type: "Binary", value }) as const;
const joneses = { dept: "Sales", lastName: "Jones" };

async function open() {
  const backend = memory();
  const db = connect(backend);
  await db.createTables(Employee, Spilling, Tight, Chained, InBlobs, InJson, Packed);
  await db.blobs!.createContainer("lists");
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

/** The same whatever lists are made of, and nothing is left of those that are empty. */
async function auditSpilled(
  db: Database,
  definition: typeof Spilling | typeof Chained | typeof InBlobs | typeof InJson | typeof Packed,
) {
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
  await index.collect(0);
  const prefix = `${definition.name}/`;
  const { blobs } = await db.blobs!.list("lists", { prefix });
  const named = entities.filter(({ properties }) => properties.rh_x?.value === "blob");
  assert.deepEqual(
    blobs.map(({ name }) => name),
    named.map(({ properties }) => properties.EmployeeIDs?.value).sort(),
  );
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
        histories(50),
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

  it("goes on in rows beside it, and then in a blob, where that is declared", async () => {
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

  it("holds in each row what stands between those of the others, in whatever order it grew", async () => {
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

  it("equals the entities after any history that spills to rows or a blob", async () => {
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

  it("does not take into a blob who left while it was written", async () => {
    const { backend, db } = await open();
    const lists = db.open(InBlobs);
    // A full row, and behind it one of a single member.
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

  it("is verified in the ordered layout too, which has its separator inside the list's key", async () => {
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

  it("is encoded as declared, and goes on so where it spills", async () => {
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

  it("reads lists that were encoded otherwise, and encodes them as declared with the next write", async () => {
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

  it("costs what the manual says once it is in rows or in a blob", async () => {
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

  it("is right after crashes, lost answers and any interleaving", async () => {
    const check = (db: Database) => audit(db);
    for (const operation of [insert, rename(2, "Jones"), remove]) {
      await crashEverywhere(operation, { before, check });
      await loseEveryAnswer(operation, { before, check });
    }
    const clients = { insert, rename: rename(2, "Jones"), remove };
    await interleave({ before, clients, check, runs: schedules(400) });
  });

  it("is right after crashes, lost answers and any interleaving at the edge of each spill", async () => {
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
        // The first is not listed yet, and a Smith; the second row holds what is above the middle.
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

  it("is built for entities that are there, and retired with the blobs it is in", async () => {
    const backend = memory();
    const db = connect({ ...backend, indexStates: controlledIndexes() });
    await db.tables.createTable("rhcontrol");
    await backend.blobs.createContainer("lists");
    for (const definition of [Chained, InBlobs]) {
      const Plain = entity(definition.name, { version: 1, fields, key });
      await db.createTables(Plain);
      const last = definition === Chained ? 16 : 24;
      for (let id = 1; id <= last; id++) await db.open(Plain).insert(jones(id));
      const cycle = indexLifeCycle(db, definition, "lastName");
      await cycle.disable();
      await assert.rejects(db.open(definition).by.lastName.ids(joneses), {
        code: "index-not-readable",
      });
      assert.equal((await cycle.build()).done, last);
      await auditSpilled(db, definition);
      await cycle.retire();
      const { entities } = await backend.tables.query(definition.name, {});
      assert.equal(entities.length, last);
    }
    assert.deepEqual((await backend.blobs.list("lists", {})).blobs, []);
  });

  /** What other software does: one leaves, one changes its name, one comes, ids are listed that nobody has. */
  async function damage(db: Database, { name, rows }: AnyEntity): Promise<void> {
    const at = (id: number) => rows.key({ dept: "Sales", id }, db.profile);
    const lastName = text("Smith");
    const [second] = (await db.tables.query(name, {})).entities.filter(
      ({ rowKey }) => rowKey === at(2).rowKey,
    );
    await db.tables.commit(name, [deleteOf(at(1))]);
    await db.tables.commit(name, [
      writeOver(second, at(2), { ...second!.properties, lastName }),
      { kind: "insert", ...at(90), properties: { ...second!.properties, lastName: text("Jones") } },
    ]);
    const list = { partitionKey: "Sales", rowKey: "lastName_Adams" };
    const properties = { rh_t: text(`${name}.lastName:1`), EmployeeIDs: text("000091,000003") };
    await db.tables.commit(name, [{ kind: "insert", ...list, properties }]);
  }

  it("is verified and mended, whatever lists are made of", async () => {
    for (const [definition, members] of [
      [Spilling, 5],
      [Chained, 16],
      [InBlobs, 24],
    ] as const) {
      const { backend, db } = await open();
      for (let id = 1; id <= members; id++) await db.open(definition).insert(jones(id));
      await damage(db, definition);
      backend.clock.advance(120_000);
      const verdict = async (from?: VerifyProgress) => {
        const options = from && { from };
        const { examples: _, ...counts } = await verifyIndex(db, definition, "lastName", options);
        return counts;
      };
      const wrong = { wrong: 0, duplicate: 0, young: 0 };
      const found = { ...wrong, missing: 2, dangling: 4, repairRequests: 18 };
      assert.deepEqual(await verdict(), { entities: members, entries: members + 2, ...found });
      await repairIndex(db, definition, "lastName");
      backend.clock.advance(120_000);
      const right = { ...wrong, missing: 0, dangling: 0, repairRequests: 0 };
      assert.deepEqual(await verdict(), { entities: members, entries: members, ...right });
      await auditSpilled(db, definition);
    }
  });

  it("is verified with one request more for each member, and one read of its list for all", async () => {
    const requestsFor = async (members: number) => {
      const { backend, db } = await open();
      for (let id = 1; id <= members; id++) await db.open(InBlobs).insert(jones(id));
      backend.clock.advance(120_000);
      const { requests, result } = await db.metered((metered) =>
        verifyIndex(metered, InBlobs, "lastName"),
      );
      assert.deepEqual([result.entries, result.missing], [members, 0]);
      return requests;
    };
    assert.equal((await requestsFor(34)) - (await requestsFor(24)), 10);
  });

  it("is verified from where an earlier one ended, between lists too", async () => {
    const backend = memory({ pageEntitiesMax: 2 });
    const db = connect(backend);
    await db.createTables(Employee);
    for (let id = 1; id <= 8; id++) {
      await db.open(Employee).insert({ dept: "Sales", id, lastName: `Jones${id}` });
    }
    backend.clock.advance(120_000);
    const told: string[] = [];
    const onProgress = (progress: VerifyProgress) => told.push(JSON.stringify(progress));
    const whole = await verifyIndex(db, Employee, "lastName", { onProgress });
    assert.deepEqual([whole.entities, whole.entries, whole.missing], [8, 8, 0]);
    const inLists = told
      .map((json) => JSON.parse(json))
      .filter(({ reading }) => reading === "entries");
    assert.ok(inLists.length >= 4, `${inLists.length} pages`);
    for (const from of inLists) {
      assert.deepEqual(await verifyIndex(db, Employee, "lastName", { from }), whole);
    }
  });

  it("is found right while others write", async () => {
    const clients = {
      verify: async (db: Database) => {
        const found = await verifyIndex(db, Employee, "lastName");
        assert.deepEqual([found.missing, found.wrong, found.dangling, found.young], [0, 0, 0, 0]);
      },
      rename: rename(1, "Smith"),
      remove: (db: Database) => db.open(Employee).delete({ dept: "Sales", id: 2 }),
    };
    const settled = async (db: Database) => {
      await before(db);
      await db.clock.sleep(120_000);
    };
    await interleave({ before: settled, clients, check: (db) => audit(db), runs: schedules(500) });
  });

  it("is mended where somebody deleted the blob it is in", async () => {
    const { backend, db } = await open();
    for (let id = 1; id <= 24; id++) await db.open(InBlobs).insert(jones(id));
    const [blob] = (await backend.blobs.list("lists", {})).blobs;
    await backend.blobs.delete("lists", blob!.name);
    await assert.rejects(db.open(InBlobs).by.lastName.ids(joneses), {
      code: "contention-exhausted",
    });
    backend.clock.advance(120_000);
    assert.equal((await verifyIndex(db, InBlobs, "lastName")).missing, 24);
    assert.equal((await repairIndex(db, InBlobs, "lastName")).missing, 24);
    await auditSpilled(db, InBlobs);
  });

  it("is mended beside writers, by several at a time, through crashes", async () => {
    for (const [definition, members] of [
      [Spilling, 5],
      [Chained, 16],
      [InBlobs, 24],
    ] as const) {
      const tolerant = (client: Client) => (db: Database) =>
        client(db).catch((error) => {
          if (!isTableError(error, "contention-exhausted")) throw error;
        });
      const employees = (db: Database) => db.open(definition);
      const repair = (db: Database) => repairIndex(db, definition, "lastName");
      const schedule = {
        before: async (db: Database) => {
          await db.createTables(definition);
          await db.blobs?.createContainer("lists");
          for (let id = 1; id <= members; id++) await employees(db).insert(jones(id));
          await damage(db, definition);
          await db.clock.sleep(120_000);
        },
        recover: async (db: Database) => {
          await db.clock.sleep(120_000);
          await repair(db);
        },
        check: (db: Database) => auditSpilled(db, definition),
      };
      if (definition === Spilling) await crashEverywhere(repair, schedule);
      await interleave({
        ...schedule,
        clients: {
          repair: tolerant(repair),
          another: tolerant(repair),
          // Those that the damage is about, so that a repair that is late would do harm.
          back: tolerant((db) =>
            employees(db).update({ dept: "Sales", id: 2 }, () => ({ lastName: "Jones" })),
          ),
          again: tolerant((db) => employees(db).insert(jones(1))),
          leave: tolerant((db) => employees(db).delete({ dept: "Sales", id: 90 })),
        },
        crashShare: 0.01,
        runs: schedules(definition === Spilling ? 60 : 12),
      });
    }
  });

  it("is mended in no schedule that undoes what a writer does meanwhile", async () => {
    const mend = (id: number) => (db: Database) => {
      const { keeper } = Employee.indexes.lastName.follow({
        database: db,
        entity: Employee,
        name: "lastName",
      });
      const hint = { partitionKey: "Sales", rowKey: "lastName_Jones" };
      return keeper!.reconcile(Employee.rows.key({ dept: "Sales", id }, db.profile), [hint]);
    };
    const schedule = (mended: number) => ({
      before: async (db: Database) => {
        await db.createTables(Employee);
        for (const id of [1, 2, 3]) await db.open(Employee).insert(jones(id));
        await damage(db, Employee);
      },
      // What neither of the two is about.
      recover: async (db: Database) => {
        await db.clock.sleep(120_000);
        for (const id of [1, 2, 90]) if (id !== mended) await mend(id)(db);
        await db.tables.commit("Employee", [
          deleteOf({ partitionKey: "Sales", rowKey: "lastName_Adams" }),
        ]);
      },
      check: (db: Database) => audit(db),
      runs: "all" as const,
    });
    const come = (db: Database) => db.open(Employee).insert(jones(1));
    for (const [id, writer] of [
      [1, come],
      [2, rename(2, "Jones")],
      [90, rename(90, "Smith")],
      [90, (db: Database) => db.open(Employee).delete({ dept: "Sales", id: 90 })],
    ] as const) {
      await interleave({ ...schedule(id), clients: { mend: mend(id), writer } });
    }
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
