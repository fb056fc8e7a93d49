import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database, isTableError } from "./index.ts";
import { indexLifeCycle, type Progress } from "./index-life-cycle.ts";
import { controlledIndexes } from "./index-states.ts";
import { Indexed } from "./indexes/test-employee.ts";
import { entriesOf, MINUTE, open } from "./indexes/test-life-cycle.ts";
import { isRefusal } from "./ports/port-error.ts";
import { systemClock } from "./store/clock.ts";

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
    const other = connect({ ...backend, indexStates: controlledIndexes() });
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
    const writer = connect({ ...backend, clock, indexStates: controlledIndexes() }).open(Indexed);
    await writer.insert({ dept: "Sales", id: 2, email: "two" });
    await of("near").build();
    backMs = 60 * MINUTE;
    await writer.insert({ dept: "Sales", id: 3, email: "three" });
    const entries = ["e1 empid_000001", "three empid_000003", "two empid_000002"];
    assert.deepEqual(await entriesOf(backend, "near"), entries);
  });
});
