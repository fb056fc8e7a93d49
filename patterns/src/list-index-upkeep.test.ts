import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database, entity, isTableError } from "./index.ts";
import { indexLifeCycle } from "./index-life-cycle.ts";
import { repairIndex, type VerifyProgress, verifyIndex } from "./index-scrub.ts";
import { controlledIndexes } from "./index-states.ts";
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
  open,
  rename,
} from "./lists/test-lists.ts";
import type { AnyEntity } from "./model/follower.ts";
import { text } from "./ports/edm.ts";
import { deleteOf, writeOver } from "./ports/mutation.ts";
import type { Layer } from "./store/layer.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { intercept } from "./testing/intercept.ts";
import { type Client, interleave } from "./testing/interleave.ts";
import { memory } from "./testing/memory.ts";
import { schedules } from "./testing/test-histories.ts";

describe("the upkeep of a list index", () => {
  it("builds the lists of existing entities, and deletes them with the index", async () => {
    const backend = memory();
    const db = connect({
      ...backend,
      indexStates: controlledIndexes({ unregistered: "readable" }),
    });
    await db.tables.createTable("rhcontrol");
    const Plain = entity(Chained.name, { version: 1, fields, key });
    await db.createTables(Plain);
    for (let id = 1; id <= 16; id++) await db.open(Plain).insert(jones(id));
    const cycle = indexLifeCycle(db, Chained, "lastName");
    await cycle.disable();
    await assert.rejects(db.open(Chained).by.lastName.ids(joneses), {
      code: "index-not-readable",
    });
    assert.equal((await cycle.build()).done, 16);
    await auditChained(db);
    await cycle.retire();
    assert.equal((await backend.tables.query(Chained.name, {})).entities.length, 16);
  });

  /** What other software does: an entity leaves, one changes its name, one arrives, and unknown ids are listed. */
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

  it("loses no member of a later build to a retirement that was too slow", async () => {
    const { backend, db } = await open();
    await db.tables.createTable("rhcontrol");
    for (const id of [1, 2, 3]) await db.open(Employee).insert(jones(id));
    const cycle = indexLifeCycle(db, Employee, "lastName");
    let deletes = 0;
    const slow: Layer = async ({ args }, send) => {
      if (JSON.stringify(args).includes('"kind":"delete"') && deletes++ === 0) {
        backend.clock.advance(120_000);
        await cycle.retire();
        await cycle.build();
      }
      return send();
    };
    const retiring = connect({ ...backend, ...intercept(backend, slow) });
    const retired = indexLifeCycle(retiring, Employee, "lastName").retire();
    await assert.rejects(retired, { code: "conflict" });
    backend.clock.advance(120_000);
    const { entries, missing } = await verifyIndex(db, Employee, "lastName");
    assert.deepEqual([entries, missing], [3, 0]);
  });

  it("finds and repairs every damage", async () => {
    for (const [definition, members, check] of [
      [Employee, 5, audit],
      [Chained, 16, auditChained],
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
      await check(db);
    }
  });

  it("is verified in as many requests as there are pages, however many members they have", async () => {
    const requestsFor = async (members: number) => {
      const { backend, db } = await open();
      for (let id = 1; id <= members; id++) await db.open(Chained).insert(jones(id));
      backend.clock.advance(120_000);
      const { requests, result } = await db.metered((metered) =>
        verifyIndex(metered, Chained, "lastName"),
      );
      assert.deepEqual([result.entries, result.missing], [members, 0]);
      return requests;
    };
    assert.equal(await requestsFor(22), await requestsFor(17));
  });

  it("resumes a verification from its progress, even between lists", async () => {
    const backend = memory({ pageEntitiesMax: 2 });
    const db = connect(backend);
    await db.createTables(Employee);
    for (let id = 1; id <= 8; id++) {
      await db.open(Employee).insert({ dept: "Sales", id, lastName: `Jones${id}` });
    }
    backend.clock.advance(120_000);
    const told: string[] = [];
    const onProgress = (progress: VerifyProgress) => told.push(JSON.stringify(progress));
    const whole = await verifyIndex(db, Employee, "lastName", { onProgress, held: 1 });
    assert.deepEqual([whole.entities, whole.entries, whole.missing], [8, 8, 0]);
    const inLists = told
      .map((json) => JSON.parse(json))
      .filter(({ reading }) => reading === "entries");
    assert.ok(inLists.length >= 4, `${inLists.length} pages`);
    for (const from of inLists) {
      assert.deepEqual(await verifyIndex(db, Employee, "lastName", { from }), whole);
    }
  });

  it("reports no errors while writers change the lists", async () => {
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

  it("repairs lists despite crashes and concurrent writers and repairs", async () => {
    for (const [definition, members, check] of [
      [Employee, 5, audit],
      [Chained, 16, auditChained],
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
          for (let id = 1; id <= members; id++) await employees(db).insert(jones(id));
          await damage(db, definition);
          await db.clock.sleep(120_000);
        },
        recover: async (db: Database) => {
          await db.clock.sleep(120_000);
          await repair(db);
        },
        check: async (db: Database) => void (await check(db)),
      };
      if (definition === Employee) await crashEverywhere(repair, schedule);
      await interleave({
        ...schedule,
        clients: {
          repair: tolerant(repair),
          another: tolerant(repair),
          // Changes of the damaged entities, so that a late repair would do harm.
          back: tolerant((db) =>
            employees(db).update({ dept: "Sales", id: 2 }, () => ({ lastName: "Jones" })),
          ),
          again: tolerant((db) => employees(db).insert(jones(1))),
          leave: tolerant((db) => employees(db).delete({ dept: "Sales", id: 90 })),
        },
        crashShare: 0.01,
        runs: schedules(definition === Employee ? 60 : 12),
      });
    }
  });

  it("never undoes a concurrent write, in any schedule", async () => {
    const repair = (id: number) => (db: Database) => {
      const { keeper } = Employee.indexes.lastName.follow({
        session: db,
        entity: Employee,
        name: "lastName",
      });
      const hint = { partitionKey: "Sales", rowKey: "lastName_Jones" };
      return keeper!.reconcile(Employee.rows.key({ dept: "Sales", id }, db.profile), [hint]);
    };
    const schedule = (repaired: number) => ({
      before: async (db: Database) => {
        await db.createTables(Employee);
        for (const id of [1, 2, 3]) await db.open(Employee).insert(jones(id));
        await damage(db, Employee);
      },
      // Repairs the entities that neither client touches.
      recover: async (db: Database) => {
        await db.clock.sleep(120_000);
        for (const id of [1, 2, 90]) if (id !== repaired) await repair(id)(db);
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
      await interleave({ ...schedule(id), clients: { repair: repair(id), writer } });
    }
  });
});
