import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import type { Database } from "./database.ts";
import { connect, entity, f, isTableError, k } from "./index.ts";
import { indexRepairs } from "./index-repairs.ts";
import { controlledIndexes } from "./index-states.ts";
import { keepsRows } from "./model/follower.ts";
import { isRefusal, PortError } from "./ports/port-error.ts";
import { createWorker } from "./queue-worker.ts";
import { remoteIndex, type WriteMode } from "./remote-index.ts";
import { siblingIndex } from "./sibling-index.ts";
import { histories } from "./testing/test-histories.ts";
import {
  crashEverywhere,
  intercept,
  type Layer,
  type Memory,
  memory,
  withFaults,
} from "./testing.ts";

const employee = (mode: WriteMode) =>
  entity("Employee", {
    version: 1,
    fields: {
      dept: f.string(),
      id: f.int32(),
      email: f.string(),
      town: f.string(),
      age: f.int32().optional(),
    },
    key: { partition: [k.lit("empid"), k.str("dept")], row: [k.uint("id", 6)] },
    indexes: {
      email: remoteIndex({
        table: "EmployeeByEmail",
        partition: [k.hash("email", 16)],
        row: [k.str("email")],
        unique: true,
        copy: "keys",
        mode: mode === "queued" ? "guarded" : mode,
      }),
      town: remoteIndex({
        partition: [k.lit("town"), k.str("town")],
        row: k.ordered(k.str("dept"), k.uint("id", 6)),
        copy: ["age"],
        when: (row) => row.town !== "nowhere",
        mode,
      }),
    },
  });
const Employee = employee("guarded");
type Employee = typeof Employee.infer;

const jones: Employee = {
  dept: "Sales",
  id: 223,
  email: "jonesj@contoso.com",
  town: "Bonn",
  age: 40,
};
const key = { dept: "Sales", id: 223 };
const MINUTE = 60_000;

async function open(definition = Employee, backend = memory()) {
  const db = connect(backend);
  await db.createTables(definition);
  await backend.queues.createQueue("index-repairs");
  return { backend, db, employees: db.open(definition) };
}

/** Runs workers now and then until no message is left. */
async function letWorkersFinish(
  db: Database,
  backend: Memory,
  definition = Employee,
): Promise<void> {
  const worker = createWorker(db, {
    queue: "index-repairs",
    handlers: [indexRepairs([definition])],
  });
  await worker.createQueues();
  for (let round = 0; backend.queues.contents("index-repairs").length > 0; round++) {
    assert.ok(round < 20, "the queue does not empty");
    backend.clock.advance(45_000);
    await worker.drain();
  }
  assert.deepEqual(await worker.peekPoison(), []);
}

describe("a remote index", () => {
  it("stores entries in other partitions and tables, under the documented keys", async () => {
    const { backend, employees } = await open();
    await employees.insert(jones);
    assert.deepEqual(await keysOf(backend), [
      "Employee empid_Sales 000223",
      "Employee town_Bonn Sales!000223",
      "EmployeeByEmail 06 jonesj@contoso.com",
    ]);
    const entry = await backend.tables.get("Employee", {
      partitionKey: "town_Bonn",
      rowKey: "Sales!000223",
    });
    const { rh_w: _token, ...properties } = entry!.properties;
    assert.deepEqual(properties, {
      age: { type: "Int32", value: 40 },
      basePK: { type: "String", value: "empid_Sales" },
      baseRK: { type: "String", value: "000223" },
      rh_t: { type: "String", value: "Employee.town:1" },
    });
  });

  it("finalizes and deletes entries in the writer, even in mode inline", async () => {
    const inline = employee("inline");
    const { backend, employees } = await open(inline);
    await employees.insert(jones);
    backend.clock.advance(MINUTE);
    await employees.update(key, () => ({ town: "Oslo" }));
    const town = (partitionKey: string) =>
      backend.tables.get("Employee", { partitionKey, rowKey: "Sales!000223" });
    assert.equal(await town("town_Bonn"), undefined);
    assert.deepEqual((await town("town_Oslo"))?.properties.age, { type: "Int32", value: 40 });
  });

  it("leaves its message to a worker if the writer keeps losing races for an entry", async () => {
    const { backend, db } = await open();
    const losing: Layer = (call, send) => {
      const isFinish = JSON.stringify(call.args).includes('"kind":"replace"');
      if (!isFinish) return send();
      throw new PortError("changed", { status: 412, code: "UpdateConditionNotSatisfied" });
    };
    const racing = connect({ ...backend, ...intercept(backend, losing) });
    await racing.open(Employee).insert(jones);
    assert.equal(backend.queues.contents("index-repairs").length, 1);
    await letWorkersFinish(db, backend);
    const town = { partitionKey: "town_Bonn", rowKey: "Sales!000223" };
    const entry = await backend.tables.get("Employee", town);
    assert.deepEqual(entry?.properties.age, { type: "Int32", value: 40 });
  });

  it("stamps no entry after the message that guards it may have fired", async () => {
    const { backend, db } = await open();
    await backend.tables.createTable("rhcontrol");
    let crash: () => void = () => {};
    const crashed = new Promise<void>((resolve) => {
      crash = resolve;
    });
    let states = 0;
    const slow: Layer = async ({ method, args }, send) => {
      if (args[0] === "rhcontrol" && ++states === 2) {
        // Reading the state of the second index takes long, and the message of the first one is handled
        // meanwhile.
        while (backend.queues.contents("index-repairs").length === 0) await nextTurn();
        backend.clock.advance(2 * MINUTE);
        await letWorkersFinish(db, backend);
      }
      const answer = await send();
      if (method !== "commit" || !JSON.stringify(args).includes("town_Bonn")) return answer;
      crash();
      return new Promise(() => {});
    };
    const ports = intercept(backend, slow);
    const writer = connect({
      ...backend,
      ...ports,
      indexStates: controlledIndexes({ unregistered: "readable" }),
    });
    await Promise.race([writer.open(Employee).insert(jones), crashed]);
    await letWorkersFinish(db, backend);
    assert.deepEqual(await keysOf(backend), []);
  });

  it("returns fields of the entry's key without reading the base", async () => {
    const { db, employees } = await open();
    await employees.insert(jones);
    const eventual = { consistency: "eventual" } as const;
    const { requests, result } = await db.metered((metered) =>
      metered.open(Employee).by.town.range({ town: "Bonn" }, eventual).select("town", "dept").all(),
    );
    assert.equal(requests, 1);
    assert.deepEqual(
      result.map(({ town, dept }) => [town, dept]),
      [["Bonn", "Sales"]],
    );
  });

  it("finds entities by value across partitions, verified or from copies, at the documented cost", async () => {
    const { db, employees } = await open();
    await employees.insert(jones);
    const email = { email: "jonesj@contoso.com" };
    const point = await db.metered((metered) => metered.open(Employee).by.email.get(email));
    assert.deepEqual([point.requests, point.result?.id], [2, 223]);
    const eventual = { consistency: "eventual" } as const;
    const copies = await db.metered((metered) =>
      metered.open(Employee).by.town.range({ town: "Bonn" }, eventual).select("age", "id").all(),
    );
    assert.deepEqual([copies.requests, copies.result[0]?.age, copies.result[0]?.id], [1, 40, 223]);
    assert.equal((await employees.by.town.range({ town: "Bonn" }).all()).length, 1);
    assert.equal(
      employees.by.town.range({ town: "Bonn" }).explain().requests,
      "⌈rows/1000⌉ + 1 × rows",
    );
    assert.throws(
      () => employees.by.email.range({ email: "x" }, eventual),
      (error) => isTableError(error, "validation-failed"),
    );
  });

  it("leaves out foreign rows among its entries", async () => {
    const { backend, employees } = await open();
    await employees.insert(jones);
    const properties = { rh_t: { type: "String", value: "Employee.town:1" } } as const;
    const foreign = { partitionKey: "town_Bonn", rowKey: "Sales!000999", properties };
    await backend.tables.commit("Employee", [{ kind: "insert", ...foreign }]);
    for (const consistency of ["verify", "eventual"] as const) {
      const found = await employees.by.town.range({ town: "Bonn" }, { consistency }).all();
      assert.deepEqual(
        found.map(({ id }) => id),
        [223],
      );
    }
  });

  it("costs the promised requests, and none if neither the value nor the copies change", async () => {
    const { backend, db, employees } = await open();
    const insert = await db.metered((metered) => metered.open(Employee).insert(jones));
    // Message, two claims, commit, one finalise (the other entry copies nothing), message deleted.
    assert.equal(insert.requests, 6);
    backend.clock.advance(2 * MINUTE);
    const move = await db.metered((metered) =>
      metered.open(Employee).update(key, () => ({ town: "Köln" })),
    );
    // Read, message, old entry, claim, commit, finalise, delete, message deleted.
    assert.equal(move.requests, 8);
    const copied = await db.metered((metered) =>
      metered.open(Employee).update(key, () => ({ age: 41 })),
    );
    // Read, message, kept entry, commit, finalise, message deleted.
    assert.equal(copied.requests, 6);
    const none = await db.metered((metered) => metered.open(Employee).update(key, () => ({})));
    assert.equal(none.requests, 2);
    assert.equal((await employees.by.town.range({ town: "Köln" }).all())[0]?.age, 41);
    assert.equal(backend.queues.contents("index-repairs").length, 0);
  });

  it("deletes a settled old entry immediately, and leaves a young one to the worker", async () => {
    const { backend, db, employees } = await open();
    await employees.insert(jones);
    await employees.update(key, () => ({ town: "Köln" }));
    assert.equal((await keysOf(backend)).length, 4);
    assert.deepEqual(await employees.by.town.range({ town: "Bonn" }).all(), []);
    await letWorkersFinish(db, backend);
    assert.equal((await keysOf(backend)).length, 3);
    backend.clock.advance(2 * MINUTE);
    await employees.delete(key);
    assert.deepEqual(await keysOf(backend), []);
  });

  it("keeps a value unique across partitions and names its owner", async () => {
    const { backend, employees } = await open();
    await employees.insert(jones);
    await assert.rejects(employees.insert({ ...jones, dept: "R&D" }), (error) => {
      assert.ok(isTableError(error, "unique-violation"));
      assert.deepEqual([error.index, error.owner], ["email", { dept: "Sales", id: 223 }]);
      assert.ok(isRefusal(error.cause, 409));
      return true;
    });
    await employees.update(key, () => ({ email: "other" }));
    // The entry that was just given up may still carry a claim.
    await assert.rejects(employees.insert({ ...jones, dept: "R&D" }), (error) => {
      assert.ok(isTableError(error, "contention-exhausted"));
      assert.match(error.message, /was given up, .* It can be taken from \d{4}-.*Z on: until then/);
      return true;
    });
    // The entity that gave it up may take it back at once.
    await employees.update(key, () => ({ email: jones.email }));
    await employees.update(key, () => ({ email: "other" }));
    backend.clock.advance(2 * MINUTE);
    await employees.insert({ ...jones, dept: "R&D" });
    assert.equal((await employees.by.email.get({ email: jones.email }))?.dept, "R&D");
  });

  it("matches the index computed from the entities after any sequence of writes", async () => {
    const command = fc.record({
      verb: fc.constantFrom("insert", "update", "upsert", "delete"),
      dept: fc.constantFrom("A", "B!_"),
      id: fc.integer({ min: 1, max: 2 }),
      email: fc.constantFrom("x", "y/z", "é"),
      town: fc.constantFrom("Bonn", "Bo_nn", "nowhere"),
      age: fc.option(fc.constantFrom(1, 2), { nil: undefined }),
      waits: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 8 }), async (commands) => {
        const { backend, db, employees } = await open();
        const model = new Map<string, Employee>();
        for (const { verb, waits, age, ...rest } of commands) {
          if (waits) backend.clock.advance(2 * MINUTE);
          const value: Employee = { ...rest, ...(age !== undefined && { age }) };
          const id = `${value.dept}/${value.id}`;
          try {
            if (verb === "insert") await employees.insert(value);
            if (verb === "update") await employees.update(value, () => ({ ...rest, age }));
            if (verb === "upsert") await employees.upsert(value);
            if (verb === "delete") await employees.delete(value);
            if (verb === "delete") model.delete(id);
            else model.set(id, value);
          } catch (error) {
            if (!isTableError(error)) throw error;
            const others = [...model].filter(([other]) => other !== id);
            const isTaken = others.some(([, { email }]) => email === value.email);
            if (error.code === "not-found") assert.ok(!model.has(id));
            else if (error.code === "contention-exhausted") assert.ok(!isTaken);
            else assert.ok(isTaken || model.has(id), error.message);
          }
        }
        await letWorkersFinish(db, backend);
        const expected = [...model.values()].flatMap((entity) => expectedKeys(db, entity)).sort();
        assert.deepEqual(await keysOf(backend), expected);
        for (const town of ["Bonn", "Bo_nn"]) {
          const found = await employees.by.town.range({ town }, { consistency: "eventual" }).all();
          const matching = [...model.values()].filter((entity) => entity.town === town);
          assert.deepEqual(
            found.map(({ age }) => age).sort(),
            matching.map(({ age }) => age).sort(),
          );
        }
      }),
      histories(100),
    );
  });

  it("commits nothing after a wait that outlasts its claim", async () => {
    const { backend } = await open();
    let slow: Promise<unknown> | undefined;
    const layer: Layer = async ({ method, args }, send) => {
      const answer = await send();
      // As soon as a value is claimed, another request takes the only slot for longer than claims settle.
      if (method === "commit")
        slow ??= db.tables.get("Employee", { partitionKey: "a", rowKey: "slow" });
      if (!JSON.stringify(args).includes("slow")) return answer;
      // By then the commit waits for the slot.
      await nextTurn();
      backend.clock.advance(2 * MINUTE);
      return answer;
    };
    const ports = { ...backend, ...intercept(backend, layer) };
    const db = connect({ ...ports, limit: { account: 1 } });
    await assert.rejects(db.open(Employee).insert(jones), { code: "throttled" });
    await slow;
    assert.equal(await db.open(Employee).get(key), undefined);
  });

  for (const mode of ["guarded", "inline", "queued"] as const) {
    it(`survives a crash at every request of every write (${mode})`, async () => {
      const definition = employee(mode);
      const writes: ((db: Database) => Promise<unknown>)[] = [
        (db) => db.open(definition).insert({ ...jones, id: 9, email: "nine" }),
        (db) => db.open(definition).update(key, () => ({ town: "Köln", email: "new", age: 41 })),
        (db) => db.open(definition).update(key, () => ({ age: 42 })),
        (db) => db.open(definition).delete(key),
      ];
      for (const write of writes) {
        await crashEverywhere(write, {
          before: async (db) => {
            await db.createTables(definition);
            await Promise.all(
              ["index-repairs", "index-repairs-poison"].map((name) => db.queues?.createQueue(name)),
            );
            await db.open(definition).insert(jones);
            await db.clock.sleep(2 * MINUTE);
          },
          check: async (db, backend) => {
            const permit = { allow: "table-scan", because: "test" } as const;
            const entities = await db.open(definition).scan().all(permit);
            const { employees } = await open(definition, backend);
            for (const { email, id } of mode === "queued" ? [] : entities) {
              assert.equal((await employees.by.email.get({ email }))?.id, id);
            }
            await letWorkersFinish(db, backend, definition);
            if (mode === "inline") await scrub(db, backend, definition);
            const expected = entities.flatMap((entity) => expectedKeys(db, entity)).sort();
            assert.deepEqual(await keysOf(backend), expected);
          },
        });
      }
    });
  }

  it("survives lost and duplicated requests at every position of every write", async () => {
    const writes: ((db: Database) => Promise<unknown>)[] = [
      (db) => db.open(Employee).insert({ ...jones, id: 9, email: "nine" }),
      (db) => db.open(Employee).update(key, ({ age = 0 }) => ({ town: "Köln", age: age + 1 })),
      (db) => db.open(Employee).delete(key),
    ];
    for (const kind of ["lose answer", "duplicate"] as const) {
      for (const write of writes) {
        for (let at = 1; at <= 10; at++) {
          const { backend, db, employees } = await open();
          await employees.insert(jones);
          backend.clock.advance(2 * MINUTE);
          const faults = withFaults((_call, count) => (count === at ? { kind } : undefined));
          const faulty = connect({ ...backend, ...intercept(backend, faults) });
          await write(faulty).catch((error) => {
            // When a request arrives twice, the second answer is a refusal, and the library knows of only one
            // attempt.
            assert.ok(kind === "duplicate" && isTableError(error), String(error));
          });
          await letWorkersFinish(db, backend);
          const permit = { allow: "table-scan", because: "test" } as const;
          const entities = await db.open(Employee).scan().all(permit);
          await scrub(db, backend, Employee);
          const expected = entities.flatMap((entity) => expectedKeys(db, entity)).sort();
          assert.deepEqual(await keysOf(backend), expected, `${kind} ${at}`);
        }
      }
    }
  });

  it("writes no entity if its message cannot be sent, or writes inline if declared so", async () => {
    const modes = ["guarded", "queued"] as const;
    const choices = modes.flatMap((mode) =>
      (["fail", "inline"] as const).map((withoutQueue) => ({ mode, withoutQueue })),
    );
    for (const { mode, withoutQueue } of choices) {
      const definition = entity("Thing", {
        version: 1,
        fields: { id: f.int32(), name: f.string() },
        key: { partition: [k.lit("t"), k.uint("id", 4)], row: [k.lit("row")] },
        indexes: {
          name: remoteIndex({
            partition: [k.lit("n")],
            row: [k.str("name"), k.uint("id", 4)],
            mode,
            withoutQueue,
          }),
        },
      });
      const events: string[] = [];
      const backend = memory();
      const db = connect({ ...backend, onEvent: ({ kind }) => events.push(kind) });
      await db.createTables(definition);
      const insert = db.open(definition).insert({ id: 1, name: "a" });
      if (withoutQueue === "fail") await assert.rejects(insert, { code: "QueueNotFound" });
      else await insert;
      const { entities } = await backend.tables.query("Thing", {});
      const written = entities.map(({ rowKey, properties }) =>
        "rh_s" in properties ? `${rowKey} pending` : rowKey,
      );
      assert.deepEqual(written, withoutQueue === "fail" ? [] : ["a_0001", "row"]);
      assert.deepEqual(events, withoutQueue === "fail" ? [] : ["left behind"]);
    }
  });

  it("is refused if it is declared wrongly", () => {
    type Options = Parameters<typeof remoteIndex>[0];
    const declare = (options: Options, others = {}) =>
      entity("Thing", {
        version: 1,
        fields: { p: f.string(), id: f.int32(), name: f.string() },
        key: { partition: [k.lit("p"), k.str("p")], row: [k.lit("id"), k.uint("id", 4)] },
        indexes: { name: remoteIndex(options), ...others },
      });
    const refused = (run: () => unknown, text: RegExp) =>
      assert.throws(
        run,
        (error) => isTableError(error, "invalid-definition") && text.test(error.message),
      );
    const own = { table: "ThingByName", partition: [k.hash("name", 4)], row: [k.str("name")] };
    refused(() => declare(own), /add "p", "id" to its key/);
    refused(() => declare({ ...own, unique: true, mode: "queued" }), /claimed before the commit/);
    refused(() => declare({ ...own, unique: true, timing: { settleMs: 5 } }), /deadlineMs </);
    refused(() => declare({ ...own, unique: true, table: "x" }), /illegal table name/);
    const here = { partition: [k.str("name")], row: [k.lit("id"), k.uint("id", 4)], unique: true };
    refused(() => declare(here), /may collide/);
    refused(
      () =>
        declare(
          { partition: [k.str("name")], row: [k.lit("n")], unique: true },
          { sibling: siblingIndex({ row: [k.lit("n"), k.str("name")], unique: true }) },
        ),
      /may collide/,
    );
    declare({ ...own, unique: true });
  });
});

/** Does what a scrub does for an index without tripwires: checks every entry against its base. */
async function scrub(db: Database, backend: Memory, definition: typeof Employee): Promise<void> {
  backend.clock.advance(2 * MINUTE);
  for (const [name, index] of Object.entries(definition.indexes)) {
    const { keeper } = index.follow({ session: db, entity: definition, name });
    assert.ok(keepsRows(keeper));
    const { entities } = await backend.tables.query(keeper.table, {});
    for (const entry of entities) {
      const base = keeper.baseOf(entry) ?? entry;
      await keeper.reconcile(base, keeper.baseOf(entry) ? [entry] : []);
    }
  }
}

function expectedKeys(db: Database, { dept, id, email, town }: Employee): string[] {
  const { rows, indexes } = Employee;
  const values = { dept, id, email, town };
  const base = rows.key(values, db.profile);
  const [byEmail, byTown] = [indexes.email, indexes.town].map((index) => {
    const { partition, row } = index.place(Employee);
    return `${partition.encode(values)} ${row.encode(values)}`;
  });
  return [
    `Employee ${base.partitionKey} ${base.rowKey}`,
    `EmployeeByEmail ${byEmail}`,
    ...(town === "nowhere" ? [] : [`Employee ${byTown}`]),
  ];
}

async function keysOf({ tables }: Memory): Promise<string[]> {
  const keys: string[] = [];
  for (const table of ["Employee", "EmployeeByEmail"]) {
    const { entities } = await tables.query(table, {});
    keys.push(...entities.map(({ partitionKey, rowKey }) => `${table} ${partitionKey} ${rowKey}`));
  }
  return keys.sort();
}
