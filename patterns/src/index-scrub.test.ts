import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, entity, isTableError, k } from "./index.ts";
import { indexLifeCycle } from "./index-life-cycle.ts";
import { indexRepairs } from "./index-repairs.ts";
import { repairIndex, verifyIndex } from "./index-scrub.ts";
import { fields, Indexed, key, Plain } from "./indexes/test-employee.ts";
import { entriesOf, expected, MINUTE, NAMES, open } from "./indexes/test-life-cycle.ts";
import { createWorker } from "./queue-worker.ts";
import { remoteIndex } from "./remote-index.ts";
import { intercept, type Layer, memory } from "./testing.ts";

describe("the scrub of an index", () => {
  for (const name of NAMES) {
    it(`finds every corruption and nothing else, and repairs it (${name})`, async () => {
      const { backend, db, plain } = await open(0);
      const employees = db.open(Indexed);
      for (let id = 1; id <= 6; id++)
        await employees.insert({ dept: "Sales", id, email: `e${id}` });
      const table = name === "near" ? "Employee" : "ByEmail";
      const entry = (email: string) =>
        name === "near"
          ? { partitionKey: "Sales", rowKey: `email_${email}` }
          : { partitionKey: email, rowKey: "owner" };
      const good = (await backend.tables.get(table, entry("e3")))!.properties;
      const ours = (await backend.tables.get(table, entry("e2")))!.properties;
      const kind = "insertOrReplace";
      await backend.tables.commit(table, [{ kind: "delete", ...entry("e1"), ifMatch: "*" }]);
      await backend.tables.commit(table, [
        {
          kind,
          ...entry("e2"),
          properties: { ...ours, extra: { type: "Int32", value: 1 } },
        },
      ]);
      await backend.tables.commit(table, [{ kind, ...entry("gone"), properties: good }]);
      const brokenAt = backend.clock.now();
      const found = await verifyIndex(db, Indexed, name);
      assert.deepEqual(
        [found.missing, found.wrong, found.dangling, found.duplicate, found.repairRequests],
        [1, 1, 1, 0, name === "near" ? 9 : 12],
      );
      // Each might have been a write in progress, had it not been the same a minute later.
      assert.ok(backend.clock.now() >= brokenAt + MINUTE);
      assert.deepEqual(
        found.examples.map((finding) => finding.kind),
        ["missing", "wrong", "dangling"],
      );
      await repairIndex(db, Indexed, name);
      backend.clock.advance(2 * MINUTE);
      const after = await verifyIndex(db, Indexed, name);
      assert.equal(after.missing + after.wrong + after.dangling + after.duplicate, 0);
      assert.deepEqual(await entriesOf(backend, name), await expected(plain));
    });

    it(`leaves foreign rows at the keys of its entries alone, and reports them as duplicates (${name})`, async () => {
      const { backend, db, of } = await open(2);
      const place =
        name === "near"
          ? ({ table: "Employee", partitionKey: "Sales", rowKey: "email_e1" } as const)
          : ({ table: "ByEmail", partitionKey: "e1", rowKey: "owner" } as const);
      const { table, ...foreign } = place;
      const properties = { rh_t: { type: "String", value: "Employee.email:1" } } as const;
      await backend.tables.commit(table, [{ kind: "insert", ...foreign, properties }]);
      await of(name).disable();
      const patient: Layer = async (_call, send) => {
        assert.ok(backend.clock.now() < begunAt + 10 * MINUTE, "it waits for ever");
        return send();
      };
      const builder = connect({ ...backend, ...intercept(backend, patient) });
      const begunAt = backend.clock.now();
      const { duplicates } = await indexLifeCycle(builder, Indexed, name).build();
      assert.deepEqual(duplicates, ["Sales | empid_000001"]);
      assert.equal(await of(name).state(), "readable-dups");

      const another = db.open(Indexed).insert({ dept: "Sales", id: 9, email: "e1" });
      await assert.rejects(another, (error) => isTableError(error, "unique-violation"));
      backend.clock.advance(2 * MINUTE);
      const { duplicate, missing, wrong } = await repairIndex(db, Indexed, name);
      assert.deepEqual([duplicate, missing, wrong], [1, 0, 0]);
      await db.open(Indexed).update({ dept: "Sales", id: 1 }, () => ({}));
      assert.deepEqual((await backend.tables.get(table, foreign))?.properties, properties);

      await backend.tables.commit(table, [{ kind: "delete", ...foreign, ifMatch: "*" }]);
      assert.equal((await repairIndex(db, Indexed, name)).missing, 1);
      assert.equal(await of(name).state(), "readable");
      assert.deepEqual(await entriesOf(backend, name), await expected(db));
    });
  }

  it("stops repairing once the index is being retired", async () => {
    const { backend, of } = await open();
    const retired: string[] = [];
    const retireBeforeSecondPage: Layer = async ({ method, args }, send) => {
      // The repair requests its second page.
      if (
        method === "query" &&
        args[0] === "Employee" &&
        JSON.stringify(args).includes("continuation")
      ) {
        if (retired.length === 0) await of("near").retire();
        retired.push(await of("near").state());
      }
      return send();
    };
    backend.clock.advance(2 * MINUTE);
    const repair = repairIndex(
      connect({ ...backend, ...intercept(backend, retireBeforeSecondPage) }),
      Indexed,
      "near",
    );
    await assert.rejects(repair, /disabled: it cannot be repaired now/);
    assert.equal(retired[0], "disabled");
    assert.deepEqual(await entriesOf(backend, "near"), []);
  });

  it("refuses a sample that is 0, negative or NaN", async () => {
    const { db } = await open(1);
    for (const sample of [0, -1, Number.NaN]) {
      await assert.rejects(verifyIndex(db, Indexed, "near", { sample }), (error) =>
        isTableError(error, "validation-failed"),
      );
    }
  });

  it("keeps to the given rate, and runs at full speed without one", async () => {
    const { backend, db } = await open(0, memory());
    const employees = db.open(Indexed);
    for (let id = 1; id <= 40; id++) await employees.insert({ dept: "Sales", id, email: `e${id}` });
    backend.clock.advance(2 * MINUTE);
    const timeOf = async (work: Promise<unknown>) => {
      const startedAt = backend.clock.now();
      await work;
      return backend.clock.now() - startedAt;
    };
    for (const scrub of [verifyIndex, repairIndex]) {
      // 40 entities, looked for among the entries, and the reverse.
      assert.equal(await timeOf(scrub(db, Indexed, "far", { rate: 10 })), 12_000);
      assert.equal(await timeOf(scrub(db, Indexed, "far")), 0);
    }
  });

  it("reads pages, not entries one by one, and holds no more in memory than it may", async () => {
    for (const name of NAMES) {
      const { backend, db } = await open(0, memory({ pageEntitiesMax: 100 }));
      const employees = db.open(Indexed);
      for (let id = 1; id <= 400; id++) {
        await employees.insert({ dept: "Sales", id, email: `e${id}` });
      }
      const table = name === "near" ? "Employee" : "ByEmail";
      const entry =
        name === "near"
          ? { partitionKey: "Sales", rowKey: "email_e17" }
          : { partitionKey: "e17", rowKey: "owner" };
      await backend.tables.commit(table, [{ kind: "delete", ...entry, ifMatch: "*" }]);
      backend.clock.advance(2 * MINUTE);
      const cost = (held?: number) =>
        db.metered((metered) => verifyIndex(metered, Indexed, name, { ...(held && { held }) }));
      const { requests, result } = await cost();
      assert.deepEqual([result.entities, result.entries, result.missing], [400, 399, 1]);
      // Both sides twice, at most 8 pages each, and the missing entry is looked for twice.
      assert.ok(requests <= 36, `${requests} requests`);
      const { requests: most, result: same } = await cost(100);
      assert.deepEqual(same, result);
      // What is held is found in 4 pages at most, or asked for.
      assert.ok(most <= 900, `${most} requests with 100 held`);
    }
  });

  it("resumes a verification from its progress, including the findings so far", async () => {
    const { backend, db } = await open(0);
    const employees = db.open(Indexed);
    for (let id = 1; id <= 6; id++) await employees.insert({ dept: "Sales", id, email: `e${id}` });
    const entry = { partitionKey: "e1", rowKey: "owner", ifMatch: "*" };
    await backend.tables.commit("ByEmail", [{ kind: "delete", ...entry }]);
    backend.clock.advance(2 * MINUTE);
    const whole = await verifyIndex(db, Indexed, "far");
    assert.deepEqual([whole.entities, whole.entries, whole.missing], [6, 5, 1]);
    for (let pagesUntilStop = 1; pagesUntilStop <= 5; pagesUntilStop++) {
      const stop = new AbortController();
      let kept = "";
      let pagesRead = 0;
      const first = verifyIndex(db, Indexed, "far", {
        signal: stop.signal,
        held: 1,
        onProgress(progress) {
          kept = JSON.stringify(progress);
          if (++pagesRead === pagesUntilStop) stop.abort(new Error("Stopped."));
        },
      });
      await assert.rejects(first, /Stopped/);
      assert.deepEqual(await verifyIndex(db, Indexed, "far", { from: JSON.parse(kept) }), whole);
    }
  });

  it("is done by a worker for stale entries that readers report, with repairOnRead", async () => {
    const Repairing = entity("Employee", {
      version: 1,
      fields,
      key,
      indexes: {
        far: remoteIndex({
          table: "ByEmail",
          partition: [k.str("email")],
          row: [k.str("dept"), k.uint("id", 6)],
          repairOnRead: true,
        }),
      },
    });
    const { backend, plain } = await open(0);
    await plain.open(Repairing).insert({ dept: "Sales", id: 1, email: "e1" });
    await plain.open(Plain).delete({ dept: "Sales", id: 1 });
    backend.clock.advance(2 * MINUTE);
    assert.deepEqual(await plain.open(Repairing).by.far.range({ email: "e1" }).all(), []);
    const handlers = [indexRepairs([Repairing])];
    await createWorker(plain, { queue: "index-repairs", handlers }).drain();
    assert.deepEqual((await backend.tables.query("ByEmail", {})).entities, []);
  });
});
