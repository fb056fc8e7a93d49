import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type BatchOptions, type BatchPlan, batch } from "./batch.ts";
import { connect, entity, f, isTableError, k } from "./index.ts";
import { indexLifeCycle } from "./index-life-cycle.ts";
import { verifyIndex } from "./index-scrub.ts";
import { controlledIndexes } from "./index-states.ts";
import { listIndex } from "./list-index.ts";
import { isRefusal } from "./ports/port-error.ts";
import type { Deadline } from "./ports/tables.ts";
import { siblingIndex } from "./sibling-index.ts";
import type { Layer } from "./store/layer.ts";
import { intercept, withFaults } from "./testing/intercept.ts";
import { memory } from "./testing/memory.ts";

const Reading = entity("Reading", {
  version: 1,
  fields: { meter: f.string(), id: f.int32(), text: f.string().optional() },
  key: { partition: [k.str("meter")], row: [k.uint("id", 6)] },
});

const Tagged = entity("Tagged", {
  version: 1,
  fields: { meter: f.string(), id: f.int32(), tag: f.string() },
  key: { partition: [k.str("meter")], row: [k.lit("id"), k.uint("id", 6)] },
  indexes: { tag: siblingIndex({ row: [k.lit("tag"), k.str("tag"), k.uint("id", 6)] }) },
});

const Badge = entity("Badge", {
  version: 1,
  fields: { meter: f.string(), id: f.int32(), serial: f.string() },
  key: { partition: [k.str("meter")], row: [k.lit("id"), k.uint("id", 6)] },
  indexes: { serial: siblingIndex({ row: [k.lit("serial"), k.str("serial")], unique: true }) },
});

async function open() {
  const db = connect(memory());
  await db.createTables(Reading, Tagged);
  return { db, readings: db.open(Reading) };
}

function fill(b: BatchPlan, meter: string, count: number, text?: string): void {
  for (let id = 0; id < count; id++) b.insert(Reading, { meter, id, ...(text && { text }) });
}

describe("a batch", () => {
  it("uses as many transactions as the operations need", async () => {
    for (const [count, requests] of [
      [0, 0],
      [1, 1],
      [99, 1],
      [100, 1],
      [101, 2],
      [250, 3],
    ] as const) {
      const { db } = await open();
      const usage = await db.metered((metered) => batch(metered, (b) => fill(b, "a", count)));
      assert.deepEqual(
        [usage.requests, usage.entities, usage.result.length],
        [requests, count, count],
      );
    }
  });

  it("starts a new transaction at nine tenths of the payload limit", async () => {
    const { db } = await open();
    const text = "x".repeat(30_000);
    const usage = await db.metered((metered) => batch(metered, (b) => fill(b, "a", 100, text)));
    assert.deepEqual([usage.requests, usage.result.every(({ ok }) => ok)], [1, true]);
    const wide = await db.metered((metered) =>
      batch(metered, (b) => fill(b, "b", 100, "é".repeat(30_000))),
    );
    assert.deepEqual([wide.requests, wide.result.every(({ ok }) => ok)], [2, true]);
  });

  it("returns results in the planned order, whichever operation fails", async () => {
    for (const culprit of [0, 1, 50, 99, 100, 149]) {
      const { db, readings } = await open();
      await readings.insert({ meter: "a", id: culprit });
      const results = await batch(db, (b) => fill(b, "a", 150));
      assert.deepEqual(
        results.flatMap(({ ok }, i) => (ok ? [] : [i])),
        [culprit],
      );
      assert.equal((await readings.range({ meter: "a" }).all()).length, 150);
    }
  });

  it("returns the ETag of each entity, even if index entries are committed with it", async () => {
    const Sorted = entity("Reading", {
      version: 1,
      fields: { meter: f.string(), id: f.int32() },
      key: { partition: [k.str("meter")], row: [k.lit("id"), k.uint("id", 6)] },
      indexes: { back: siblingIndex({ row: [k.lit("back"), k.uintDesc("id", 6)], unique: true }) },
    });
    const { db } = await open();
    const ids = [1, 2, 3];
    const results = await batch(db, (b) => {
      for (const id of ids) b.insert(Sorted, { meter: "a", id });
    });
    const found = await db.open(Sorted).getMany(ids.map((id) => ({ meter: "a", id })));
    assert.deepEqual(
      results.map((result) => result.ok && result.etag),
      found.map((one) => one?.etag),
    );
  });

  it("stops a partition after a failure, goes on with its next chunk, or isolates the operation", async () => {
    const failures = async (onError: BatchOptions["onError"] & string) => {
      const { db, readings } = await open();
      await readings.insert({ meter: "a", id: 5 });
      const results = await batch(db, (b) => fill(b, "a", 150), { onError });
      return results.filter(({ ok }) => !ok).length;
    };
    assert.deepEqual(
      [await failures("stop"), await failures("continue"), await failures("isolate")],
      [150, 100, 1],
    );
  });

  it("treats an operation whose index entries cannot be computed as a failure in its own partition only", async () => {
    const Picky = entity("Picky", {
      version: 1,
      fields: { meter: f.string(), id: f.int32() },
      key: { partition: [k.str("meter")], row: [k.lit("id"), k.uint("id", 6)] },
      indexes: {
        odd: siblingIndex({
          row: [k.lit("odd"), k.uint("id", 6)],
          when: ({ id }) => {
            if (id === 1) throw new RangeError("one");
            return true;
          },
        }),
      },
    });
    const succeeded = async (onError: NonNullable<BatchOptions["onError"]>) => {
      const { db } = await open();
      await db.createTables(Picky);
      const plan = (b: BatchPlan) => {
        for (const meter of ["a", "b"]) {
          for (const id of meter === "a" ? [0, 1, 2] : [3]) b.insert(Picky, { meter, id });
        }
      };
      const results = await batch(db, plan, { onError });
      const failure = results[1];
      assert.ok(failure && !failure.ok && failure.error instanceof RangeError);
      return results.map(({ ok }) => ok);
    };
    assert.deepEqual(await succeeded("stop"), [true, false, false, true]);
    assert.deepEqual(await succeeded("continue"), [true, false, true, true]);
    assert.deepEqual(await succeeded("isolate"), [true, false, true, true]);
  });

  it("applies operations on one row in their order", async () => {
    const { db, readings } = await open();
    await batch(db, (b) => {
      b.upsert(Reading, { meter: "a", id: 1, text: "first" });
      b.delete(Reading, { meter: "a", id: 1 });
      b.upsert(Reading, { meter: "a", id: 1, text: "last" });
    });
    assert.equal((await readings.get({ meter: "a", id: 1 }))?.text, "last");
  });

  it("in mode atomic, is refused before anything is sent if it exceeds one transaction", async () => {
    const { db, readings } = await open();
    await assert.rejects(
      batch(db, (b) => fill(b, "a", 101), {
        mode: "atomic",
      }),
      (error) => isTableError(error, "batch-too-large"),
    );
    const twoPartitions = batch(
      db,
      (b) => {
        fill(b, "a", 1);
        fill(b, "b", 1);
      },
      { mode: "atomic" },
    );
    await assert.rejects(twoPartitions, (error) => isTableError(error, "batch-too-large"));
    assert.equal((await readings.range({ meter: "a" }).all()).length, 0);
  });

  it("commits entities together with their index entries", async () => {
    const { db } = await open();
    const usage = await db.metered((metered) =>
      batch(metered, (b) => {
        for (let id = 0; id < 60; id++) b.insert(Tagged, { meter: "a", id, tag: "t" });
      }),
    );
    assert.deepEqual([usage.requests, usage.entities], [2, 120]);
    assert.equal((await db.open(Tagged).by.tag.range({ meter: "a", tag: "t" }).all()).length, 60);
  });

  it("names the value or key that another entity holds, in every mode", async () => {
    const { db } = await open();
    await db.createTables(Badge);
    const owner = { meter: "a", id: 9, serial: "taken" };
    await db.open(Badge).insert(owner);
    const plan = (b: BatchPlan) => {
      for (const id of [1, 9, 2]) b.insert(Badge, { meter: "a", id, serial: `s${id}` });
      b.insert(Badge, { meter: "a", id: 3, serial: "taken" });
    };
    const told = (error: unknown) => {
      assert.ok(isTableError(error, "unique-violation"));
      assert.ok(isRefusal(error.cause, 409));
      return [error.index, error.key];
    };
    const [first, key, second, value] = await batch(db, plan);
    assert.deepEqual([first?.ok, second?.ok], [true, true]);
    assert.ok(key && !key.ok && value && !value.ok);
    assert.deepEqual(told(key.error), ["key", "id_000009"]);
    assert.deepEqual(told(value.error), ["serial", "serial_taken"]);
    assert.ok(isTableError(value.error, "unique-violation"));
    assert.deepEqual(value.error.owner, { meter: "a", id: 9 });

    const clash = (b: BatchPlan) => b.insert(Badge, { meter: "a", id: 4, serial: "taken" });
    for (const onError of ["stop", "continue"] as const) {
      const [result] = await batch(db, clash, { onError });
      assert.ok(result && !result.ok);
      assert.deepEqual(told(result.error), ["serial", "serial_taken"]);
    }
    await assert.rejects(batch(db, clash, { mode: "atomic" }), (error) => {
      assert.deepEqual(told(error), ["serial", "serial_taken"]);
      return true;
    });
  });

  const Listed = entity("Listed", {
    version: 1,
    fields: { meter: f.string(), id: f.int32(), tag: f.string() },
    key: { partition: [k.str("meter")], row: [k.lit("id"), k.uint("id", 6)] },
    indexes: { tag: listIndex({ row: [k.lit("tag"), k.str("tag")], property: "IDs" }) },
  });

  it("retries an operation that lost a race, even if another in its chunk is refused, unless that stops the partition", async () => {
    const outcomes = async (onError: NonNullable<BatchOptions["onError"]>) => {
      const backend = memory();
      const others = connect(backend);
      await others.createTables(Listed);
      const taken = { meter: "a", id: 9, tag: "y" };
      await others.open(Listed).insert(taken);
      let isFirst = true;
      const meanwhile: Layer = async ({ method }, send) => {
        if (method === "commit" && isFirst) {
          isFirst = false;
          await others.open(Listed).insert({ meter: "a", id: 100, tag: "x" });
        }
        return send();
      };
      const db = connect({ ...backend, ...intercept(backend, meanwhile) });
      const plan = (b: BatchPlan) => {
        b.insert(Listed, { meter: "a", id: 0, tag: "x" });
        b.insert(Listed, taken);
      };
      const results = await batch(db, plan, { onError });
      const ids = await others.open(Listed).by.tag.ids({ meter: "a", tag: "x" });
      assert.equal(ids.includes("000000"), results[0]?.ok);
      return results.map(({ ok }) => ok);
    };
    assert.deepEqual(await outcomes("isolate"), [true, false]);
    assert.deepEqual(await outcomes("continue"), [true, false]);
    assert.deepEqual(await outcomes("stop"), [false, false]);
  });

  it("isolates no operation when the service refuses every commit, and sends the chunk once", async () => {
    const { db: plain } = await open();
    const faults = withFaults(({ method }) =>
      method === "commit" ? { kind: "refuse", status: 501, code: "NotImplemented" } : undefined,
    );
    const { tables } = intercept({ ...memory(), tables: plain.tables }, faults);
    const db = connect({ tables });
    const { requests, result } = await db.metered((metered) =>
      batch(metered, (b) => fill(b, "a", 5)),
    );
    assert.equal(requests, 1);
    assert.ok(result.every((each) => !each.ok && isRefusal(each.error, 501)));
  });

  it("adds its members to a list that other writers extend meanwhile", async () => {
    for (const onError of ["isolate", "continue", "stop"] as const) {
      const backend = memory();
      const others = connect(backend);
      await others.createTables(Listed);
      let id = 100;
      const meanwhile: Layer = async ({ method }, send) => {
        if (method === "commit" && id < 103)
          await others.open(Listed).insert({ meter: "a", id: id++, tag: "x" });
        return send();
      };
      const db = connect({ ...backend, ...intercept(backend, meanwhile) });
      const results = await batch(
        db,
        (b) => {
          for (let id = 0; id < 6; id++)
            b.insert(Listed, { meter: "a", id, tag: id % 3 ? "x" : "y" });
        },
        { onError },
      );
      assert.deepEqual(
        results.map(({ ok }) => ok),
        Array(6).fill(true),
      );
      const ids = (tag: string) => others.open(Listed).by.tag.ids({ meter: "a", tag });
      assert.deepEqual(
        [(await ids("x")).map(Number), (await ids("y")).map(Number)],
        [
          [1, 2, 4, 5, 100, 101, 102],
          [0, 3],
        ],
      );
    }
  });

  it("writes the entries of an index that is built meanwhile", async () => {
    const backend = memory();
    const operator = connect(backend);
    await operator.createTables(Tagged);
    const tag = indexLifeCycle(operator, Tagged, "tag");
    await tag.disable();
    let commits = 0;
    const meanwhile: Layer = async ({ method, args }, send) => {
      if (method !== "commit") return send();
      // The service refuses a request that arrives after the known state of the index has expired.
      assert.ok(Number((args[2] as Deadline | undefined)?.timeoutS) <= 50);
      const answer = await send();
      if (++commits === 2) await tag.build();
      return answer;
    };
    const ports = intercept(backend, meanwhile);
    const db = connect({
      ...backend,
      ...ports,
      indexStates: controlledIndexes({ unregistered: "readable" }),
    });
    await batch(db, (b) => {
      for (let id = 0; id < 300; id++) b.insert(Tagged, { meter: "a", id, tag: "t" });
    });
    backend.clock.advance(60_000);
    const { entities, missing } = await verifyIndex(operator, Tagged, "tag");
    assert.deepEqual([entities, missing], [300, 0]);
  });

  it("refuses blind deletes and upserts of an indexed entity", async () => {
    const { db } = await open();
    const blind = Tagged as unknown as typeof Reading;
    for (const plan of [
      (b: BatchPlan) => b.delete(blind, { meter: "a", id: 1 }),
      (b: BatchPlan) => b.upsert(blind, { meter: "a", id: 1 }),
    ]) {
      await assert.rejects(batch(db, plan), (error) => isTableError(error, "validation-failed"));
    }
  });

  it("writes every partition, whatever the number written in parallel", async () => {
    for (const parallel of [1, Number.POSITIVE_INFINITY]) {
      const backend = memory();
      const db = connect(backend);
      await db.createTables(Reading);
      const plan = (b: BatchPlan) => {
        for (const meter of ["a", "b", "c"]) b.insert(Reading, { meter, id: 1 });
      };
      const results = await batch(db, plan, { parallel });
      assert.deepEqual(
        Array.from(results, (result) => result?.ok),
        [true, true, true],
      );
      assert.equal((await backend.tables.query("Reading", {})).entities.length, 3);
    }
  });

  it("reports deletes of missing rows as failed, although the first attempt got no answer", async () => {
    const backend = memory();
    const db = connect(backend);
    await db.createTables(Reading);
    for (const id of [1, 2]) await db.open(Reading).insert({ meter: "a", id });
    // The first attempt does not arrive; the second finds row 0 missing.
    const faults = withFaults((_call, count) => (count === 1 ? { kind: "fail" } : undefined));
    const results = await batch(connect({ ...backend, ...intercept(backend, faults) }), (b) => {
      for (const id of [0, 1, 2]) b.delete(Reading, { meter: "a", id });
    });
    assert.deepEqual(
      results.map(({ ok }) => ok),
      [false, true, true],
    );
    assert.deepEqual((await backend.tables.query("Reading", {})).entities, []);
  });

  it("reports deletes as done if only their answer was lost", async () => {
    const backend = memory();
    const db = connect(backend);
    await db.createTables(Reading);
    for (const id of [0, 1]) await db.open(Reading).insert({ meter: "a", id });
    const faults = withFaults((_call, n) => (n === 1 ? { kind: "lose answer" } : undefined));
    const results = await batch(connect({ ...backend, ...intercept(backend, faults) }), (b) => {
      for (const id of [0, 1]) b.delete(Reading, { meter: "a", id });
    });
    assert.ok(results.every(({ ok }) => ok));
  });
});
