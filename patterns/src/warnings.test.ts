import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database, entity, f, k } from "./index.ts";
import { remoteIndex } from "./remote-index.ts";
import { FakeClock } from "./testing/fake-clock.ts";
import { intercept, withFaults } from "./testing/intercept.ts";
import { memory } from "./testing/memory.ts";
import { type Warning, warnings } from "./warnings.ts";

const Employee = entity("Employee", {
  version: 1,
  fields: { dept: f.string(), id: f.int32(), age: f.int32() },
  key: { partition: [k.str("dept")], row: [k.uint("id", 4)] },
});
const Person = entity("Person", {
  version: 1,
  fields: { id: f.int32(), town: f.string() },
  key: { partition: [k.uint("id", 4)], row: [k.lit("person")] },
  indexes: {
    town: remoteIndex({
      table: "PersonByTown",
      partition: [k.str("town")],
      row: [k.uint("id", 4)],
      mode: "inline",
    }),
  },
});

async function open(lostEvery = 0) {
  const clock = new FakeClock();
  const backend = memory({ clock });
  const told: Warning[] = [];
  let writes = 0;
  const faults = withFaults(({ method, args: [, mutations] }) =>
    method === "commit" &&
    JSON.stringify(mutations).includes("ifMatch") &&
    ++writes % lostEvery === 0
      ? { kind: "refuse", status: 412, code: "UpdateConditionNotSatisfied" }
      : undefined,
  );
  const watch = warnings((warning) => told.push(warning), clock);
  const db = connect({ ...backend, ...intercept(backend, faults), ...watch });
  await db.createTables(Employee, Person);
  return { clock, db, told };
}

async function times(count: number, work: (index: number) => Promise<unknown>) {
  for (let i = 0; i < count; i++) await work(i);
}

const insert = (db: Database, count: number) =>
  times(count, (id) => db.open(Employee).insert({ dept: "Sales", id, age: id % 20 }));
const kindsOf = (told: readonly Warning[]) => told.map(({ kind }) => kind);
const permit = { allow: "partition-scan", because: "test" } as const;

describe("a warning", () => {
  it("reports a query that returns under a tenth of what it reads, from its 101st run on", async () => {
    const { db, told } = await open();
    await insert(db, 40);
    const sales = db.open(Employee).range({ dept: "Sales" });
    const rare = (age: number) => sales.where((row) => row.age.eq(age)).all(permit);
    await times(100, rare);
    assert.deepEqual(kindsOf(told), []);
    await rare(3);
    const filter = "PartitionKey eq '…' and age eq '…'";
    // Ages 0 to 19 were found twice each in 40 rows, higher ones not at all.
    const density = (21 * 2) / (101 * 40);
    assert.deepEqual(told, [{ kind: "low density", table: "Employee", filter, density }]);
    // A tenth of the rows read, all of them, and half of a range.
    await times(201, () => sales.where(({ age }) => age.lt(2)).all(permit));
    await times(201, () => sales.all());
    const half = db.open(Employee).range({ dept: "Sales", id: { gte: 20 } });
    await times(201, () => half.where(({ age }) => age.lt(10)).all(permit));
    assert.equal(told.length, 1);
  });

  it("counts a query of several pages once", async () => {
    const clock = new FakeClock();
    const backend = memory({ clock, pageEntitiesMax: 1 });
    const told: Warning[] = [];
    const db = connect({ ...backend, ...warnings((warning) => told.push(warning), clock) });
    await db.createTables(Employee);
    await insert(db, 40);
    const query = db
      .open(Employee)
      .range({ dept: "Sales" })
      .where(({ age }) => age.eq(3));
    await times(100, () => query.all(permit));
    assert.deepEqual(kindsOf(told), []);
    await query.all(permit);
    assert.deepEqual(kindsOf(told), ["low density"]);
  });

  it("reports a table in which over a twentieth of the conditional writes lose", async () => {
    for (const [lostEvery, warned] of [
      [10, [{ kind: "contention", table: "Employee", rate: 10 / 101 }]],
      [25, []],
    ] as const) {
      const { db, told } = await open(lostEvery);
      await insert(db, 1);
      const update = () =>
        db.open(Employee).update({ dept: "Sales", id: 0 }, ({ age }) => ({ age: age + 1 }));
      // Lost updates are repeated: 101 requests and a few more are sent.
      await times(lostEvery === 10 ? 91 : 100, update);
      assert.deepEqual(told, warned);
    }
  });

  it("reports an index of which over a hundredth of the entries read are stale", async () => {
    for (const [stale, warned] of [
      [2, [{ kind: "stale entries", index: "Person.town", rate: 2 / 102 }]],
      [1, []],
    ] as const) {
      const { db, told } = await open();
      const people = db.open(Person);
      await times(102, (id) => people.insert({ id, town: "Redmond" }));
      // Other software, which knows nothing of the index.
      await times(stale, (id) =>
        db.tables.commit("Person", [
          { kind: "delete", partitionKey: `000${id}`, rowKey: "person", ifMatch: "*" },
        ]),
      );
      assert.equal((await people.by.town.range({ town: "Redmond" }).all()).length, 102 - stale);
      await people.by.town.range({ town: "Redmond" }, { consistency: "eventual" }).all();
      assert.deepEqual(told, warned);
    }
  });

  it("reports a partition with over 1,000 entities a second, after ten seconds", async () => {
    const { clock, db, told } = await open();
    await insert(db, 500);
    const employees = db.open(Employee);
    await times(20, () => employees.range({ dept: "Sales" }).all());
    await times(500, (id) => employees.get({ dept: "Legal", id }));
    clock.advance(10_000);
    await employees.get({ dept: "Sales", id: 1 });
    assert.deepEqual(told, [
      { kind: "hot partition", table: "Employee", partitionKey: "Sales", entitiesPerSecond: 1050 },
    ]);
    clock.advance(10_000);
    await employees.get({ dept: "Sales", id: 1 });
    assert.equal(told.length, 1);
  });

  it("covers metered work, and nested meters count too", async () => {
    const { db, told } = await open(10);
    await insert(db, 1);
    const outer = await db.metered((metered) =>
      metered.metered((inner) =>
        times(101, (age) =>
          inner.open(Employee).update({ dept: "Sales", id: 0 }, () => ({ age: 20 + age })),
        ),
      ),
    );
    assert.deepEqual(kindsOf(told), ["contention"]);
    assert.ok(outer.requests > 202);
    assert.equal(outer.requests, outer.result.requests);
  });

  it("costs no request, and is not counted by the meter", async () => {
    const { db } = await open();
    await insert(db, 1);
    const { requests } = await db.metered((metered) =>
      metered.open(Employee).get({ dept: "Sales", id: 0 }),
    );
    assert.equal(requests, 1);
  });
});
