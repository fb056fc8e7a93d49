import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database, entity, isTableError, k } from "./index.ts";
import { indexLifeCycle } from "./index-life-cycle.ts";
import { controlledIndexes } from "./index-states.ts";
import { fields, Indexed, key } from "./indexes/test-employee.ts";
import { entriesOf, everything, expected, MINUTE, NAMES, open } from "./indexes/test-life-cycle.ts";
import { definitionHash } from "./model/declared-index.ts";
import { PortError } from "./ports/port-error.ts";
import { remoteIndex } from "./remote-index.ts";
import { siblingIndex } from "./sibling-index.ts";
import { intercept, type Layer } from "./testing.ts";

describe("the registration of an index", () => {
  it("refuses writes, reads and builds whose definition differs from the registered one", async () => {
    const { backend, db, of } = await open(1);
    await of("far").disable();
    const changed = (options: object) =>
      entity("Employee", {
        version: 1,
        fields,
        key,
        indexes: {
          far: remoteIndex({
            table: "ByEmail",
            partition: [k.str("email")],
            row: [k.lit("owner")],
            unique: true,
            ...options,
          }),
        },
      });
    const refused = (work: Promise<unknown>) =>
      assert.rejects(work, /definition: differs from the registered one/);
    const differences = [
      { row: [k.lit("holder")] },
      { partition: [k.strCI("email")] },
      { copy: "keys" },
      { when: () => true },
    ];
    for (const difference of differences) {
      const Changed = changed(difference);
      const fresh = connect({
        ...backend,
        indexStates: controlledIndexes({ unregistered: "readable" }),
      });
      const employees = fresh.open(Changed);
      await refused(employees.insert({ dept: "Sales", id: 7, email: "seven" }));
      await refused(employees.by.far.get({ email: "e1" }));
      await refused(indexLifeCycle(fresh, Changed, "far").build());
    }
    const same = changed({ timing: { deadlineMs: 19_000 }, queue: "other", mode: "inline" });
    await indexLifeCycle(db, same, "far").build();
  });

  it("with unregistered: disabled, registers a changed definition as disabled, which is built once the old one is retired", async () => {
    const { backend, db } = await open(2);
    for (const name of NAMES) {
      await indexLifeCycle(db, Indexed, name).disable();
      await indexLifeCycle(db, Indexed, name).build();
    }
    const { near, far } = Indexed.indexes;
    const row = [k.lit("mail"), k.str("email")] as const;
    const indexes = { near: siblingIndex({ row, unique: true }), far };
    const Changed = entity("Employee", { version: 1, fields, key, indexes });
    const connected = () =>
      connect({ ...backend, indexStates: controlledIndexes({ unregistered: "disabled" }) });
    const before = backend.clock.now();
    await Promise.all(
      [connected(), connected()].map((one, i) =>
        one.open(Changed).insert({ dept: "Sales", id: 3 + i, email: `e${3 + i}` }),
      ),
    );
    // Not before every reader of the old one has seen that it is no longer maintained.
    assert.ok(backend.clock.now() >= before + 50_000);
    const states = (await everything(backend.tables, "rhcontrol")).entities.map(
      ({ rowKey, properties }) => `${rowKey} ${properties.state?.value}`,
    );
    const hashes = { old: definitionHash(Indexed, "near"), now: definitionHash(Changed, "near") };
    assert.deepEqual(states, [
      `Employee.Employee.far@${definitionHash(Indexed, "far")} readable`,
      ...[
        `Employee.Employee.near@${hashes.now} disabled`,
        `Employee.Employee.near@${hashes.old} retiring`,
      ].sort(),
    ]);
    const isGone = (error: unknown) => isTableError(error, "index-not-readable");
    await assert.rejects(db.open(Indexed).by.near.get({ dept: "Sales", email: "e1" }), isGone);

    const cycle = indexLifeCycle(db, Changed, "near");
    await assert.rejects(cycle.build(), /another definition left entries: retire it/);
    await indexLifeCycle(db, Indexed, "near").retire();
    assert.equal((await cycle.build()).done, 4);
    assert.equal((await db.open(Changed).by.near.get({ dept: "Sales", email: "e4" }))?.id, 4);
    // Old code, which would now write entities that nobody indexes.
    const old = entity("Employee", { version: 1, fields, key, indexes: { near } });
    const late = connected().open(old).insert({ dept: "Sales", id: 5, email: "e5" });
    await assert.rejects(late, /definition: differs from the registered one/);
  });

  it("of a changed definition ends a build of the old one, which leaves no entries behind", async () => {
    const { backend, db, of } = await open(3);
    await of("far").disable();
    const { near, far } = Indexed.indexes;
    const indexes = { near, far: remoteIndex({ ...far.options, row: [k.lit("holder")] }) };
    const Changed = entity("Employee", { version: 1, fields, key, indexes });
    // The table stays because of this row.
    const other = { kind: "insert", partitionKey: "a", rowKey: "b", properties: {} } as const;
    let isStill = true;
    const slow: Layer = async ({ method, args: [table] }, send) => {
      if (!isStill || table !== "ByEmail" || method !== "commit") return send();
      isStill = false;
      await backend.tables.commit("ByEmail", [other]);
      await indexLifeCycle(db, Changed, "far").disable();
      await of("far").retire();
      throw new PortError("busy", { status: 503, code: "ServerBusy" });
    };
    const building = connect({ ...backend, ...intercept(backend, slow) });
    await assert.rejects(
      indexLifeCycle(building, Indexed, "far").build(),
      /differs from the registered one|cannot be built now/,
    );
    assert.equal(isStill, false);
    assert.deepEqual(await entriesOf(backend, "far"), []);
  });

  it("with unregistered: refused, must exist before the index is read or written", async () => {
    const { backend, plain } = await open(1);
    const strict = controlledIndexes({ unregistered: "refused" });
    const db = connect({ ...backend, indexStates: strict });
    const employees = db.open(Indexed);
    const isRefused = /Employee\.far.*is not registered|Employee\.near.*is not registered/;
    await assert.rejects(employees.insert({ dept: "Sales", id: 2, email: "two" }), isRefused);
    await assert.rejects(employees.by.far.get({ email: "e1" }), isRefused);
    assert.equal((await expected(plain)).length, 1);
    for (const name of NAMES) {
      await indexLifeCycle(db, Indexed, name).disable();
      await indexLifeCycle(db, Indexed, name).build();
    }
    await employees.insert({ dept: "Sales", id: 2, email: "two" });
    assert.equal((await employees.by.far.get({ email: "e1" }))?.id, 1);
  });

  it("with unregistered: disabled, is done by the first writer that meets the index, as disabled", async () => {
    const { backend } = await open(1);
    await backend.tables.deleteTable("rhcontrol");
    backend.clock.advance(MINUTE);
    const connected = () =>
      connect({ ...backend, indexStates: controlledIndexes({ unregistered: "disabled" }) });
    const dbs = [connected(), connected()];
    await Promise.all(
      dbs.map((db, i) => db.open(Indexed).insert({ dept: "Sales", id: 2 + i, email: `new${i}` })),
    );
    const [db] = dbs as [Database, Database];
    for (const name of NAMES) {
      assert.deepEqual(await entriesOf(backend, name), []);
      const cycle = indexLifeCycle(db, Indexed, name);
      assert.equal(await cycle.state(), "disabled");
      assert.equal((await cycle.build()).done, 3);
      assert.deepEqual(await entriesOf(backend, name), await expected(db));
    }
  });
});
