import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database, entity, isTableError, k } from "./index.ts";
import { indexLifeCycle, type Progress } from "./index-life-cycle.ts";
import { controlledIndexes } from "./index-states.ts";
import { fields, Indexed, key } from "./indexes/test-employee.ts";
import { entriesOf, MINUTE, open } from "./indexes/test-life-cycle.ts";
import { isRefusal } from "./ports/port-error.ts";
import { remoteIndex } from "./remote-index.ts";
import { systemClock } from "./store/clock.ts";
import { intercept, type Layer, type Memory, memory, withFaults } from "./testing.ts";

describe("the states of an index", () => {
  it("cost a write no request once they are known", async () => {
    const { db, plain } = await open(0);
    const costOf = async (database: Database, id: number) => {
      const insert = (metered: Database) =>
        metered.open(Indexed).insert({ dept: "Sales", id, email: `e${id}` });
      return (await database.metered(insert)).requests;
    };
    const bare = await costOf(plain, 1);
    await db.open(Indexed).insert({ dept: "Sales", id: 2, email: "e2" });
    assert.equal(await costOf(db, 3), bare);
  });

  it("refuse a build of a readable index and a second disable", async () => {
    const { of } = await open(1);
    await assert.rejects(of("far").build(), /cannot be built/);
    await of("near").disable();
    await assert.rejects(
      of("near").disable(),
      (error) => isTableError(error, "conflict") && isRefusal(error.cause, 409),
    );
    const progress: Progress[] = [];
    await of("near").build({ onProgress: (one) => progress.push(one) });
    assert.equal(progress.at(-1)?.done, 1);
  });

  it("make a build wait until the leases of writers that do not know of it have expired", async () => {
    const { backend, db, of } = await open(1);
    await of("near").disable();
    const employees = db.open(Indexed);
    await employees.insert({ dept: "Sales", id: 2, email: "two" });
    assert.deepEqual(await entriesOf(backend, "near"), []);
    const other = connect({
      ...backend,
      indexStates: controlledIndexes({ unregistered: "readable" }),
    });
    const build = indexLifeCycle(other, Indexed, "near").build();
    await build;
    // The same client, whose cache would still say disabled if the build had not waited for it.
    await employees.insert({ dept: "Sales", id: 3, email: "three" });
    assert.deepEqual(await entriesOf(backend, "near"), [
      "e1 empid_000001",
      "three empid_000003",
      "two empid_000002",
    ]);
  });

  it("are read again after the clock was set back", async () => {
    const { backend, of } = await open(1);
    await of("near").disable();
    let backMs = 0;
    const clock = { ...systemClock, now: () => backend.clock.now() - backMs };
    const writer = connect({
      ...backend,
      clock,
      indexStates: controlledIndexes({ unregistered: "readable" }),
    }).open(Indexed);
    await writer.insert({ dept: "Sales", id: 2, email: "two" });
    await of("near").build();
    backMs = 60 * MINUTE;
    await writer.insert({ dept: "Sales", id: 3, email: "three" });
    const entries = ["e1 empid_000001", "three empid_000003", "two empid_000002"];
    assert.deepEqual(await entriesOf(backend, "near"), entries);
  });
});

describe("an index that nobody registered", () => {
  const checked = (backend: Memory) => {
    const { tables, queues, blobs, clock } = backend;
    return connect({ tables, queues, blobs, clock });
  };
  // Plain JavaScript passes it for an option that is not set.
  const unset = { indexStates: undefined } as object;

  for (const [how, connectTo] of [
    ["by default", checked],
    ["with an undefined option", (backend: Memory) => connect({ ...backend, ...unset })],
    [
      "with controlledIndexes",
      (backend: Memory) => connect({ ...backend, indexStates: controlledIndexes() }),
    ],
  ] as const) {
    it(`is ready in an empty table, and refused over existing entities until it is built (${how})`, async () => {
      const { backend } = await open(1);
      const late = connectTo(backend);
      const { near, far } = late.open(Indexed).by;
      const isRefused = (error: unknown) =>
        isTableError(error, "index-not-readable") &&
        error.state === "unknown" &&
        /rowhouse patterns index build Employee\.\w+ --register/.test(error.message);
      await assert.rejects(near.get({ dept: "Sales", email: "e1" }), isRefused);
      await assert.rejects(far.get({ email: "e1" }), isRefused);
      const twice = { dept: "Sales", id: 7, email: "e1" };
      await assert.rejects(late.open(Indexed).insert(twice), isRefused);
      for (const name of ["near", "far"]) {
        const cycle = indexLifeCycle(late, Indexed, name);
        await cycle.disable();
        await cycle.build();
      }
      backend.clock.advance(60_000);
      assert.equal((await far.get({ email: "e1" }))?.id, 1);
      await assert.rejects(late.open(Indexed).insert(twice), { code: "unique-violation" });

      const fresh = memory();
      const first = connectTo(fresh);
      await first.provision(Indexed);
      await first.open(Indexed).insert({ dept: "Sales", id: 1, email: "e1" });
      // Another process, which finds entities and the registration.
      const second = connectTo(fresh);
      assert.equal((await second.open(Indexed).by.far.get({ email: "e1" }))?.id, 1);
    });
  }

  it("is checked once: 1 R for each index in a new process, and nothing after that", async () => {
    const backend = memory();
    await checked(backend).provision(Indexed);
    let looks = 0;
    const counting: Layer = ({ args }, send) => {
      if (args[0] === "rhcontrol") looks++;
      return send();
    };
    const { clock } = backend;
    const db = connect({ ...intercept(backend, counting), clock });
    for (const id of [1, 2]) {
      await db.open(Indexed).insert({ dept: "Sales", id, email: `e${id}` });
      assert.equal(looks, 2);
    }
  });

  it("is refused under a changed definition, and for a caller who may not look", async () => {
    const backend = memory();
    await checked(backend).provision(Indexed);
    const { near, far } = Indexed.indexes;
    const Changed = entity("Employee", {
      version: 1,
      fields,
      key,
      indexes: { near, far: remoteIndex({ ...far.options, row: [k.lit("other")] }) },
    });
    const changed = checked(backend).open(Changed).insert({ dept: "Sales", id: 1, email: "e1" });
    await assert.rejects(changed, /differs from the registered one/);
    const forbidden = withFaults(({ args }) =>
      args[0] === "rhcontrol"
        ? { kind: "refuse", status: 403, code: "AuthorizationFailure" }
        : undefined,
    );
    const { clock } = backend;
    const limited = { ...intercept(backend, forbidden), clock };
    await assert.rejects(connect(limited).open(Indexed).by.far.get({ email: "e1" }), {
      code: "index-not-readable",
    });
    const trusting = connect({ ...limited, indexStates: "trusted" });
    assert.equal(await trusting.open(Indexed).by.far.get({ email: "e1" }), undefined);
  });
});
