import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { blobList } from "../blob-list.ts";
import type { Database } from "../database.ts";
import { connect, entity, f, k } from "../index.ts";
import { indexLifeCycle } from "../index-life-cycle.ts";
import { indexRepairs } from "../index-repairs.ts";
import { repairIndex, type VerifyProgress, verifyIndex } from "../index-scrub.ts";
import { controlledIndexes } from "../index-states.ts";
import { LEASE_MS } from "../indexes/control.ts";
import { createWorker } from "../queue-worker.ts";
import { remoteList } from "../remote-list.ts";
import type { Clock } from "../store/clock.ts";
import { histories } from "../testing/test-histories.ts";
import { intercept, type Layer, memory } from "../testing.ts";
import {
  audit,
  Employee,
  fields,
  jones,
  key,
  LENGTH_MAX,
  letWorkersFinish,
  listsIn,
  NAMES,
  open,
  Plain,
  prepareIn,
  rowOf,
  Townsman,
} from "./test-queued-lists.ts";

describe("lists maintained by a worker", () => {
  it("are completed if an entity stays in one list and moves between two others", async () => {
    const { backend, db } = await open();
    await db.createTables(Townsman);
    await db.blobs?.createContainer("towns");
    const all = db.open(Townsman);
    await all.insert({ ...jones(1), town: "Bath" });
    await all.update({ dept: "Sales", id: 1 }, () => ({ town: "York" }));
    const handlers = [indexRepairs([Townsman])];
    for (let round = 0; round < 3; round++) {
      await createWorker(db, { queue: "index-repairs", handlers }).drain();
      await db.clock.sleep(95_000);
    }
    assert.deepEqual(backend.queues.contents("index-repairs"), []);
    assert.equal((await all.by.names.keys({ lastName: "Jones" })).length, 1);
    assert.equal((await all.by.towns.keys({ town: "York" })).length, 1);
  });

  it("hold the keys of their members, one per line, in a row or a blob", async () => {
    const { backend, db, employees } = await open();
    await employees.insert(jones(309, "Jones", "Legal"));
    await employees.insert(jones(152));
    await letWorkersFinish(db);
    const row = await backend.tables.get("EmployeeByName", {
      partitionKey: "Jones",
      rowKey: "lastName_Jones",
    });
    const { rh_w: _, ...properties } = row!.properties;
    const lines = "Legal empid_000309\nSales empid_000152";
    assert.deepEqual(properties, {
      EmployeeDetails: { type: "String", value: lines },
      rh_t: { type: "String", value: "Employee.list:1" },
      rh_x: { type: "String", value: "lines\n\n" },
    });
    const blob = await backend.blobs.get("employee-lastname", "Jones");
    assert.equal(new TextDecoder().decode(blob?.body), `${lines}\n`);
  });

  it("are read in one request, and their entities in one more each", async () => {
    const { db, employees } = await open();
    for (const id of [1, 2]) await employees.insert(jones(id));
    await letWorkersFinish(db);
    for (const name of NAMES) {
      const value = { lastName: "Jones" };
      const keys = await db.metered((metered) => metered.open(Employee).by[name].keys(value));
      assert.deepEqual([keys.requests, keys.result.length], [1, 2]);
      const found = await db.metered((metered) => metered.open(Employee).by[name].get(value));
      assert.deepEqual([found.requests, found.result.map(({ id }) => id)], [3, [1, 2]]);
      assert.deepEqual(await employees.by[name].get({ lastName: "Nobody" }), []);
    }
  });

  it("cost a writer two queue requests, and none if the value stays", async () => {
    const { db, employees } = await open();
    const insert = await db.metered((metered) => metered.open(Employee).insert(jones(1)));
    assert.equal(insert.requests, 3);
    const change = await db.metered((metered) =>
      metered.open(Employee).update({ dept: "Sales", id: 1 }, () => ({ age: 1 })),
    );
    assert.equal(change.requests, 2);
    await employees.delete({ dept: "Sales", id: 1 });
  });

  it("continue in more rows, and shrink until no row is left", async () => {
    const { backend, db, employees } = await open();
    const rows = async () => (await backend.tables.query("EmployeeByName", {})).entities.length;
    const ids = [5, 3, 9, 1, 7, 2, 8, 4, 6];
    for (const id of ids) await employees.insert(jones(id));
    await letWorkersFinish(db);
    await audit(db, backend);
    assert.ok((await rows()) >= 5);
    const keys = await employees.by.list.keys({ lastName: "Jones" });
    assert.deepEqual(
      keys.map(({ rowKey }) => Number(rowKey.slice(6))),
      ids.toSorted(),
    );
    for (const id of ids.toReversed()) {
      await employees.delete({ dept: "Sales", id });
      await letWorkersFinish(db, 1);
    }
    assert.equal(await rows(), 0);
    await audit(db, backend);
  });

  it("continue in rows that all fit, even if some keys are many times longer than others", async () => {
    const Named = entity("Named", {
      version: 1,
      fields: { team: f.string(), dept: f.string(), id: f.string() },
      key: { partition: [k.str("dept")], row: [k.lit("n"), k.str("id")] },
      indexes: {
        team: remoteList({
          table: "NamedByTeam",
          partition: [k.str("team")],
          row: [k.lit("team")],
          property: "Members",
        }),
      },
    });
    const { db } = await open();
    await db.createTables(Named);
    const named = db.open(Named);
    for (const [dept, rest] of [
      ["a", ""],
      ["b".repeat(500), "x".repeat(500)],
    ] as const) {
      for (let i = 10; i < 43; i++) await named.insert({ team: "red", dept, id: i + rest });
    }
    await createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Named])] }).drain();
    assert.equal((await named.by.team.keys({ team: "red" })).length, 66);
    const { entities } = await db.tables.query("NamedByTeam", {});
    assert.equal(entities.length, 2);
  });

  it("are read completely while a worker with a slow clock splits the rows still to be read", async () => {
    const backend = memory({ pageEntitiesMax: 1 });
    const db = connect(backend);
    await prepareIn(db);
    const add = async (id: number) => {
      await db.open(Employee).insert(jones(id));
      await letWorkersFinish(db);
    };
    for (let id = 10; id <= 80; id += 10) await add(id);
    const clock: Clock = {
      now: () => backend.clock.now() - 3_600_000,
      sleep: (ms) => backend.clock.sleep(ms),
      alarm: (ms, signal) => backend.clock.alarm(ms, signal),
    };
    const slow = connect({ ...backend, clock });
    let pages = 0;
    const halving: Layer = async ({ method, args }, send) => {
      const page = await send();
      if (method !== "query" || args[0] !== "EmployeeByName" || ++pages !== 2) return page;
      for (let id = 31; id <= 81; id += 10) {
        await db.open(Employee).insert(jones(id));
        await letWorkersFinish(slow);
      }
      return page;
    };
    const reader = connect({ ...backend, ...intercept(backend, halving) });
    const keys = await reader.open(Employee).by.list.keys({ lastName: "Jones" });
    const found = keys.map(({ rowKey }) => Number(rowKey.slice(-6)));
    assert.ok(pages > 4);
    assert.deepEqual(
      found.filter((id) => id % 10 === 0),
      [10, 20, 30, 40, 50, 60, 70, 80],
    );
  });

  it("keep the members of their first row when the last member of another row leaves", async () => {
    const { backend, db, employees } = await open();
    for (const id of [1, 2, 3]) await employees.insert(jones(id));
    await letWorkersFinish(db);
    assert.equal((await backend.tables.query("EmployeeByName", {})).entities.length, 2);
    for (const id of [3, 2]) {
      await employees.delete({ dept: "Sales", id });
      await letWorkersFinish(db);
      await audit(db, backend);
    }
    assert.equal((await backend.tables.query("EmployeeByName", {})).entities.length, 1);
  });

  it("match the entities after any history", async () => {
    const command = fc.tuple(
      fc.constantFrom("put", "put", "delete"),
      fc.integer({ min: 1, max: 6 }),
      fc.constantFrom("Jones", 'Jones"', "Jo_nes", undefined),
      fc.boolean(),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 24 }), async (commands) => {
        const { backend, db, employees } = await open();
        const exact = async () => {
          for (const name of NAMES) {
            const found = await employees.by[name].get({ lastName: 'Jones"' });
            const all = await db.open(Plain).scan().all({ allow: "table-scan", because: "test" });
            const theirs = all.filter(({ lastName }) => lastName === 'Jones"');
            assert.deepEqual(found.map(({ id }) => id).sort(), theirs.map(({ id }) => id).sort());
          }
        };
        for (const [verb, id, lastName, letsWork] of commands) {
          if (verb === "delete") await employees.delete({ dept: "Sales", id });
          else await employees.upsert(jones(id, lastName));
          if (letsWork) await letWorkersFinish(db, 1);
        }
        await letWorkersFinish(db);
        await exact();
        const decoded = await listsIn(backend, "blobs");
        const rows = await listsIn(backend, "list");
        const sorted = (lists: Map<string, string[]>) => Array.from(lists.values(), String).sort();
        assert.deepEqual(sorted(rows), sorted(decoded));
      }),
      histories(50),
    );
  });

  it("leave out a member that was deleted, and have it repaired", async () => {
    const { backend, db, employees } = await open();
    for (const id of [1, 2]) await employees.insert(jones(id));
    await letWorkersFinish(db);
    await db.open(Plain).delete({ dept: "Sales", id: 1 });
    for (const name of NAMES) {
      const found = await employees.by[name].get({ lastName: "Jones" });
      assert.deepEqual(
        found.map(({ id }) => id),
        [2],
      );
    }
    await letWorkersFinish(db);
    await audit(db, backend);
  });

  it("are built for existing entities", async () => {
    const backend = memory();
    const db = connect({
      ...backend,
      indexStates: controlledIndexes({ unregistered: "readable" }),
    });
    await prepareIn(db);
    await db.tables.createTable("rhcontrol");
    for (let id = 1; id <= 5; id++) await db.open(Plain).insert(jones(id));
    for (const name of NAMES) {
      const cycle = indexLifeCycle(db, Employee, name);
      await cycle.disable();
      // Until then a client may use the state it has read when it provisioned the table.
      await db.clock.sleep(LEASE_MS);
      await assert.rejects(db.open(Employee).by[name].get({ lastName: "Jones" }), {
        code: "index-not-readable",
      });
      assert.equal((await cycle.build()).done, 5);
    }
    await audit(db, backend);
  });

  it("lose no member of a later build to a retirement that was too slow", async () => {
    for (const name of NAMES) {
      const backend = memory();
      const db = connect({
        ...backend,
        indexStates: controlledIndexes({ unregistered: "readable" }),
      });
      await prepareIn(db);
      await db.tables.createTable("rhcontrol");
      for (const id of [1, 2, 3]) await db.open(Employee).insert(jones(id));
      await letWorkersFinish(db);
      const cycle = indexLifeCycle(db, Employee, name);
      let deletes = 0;
      const slow: Layer = async ({ method, args }, send) => {
        const isDelete = method === "delete" || JSON.stringify(args).includes('"kind":"delete"');
        if (isDelete && deletes++ === 0) {
          backend.clock.advance(120_000);
          await cycle.retire();
          await cycle.build();
        }
        return send();
      };
      const retiring = connect({ ...backend, ...intercept(backend, slow) });
      await assert.rejects(indexLifeCycle(retiring, Employee, name).retire(), { code: "conflict" });
      await audit(db, backend);
    }
  });

  it("are verified in as many requests as there are pages, however many members they have", async () => {
    for (const name of NAMES) {
      const requestsFor = async (members: number) => {
        const { db, employees } = await open();
        for (let id = 1; id <= members; id++) await employees.insert(jones(id));
        await letWorkersFinish(db);
        const { requests, result } = await db.metered((metered) =>
          verifyIndex(metered, Employee, name),
        );
        assert.deepEqual([result.entries, result.missing], [members, 0]);
        return requests;
      };
      assert.equal(await requestsFor(5), await requestsFor(3), name);
    }
  });

  it("are checked again if the entity changed while a worker wrote them", async () => {
    const { backend, db, employees } = await open();
    const drain = (db: Database) =>
      createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Employee])] }).drain();
    for (const port of ["tables", "blobs"]) {
      await employees.upsert(jones(1));
      let moves = 0;
      const moving: Layer = async (call, send) => {
        const isWrite = call.method === "commit" || call.method === "put";
        // The worker that handles the move finds the entity not yet in the list.
        if (isWrite && call.port === port && moves++ === 0) {
          await employees.update({ dept: "Sales", id: 1 }, () => ({ lastName: "Smith" }));
          await drain(db);
        }
        return send();
      };
      await drain(connect({ ...backend, ...intercept(backend, moving) }));
      assert.notEqual(moves, 0);
      await audit(db, backend);
    }
  });

  it("gain no member from a message that names lists the entity does not belong in", async () => {
    const { backend, db, employees } = await open();
    await employees.insert(jones(1, "Smith"));
    for (const name of NAMES) {
      const { keeper } = Employee.indexes[name].follow({ session: db, entity: Employee, name });
      const base = { partitionKey: "Sales", rowKey: "empid_000001" };
      assert.equal(await keeper?.reconcile(base, keeper.keysOf(jones(1, "Jones"))), "done");
      assert.deepEqual(await listsIn(backend, name), new Map());
    }
    await letWorkersFinish(db);
    await audit(db, backend);
  });

  it("stay separate if they have the same row key in different partitions", async () => {
    const members = remoteList({
      table: "EmployeeByName",
      partition: [k.str("lastName")],
      row: [k.lit("members")],
      property: "EmployeeDetails",
      lengthMax: LENGTH_MAX,
    });
    const Listed = entity("Employee", { version: 1, fields, key, indexes: { members } });
    const { db } = await open();
    const all = db.open(Listed);
    for (let id = 1; id <= 8; id++) await all.insert(jones(id, id % 2 === 0 ? "Jones" : "Smith"));
    await createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Listed])] }).drain();
    for (const lastName of ["Jones", "Smith"]) {
      assert.equal((await all.by.members.keys({ lastName })).length, 4);
    }
  });

  it("are verified from the progress of an earlier verification, even between lists", async () => {
    const backend = memory({ pageEntitiesMax: 2 });
    const db = connect(backend);
    await prepareIn(db);
    for (let id = 1; id <= 6; id++) await db.open(Employee).insert(jones(id, `Jones${id}`));
    await letWorkersFinish(db);
    const told: string[] = [];
    const onProgress = (progress: VerifyProgress) => told.push(JSON.stringify(progress));
    const whole = await verifyIndex(db, Employee, "list", { onProgress, held: 1 });
    assert.deepEqual([whole.entities, whole.entries, whole.missing], [6, 6, 0]);
    const inLists = told
      .map((json) => JSON.parse(json))
      .filter(({ reading }) => reading === "entries");
    assert.ok(inLists.length >= 3, `${inLists.length} pages`);
    for (const from of inLists) {
      assert.deepEqual(await verifyIndex(db, Employee, "list", { from }), whole);
    }
  });

  it("lose a deleted member even if another worker moves it to another row meanwhile", async () => {
    const { backend, db, employees } = await open();
    for (const id of [1, 2, 3, 4]) await employees.insert(jones(id));
    await letWorkersFinish(db);
    const drain = (db: Database) =>
      createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Employee])] }).drain();
    await employees.delete({ dept: "Sales", id: 4 });
    let moves = 0;
    const moving: Layer = async ({ method, args: [table, key] }, send) => {
      const isFurtherRow = method === "get" && table === "EmployeeByName" && /"p/.test(rowOf(key));
      if (isFurtherRow && moves++ === 0) {
        await employees.insert(jones(5));
        await drain(db);
      }
      return send();
    };
    await drain(connect({ ...backend, ...intercept(backend, moving) }));
    assert.notEqual(moves, 0);
    await audit(db, backend);
  });

  it("share a container without touching the blobs of others", async () => {
    const container = "employee-lastname";
    const indexes = {
      names: blobList({ container, name: [k.lit("names"), k.str("lastName")] }),
      depts: blobList({ container, name: [k.lit("depts"), k.str("dept")] }),
    };
    const Sharing = entity("Employee", { version: 1, fields, key, indexes });
    const { backend, db } = await open();
    const all = db.open(Sharing);
    for (const id of [1, 2]) await all.insert(jones(id));
    await createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Sharing])] }).drain();
    assert.equal((await verifyIndex(db, Sharing, "names")).entries, 2);
    await db.tables.createTable("rhcontrol");
    await indexLifeCycle(db, Sharing, "names").retire();
    const { blobs } = await backend.blobs.list(container, {});
    assert.deepEqual(
      blobs.map(({ name }) => name),
      ["depts_Sales"],
    );
    assert.equal((await all.by.depts.keys({ dept: "Sales" })).length, 2);
  });

  it("are deleted with their index even if a worker changes one just before", async () => {
    for (const name of NAMES) {
      const { backend, db, employees } = await open();
      await db.tables.createTable("rhcontrol");
      await employees.insert(jones(1));
      await letWorkersFinish(db);
      let changes = 0;
      const changing: Layer = async ({ port, method, args }, send) => {
        const isDelete =
          port === "blobs" ? method === "delete" : JSON.stringify(args[1])?.includes('"delete"');
        if (isDelete && changes++ === 0) {
          await employees.insert(jones(2));
          await letWorkersFinish(db);
        }
        return send();
      };
      const retiring = connect({ ...backend, ...intercept(backend, changing) });
      await indexLifeCycle(retiring, Employee, name).retire();
      assert.ok(changes > 0, name);
      assert.equal((await listsIn(backend, name)).size, 0, name);
    }
  });

  it("leave foreign rows in their table when they are retired", async () => {
    const names = remoteList({
      partition: [k.lit("names")],
      row: [k.lit("lastName"), k.str("lastName")],
      property: "Members",
      lengthMax: LENGTH_MAX,
    });
    const Beside = entity("Person", {
      version: 1,
      fields,
      key: { partition: [k.lit("people"), k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
      indexes: { names },
    });
    const { backend, db } = await open();
    await db.createTables(Beside);
    const people = db.open(Beside);
    for (const id of [1, 2, 3]) await people.insert(jones(id));
    await createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Beside])] }).drain();
    assert.equal((await people.by.names.get({ lastName: "Jones" })).length, 3);
    assert.ok((await backend.tables.query("Person", {})).entities.length > 4);
    await db.tables.createTable("rhcontrol");
    await indexLifeCycle(db, Beside, "names").retire();
    const { entities } = await backend.tables.query("Person", {});
    assert.deepEqual(
      entities.map(({ rowKey }) => rowKey),
      ["empid_000001", "empid_000002", "empid_000003"],
    );
  });

  it("are verified, repaired and retired", async () => {
    const { backend, db, employees } = await open();
    for (let id = 1; id <= 5; id++) await employees.insert(jones(id));
    await letWorkersFinish(db);
    // Other software: one employee leaves, one changes its name, one arrives.
    const plain = db.open(Plain);
    await plain.delete({ dept: "Sales", id: 1 });
    await plain.update({ dept: "Sales", id: 2 }, () => ({ lastName: "Smith" }));
    await plain.insert(jones(6));
    for (const name of NAMES) {
      const verdict = async () => {
        const { missing, wrong, dangling, duplicate, young } = await verifyIndex(
          db,
          Employee,
          name,
        );
        return { missing, wrong, dangling, duplicate, young };
      };
      const found = await verdict();
      assert.deepEqual(found, { missing: 2, wrong: 0, dangling: 2, duplicate: 0, young: 0 });
      await repairIndex(db, Employee, name);
      await db.clock.sleep(120_000);
      const after = await verdict();
      assert.deepEqual(after, { missing: 0, wrong: 0, dangling: 0, duplicate: 0, young: 0 });
    }
    await audit(db, backend);
    await db.tables.createTable("rhcontrol");
    for (const name of NAMES) {
      await indexLifeCycle(db, Employee, name).retire();
      assert.equal((await listsIn(backend, name)).size, 0);
    }
  });
});
