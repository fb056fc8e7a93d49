import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { batch } from "./batch.ts";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { indexLifeCycle } from "./index-life-cycle.ts";
import { indexRepairs } from "./index-repairs.ts";
import { repairIndex, verifyIndex } from "./index-scrub.ts";
import { controlledIndexes } from "./index-states.ts";
import { Pace } from "./indexes/build-range.ts";
import { fields, Indexed, key, Plain } from "./indexes/test-employee.ts";
import {
  entriesOf,
  everything,
  expected,
  MINUTE,
  NAMES,
  type Name,
  open,
  prepareIn,
} from "./indexes/test-life-cycle.ts";
import type { Row } from "./model/entity-rows.ts";
import { PortError } from "./ports/port-error.ts";
import type { Deadline } from "./ports/tables.ts";
import { createWorker } from "./queue-worker.ts";
import { remoteIndex } from "./remote-index.ts";
import { siblingIndex } from "./sibling-index.ts";
import { schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";
import {
  crashEverywhere,
  FakeClock,
  type InterleaveOptions,
  intercept,
  interleave,
  type Layer,
  type Memory,
  memory,
  withFaults,
} from "./testing.ts";

describe("the build of an index", () => {
  for (const name of NAMES) {
    it(`writes the entries of existing entities, and the index becomes readable (${name})`, async () => {
      const { backend, db, plain, of } = await open();
      await of(name).disable();
      const { near, far } = db.open(Indexed).by;
      await assert.rejects(
        name === "near" ? near.get({ dept: "Sales", email: "e1" }) : far.get({ email: "e1" }),
        (error) => isTableError(error, "index-not-readable") && error.state === "disabled",
      );
      const seen: number[] = [];
      const { done } = await of(name).build({ onProgress: (progress) => seen.push(progress.done) });
      assert.equal(done, 5);
      assert.ok(seen.length > 1);
      assert.equal(await of(name).state(), "readable");
      assert.deepEqual(await entriesOf(backend, name), await expected(plain));
      backend.clock.advance(MINUTE);
      const { examples, ...counts } = await verifyIndex(db, Indexed, name);
      const bad = { missing: 0, wrong: 0, dangling: 0, duplicate: 0, young: 0 };
      const clean = { ...bad, repairRequests: 0 };
      assert.deepEqual([counts, examples], [{ entities: 5, entries: 5, ...clean }, []]);
    });

    it(`finishes after a crash at any request (${name})`, async () => {
      await crashEverywhere((db) => indexLifeCycle(db, Indexed, name).build(), {
        backend: () => memory({ pageEntitiesMax: 2 }),
        before: async (db) => {
          await prepareIn(db, 3);
          await indexLifeCycle(db, Indexed, name).disable();
        },
        recover: async (db) => {
          const cycle = indexLifeCycle(db, Indexed, name);
          if ((await cycle.state()) !== "readable") await cycle.build();
        },
        check: async (db, backend) => {
          assert.deepEqual(await entriesOf(backend, name), await expected(db));
          assert.equal(await indexLifeCycle(db, Indexed, name).state(), "readable");
        },
      });
    });

    it(`finishes if answers are lost, and so does a repair (${name})`, async () => {
      const before = async (db: Database) => {
        await prepareIn(db, 2);
        await indexLifeCycle(db, Indexed, name).disable();
      };
      const check = async (db: Database, backend: Memory) => {
        assert.deepEqual(await entriesOf(backend, name), await expected(db));
        assert.equal(await indexLifeCycle(db, Indexed, name).state(), "readable");
      };
      const build = (db: Database) => indexLifeCycle(db, Indexed, name).build();
      assert.ok((await loseEveryAnswer(build, { before, check })) > 8);
      const unbuilt = async (db: Database) => {
        await prepareIn(db, 2);
        await db.clock.sleep(2 * MINUTE);
      };
      const repair = (db: Database) => repairIndex(db, Indexed, name);
      assert.ok((await loseEveryAnswer(repair, { before: unbuilt, check })) > 5);
    });

    it(`misses no entity that writers change meanwhile (${name})`, async () => {
      const write = async (db: Database) => {
        for (let i = 0; i < 2; i++) {
          const id = 1 + Math.floor(db.random() * 3);
          // Each has values of its own: while it is disabled, a unique index keeps nothing unique.
          await change(db, id, `e${id}${db.random() < 0.5 ? "" : "x"}`);
          await db.clock.sleep(20_000 * db.random());
        }
      };
      await interleave({
        backend: (clock, seed) => memory({ clock, seed, pageEntitiesMax: 2 }),
        connect: { indexStates: controlledIndexes({ unregistered: "readable" }) },
        before: async (db) => {
          await prepareIn(db, 3);
          for (const each of NAMES) await indexLifeCycle(db, Indexed, each).disable();
        },
        clients: {
          builder: (db) => indexLifeCycle(db, Indexed, name).build({ rate: 1000 }),
          one: write,
          two: write,
        },
        crashShare: 0.01,
        recover: async (db) => {
          await db.clock.sleep(2 * MINUTE);
          const cycle = indexLifeCycle(db, Indexed, name);
          if (!(await cycle.state()).startsWith("readable")) await cycle.build();
          // Surplus entries may exist until a repair; a missing one would never be looked for.
          assert.equal((await verifyIndex(db, Indexed, name)).missing, 0);
          await mendAll(db, name);
        },
        check: async (db, backend) => {
          assert.deepEqual(await entriesOf(backend, name), await expected(db));
        },
        runs: schedules(60),
      });
    });

    it(`leaves an entry to its owner when another entity with the value is deleted (${name})`, async () => {
      const { backend, db, plain, of } = await open(3);
      for (const id of [8, 9]) {
        await plain.open(Plain).insert({ dept: "Sales", id, email: "e1" });
      }
      await of(name).disable();
      const employees = db.open(Indexed);
      const left: Promise<unknown>[] = [];
      // One entity per page; the first page holds the entity that has the entry.
      const onProgress = () => {
        if (left.length === 0) left.push(employees.delete({ dept: "Sales", id: 8 }));
      };
      await of(name).build({ onProgress });
      await Promise.all(left);
      assert.equal(await of(name).state(), "readable-dups");
      const first = ["e1 empid_000001", "e2 empid_000002", "e3 empid_000003"];
      assert.deepEqual(await entriesOf(backend, name), first);
      await employees.update({ dept: "Sales", id: 9 }, () => ({}));
      assert.deepEqual(await entriesOf(backend, name), first);
      await employees.update({ dept: "Sales", id: 9 }, () => ({ email: "e9" }));
      assert.deepEqual(await entriesOf(backend, name), [...first, "e9 empid_000009"]);
      backend.clock.advance(2 * MINUTE);
      const { missing, wrong, dangling, duplicate } = await repairIndex(db, Indexed, name);
      assert.deepEqual([missing, wrong, dangling, duplicate], [0, 0, 0, 0]);
      assert.equal(await of(name).state(), "readable");
    });

    it(`leaves no stale entries when some writers maintained the index before others did (${name})`, async () => {
      const { backend, db, plain, of } = await open(3);
      await of(name).disable();
      const update = (database: Database, email: string) =>
        database.open(Indexed).update({ dept: "Sales", id: 2 }, () => ({ email }));
      // It keeps using the state that it reads here for a while.
      await update(db, "one");
      let moves = 0;
      const updateAfterMove: Layer = async ({ method, args }, send) => {
        const answer = await send();
        const isMove = method === "commit" && JSON.stringify(args).includes('"writeonly"');
        if (isMove && moves++ === 0) {
          const other = connect({
            ...backend,
            indexStates: controlledIndexes({ unregistered: "readable" }),
          });
          await update(other, "two");
          await update(db, "three");
        }
        return answer;
      };
      const builder = connect({ ...backend, ...intercept(backend, updateAfterMove) });
      await indexLifeCycle(builder, Indexed, name).build();
      assert.equal(await of(name).state(), "readable");
      assert.deepEqual(await entriesOf(backend, name), await expected(plain));
    });

    it(`keeps the index readable-dups while two entities wait for one value (${name})`, async () => {
      const { backend, db, plain, of } = await open(1);
      for (const id of [8, 9]) {
        await plain.open(Plain).insert({ dept: "Sales", id, email: "e1" });
      }
      await of(name).disable();
      await of(name).build();
      backend.clock.advance(2 * MINUTE);
      await db.open(Indexed).delete({ dept: "Sales", id: 1 });
      backend.clock.advance(2 * MINUTE);
      const { missing, duplicate } = await repairIndex(db, Indexed, name);
      assert.deepEqual([missing, duplicate], [1, 1]);
      assert.equal(await of(name).state(), "readable-dups");
    });

    it(`leaves a correct index once it is readable, even if values were not unique before (${name})`, async () => {
      const write = async (db: Database) => {
        for (let i = 0; i < 3; i++) {
          const id = 1 + Math.floor(db.random() * 4);
          await change(db, id, `e${1 + Math.floor(db.random() * 2)}`);
          await db.clock.sleep(30_000 * db.random());
        }
      };
      const options: InterleaveOptions = {
        backend: (clock, seed) => memory({ clock, seed, pageEntitiesMax: 1 }),
        connect: { indexStates: controlledIndexes({ unregistered: "readable" }) },
        before: async (db) => {
          await prepareIn(db, 0);
          for (const [i, email] of ["e1", "e2", "e1", "e2"].entries()) {
            await db.open(Plain).insert({ dept: "Sales", id: i + 1, email });
          }
          for (const each of NAMES) await indexLifeCycle(db, Indexed, each).disable();
        },
        clients: {
          builder: (db) => indexLifeCycle(db, Indexed, name).build({ rate: 1000 }),
          one: write,
          two: write,
        },
        crashShare: 0.01,
        recover: async (db) => {
          await db.clock.sleep(2 * MINUTE);
          const cycle = indexLifeCycle(db, Indexed, name);
          if (!(await cycle.state()).startsWith("readable")) await cycle.build();
          await db.clock.sleep(2 * MINUTE);
          const { missing, duplicate, dangling } = await verifyIndex(db, Indexed, name);
          if ((await cycle.state()) === "readable") assert.equal(missing + duplicate, 0);
          // In the other index, entries of a crashed writer may remain.
          if (name === "near") assert.equal(dangling, 0);
          await mendAll(db, name);
        },
        check: async (db, backend) => {
          const entries = await entriesOf(backend, name);
          const bases = await expected(db);
          const valuesIn = (all: readonly string[]) =>
            [...new Set(all.map((one) => one.split(" ")[0]))].sort();
          assert.deepEqual(
            entries.filter((entry) => !bases.includes(entry)),
            [],
          );
          assert.deepEqual(valuesIn(entries), valuesIn(bases));
          if ((await indexLifeCycle(db, Indexed, name).state()) === "readable") {
            assert.deepEqual(entries, bases);
          }
        },
        runs: schedules(60),
      };
      await interleave({ ...options, seed: 737163836, runs: 1 });
      await interleave(options);
    });

    it(`lists values that are not unique, and the index becomes readable once they are (${name})`, async () => {
      const { backend, db, plain, of } = await open(3);
      await plain.open(Plain).insert({ dept: "Sales", id: 9, email: "e1" });
      await of(name).disable();
      const { duplicates } = await of(name).build();
      assert.deepEqual(duplicates, ["Sales | empid_000009"]);
      assert.equal(await of(name).state(), "readable-dups");
      const { near, far } = db.open(Indexed).by;
      const value = { dept: "Sales", email: "e1" };
      assert.equal((await (name === "near" ? near.get(value) : far.get(value)))?.id, 1);
      backend.clock.advance(2 * MINUTE);
      assert.equal((await repairIndex(db, Indexed, name)).duplicate, 1);
      await plain.open(Plain).delete({ dept: "Sales", id: 9 });
      backend.clock.advance(2 * MINUTE);
      await repairIndex(db, Indexed, name);
      assert.equal(await of(name).state(), "readable");
    });
  }

  it("lets writers delete entities, or their values, whose entries are not written yet", async () => {
    const tagged = { ...fields, tags: f.json<readonly string[]>() };
    const plain = entity("Employee", { version: 1, fields: tagged, key });
    const Tagged = entity("Employee", {
      version: 1,
      fields: tagged,
      key,
      indexes: {
        tags: siblingIndex({
          row: [k.lit("tag"), k.str("tag"), k.uint("id", 6)],
          each: { tag: ({ tags }) => tags as readonly string[] },
        }),
      },
    });
    const { backend, db } = await open(0);
    const tags = ["a", "b", "c", "d", "e", "f"];
    for (const id of [1, 2]) {
      await db.open(plain).insert({ dept: "Sales", id, email: `e${id}`, tags });
    }
    const cycle = indexLifeCycle(db, Tagged, "tags");
    await cycle.disable();
    let work: Promise<unknown> | undefined;
    const meanwhile: Layer = async ({ method, args }, send) => {
      // Before the first entity is read, while writers already maintain the index.
      if (method === "query" && args[0] === "Employee") {
        work ??= (async () => {
          const employees = db.open(Tagged);
          await employees.delete({ dept: "Sales", id: 1 });
          await employees.update({ dept: "Sales", id: 2 }, () => ({ tags: ["f"] }));
        })();
        await work;
      }
      return send();
    };
    const builder = connect({ ...backend, ...intercept(backend, meanwhile) });
    await indexLifeCycle(builder, Tagged, "tags").build();
    const { entities } = await everything(backend.tables, "Employee");
    assert.deepEqual(
      entities.map(({ rowKey }) => rowKey),
      ["empid_000002", "tag_f_000002"],
    );
  });

  it("writes the remaining entries of an entity that shares one value with another", async () => {
    const tagged = { ...fields, tags: f.json<readonly string[]>() };
    const plain = entity("Employee", { version: 1, fields: tagged, key });
    const each = { tag: ({ tags }: Row) => tags as readonly string[] };
    const Tagged = entity("Employee", {
      version: 1,
      fields: tagged,
      key,
      indexes: {
        near: siblingIndex({ row: [k.lit("tag"), k.str("tag")], each, unique: true }),
        far: remoteIndex({
          table: "ByEmail",
          partition: [k.str("tag")],
          row: [k.lit("tag")],
          each,
          unique: true,
        }),
      },
    });
    const { db } = await open(0);
    for (const [id, tags] of [["a"], ["b", "a", "c"]].entries()) {
      await db.open(plain).insert({ dept: "Sales", id, email: "e", tags });
    }
    for (const name of NAMES) {
      const cycle = indexLifeCycle(db, Tagged, name);
      await cycle.disable();
      const { duplicates } = await cycle.build();
      assert.deepEqual(duplicates, ["Sales | empid_000001"]);
    }
    const { near, far } = db.open(Tagged).by;
    for (const [tag, id] of [
      ["a", 0],
      ["b", 1],
      ["c", 1],
    ] as const) {
      assert.equal((await near.get({ dept: "Sales", tag }))?.id, id);
      assert.equal((await far.get({ tag }))?.id, id);
    }
  });

  it("costs four requests for each entity, three in a sibling index", async () => {
    for (const [name, each] of [
      ["near", 3],
      ["far", 4],
    ] as const) {
      const requestsFor = async (count: number) => {
        const { db, of } = await open(count, memory());
        await of(name).disable();
        return (await db.metered((metered) => indexLifeCycle(metered, Indexed, name).build()))
          .requests;
      };
      assert.equal((await requestsFor(12)) - (await requestsFor(2)), 10 * each, name);
    }
  });

  it("leaves no entry that became stale just before it was inserted", async () => {
    const { backend, db, plain, of } = await open();
    await of("far").disable();
    const updateBeforeInsert: Layer = async ({ method, args }, send) => {
      if (method === "commit" && args[0] === "ByEmail" && JSON.stringify(args).includes('"e2"')) {
        await db.open(Indexed).update({ dept: "Sales", id: 2 }, () => ({ email: "new" }));
      }
      return send();
    };
    const builder = connect({ ...backend, ...intercept(backend, updateBeforeInsert) });
    await indexLifeCycle(builder, Indexed, "far").build();
    assert.deepEqual(await entriesOf(backend, "far"), await expected(plain));
  });

  it("records as many duplicates as its row holds, and finishes with more", async () => {
    const { backend, db, of } = await open(0, memory());
    await of("far").disable();
    const dept = "Department of many words ".repeat(2);
    await batch(db, (plan) => {
      for (let id = 1; id <= 900; id++) plan.insert(Plain, { dept, id, email: "same" });
    });
    const { done, written, errors, duplicates } = await of("far").build({ rate: 10_000 });
    assert.deepEqual([done, written, errors], [900, 1, 899]);
    assert.ok(duplicates.length > 200 && duplicates.length < 900, `${duplicates.length}`);
    assert.equal(await of("far").state(), "readable-dups");
    const [row] = (await everything(backend.tables, "rhcontrol")).entities;
    assert.ok(String(row?.properties.control?.value).length <= 32_768);
  });

  it("slows down while the service pushes back, and does not catch up afterwards", async () => {
    const { backend, of } = await open(0, memory());
    await of("near").disable();
    await batch(connect(backend), (plan) => {
      for (let id = 1; id <= 400; id++) {
        plan.insert(Plain, { dept: "Sales", id, email: `e${id}` });
      }
    });
    let pushBacks = 0;
    const layer = withFaults(({ method, args }) => {
      const isBuilt = method === "commit" && args[0] === "Employee";
      // More often than one request is retried.
      return isBuilt && pushBacks++ < 100
        ? { kind: "refuse", status: 503, code: "ServerBusy" }
        : undefined;
    });
    const db = connect({ ...backend, ...intercept(backend, layer) });
    const { done } = await indexLifeCycle(db, Indexed, "near").build({ rate: 400 });
    assert.ok(pushBacks > 100);
    assert.equal(done, 400);
    backend.clock.advance(MINUTE);
    assert.equal((await verifyIndex(connect(backend), Indexed, "near")).missing, 0);
    const clock = new FakeClock();
    const pace = new Pace(clock, 400);
    pace.begin(200);
    assert.equal(pace.waitMs(), 500);
    assert.ok(pace.slower());
    clock.advance(10_000);
    pace.begin(200);
    assert.equal(pace.waitMs(), 1000);
    for (let i = 0; i < 3; i++) assert.ok(pace.slower());
    assert.ok(!pace.slower());
  });

  it("retries a value that another writer has claimed, until that claim settles", async () => {
    const { backend, db, of } = await open(2);
    await of("far").disable();
    const claim = {
      basePK: { type: "String", value: "Sales" },
      baseRK: { type: "String", value: "empid_000099" },
      rh_t: { type: "String", value: "Employee.far:1" },
      rh_s: { type: "String", value: "p" },
    } as const;
    const build = of("far").build({
      onProgress: () => assert.ok(backend.clock.now() > claimedAt + MINUTE),
    });
    await backend.tables.commit("ByEmail", [
      { kind: "insert", partitionKey: "e1", rowKey: "owner", properties: claim },
    ]);
    const claimedAt = backend.clock.now();
    const { duplicates } = await build;
    assert.deepEqual(duplicates, []);
    assert.deepEqual(await entriesOf(backend, "far"), await expected(db));
  });

  it("sees the commit of a writer that did not know the index, however late the service executes it", async () => {
    const { near } = Indexed.indexes;
    const One = entity("Employee", { version: 1, fields, key, indexes: { near } });
    const { backend, db } = await open();
    const { clock } = backend;
    let execute: (() => void) | undefined;
    // The service executes the writer's request right after the build has read the existing entities.
    const reading: Layer = async ({ method, args: [table] }, send) => {
      const answer = await send();
      if (method === "query" && table === "Employee") execute?.();
      return answer;
    };
    const life = indexLifeCycle(
      connect({ ...backend, ...intercept(backend, reading) }),
      One,
      "near",
    );
    await life.disable();
    let built: Promise<unknown> | undefined;
    const late: Layer = ({ method, args }, send) => {
      const { timeoutS = 0 } = (method === "commit" && (args[2] as Deadline)) || {};
      if (timeoutS === 0) return send();
      const sentAt = clock.now();
      return new Promise((resolve, reject) => {
        execute = () => {
          execute = undefined;
          const isLate = clock.now() - sentAt > timeoutS * 1000;
          const gaveUp = { status: 500, code: "OperationTimedOut" };
          if (isLate) reject(new PortError("The service gave up on it.", gaveUp));
          else send().then(resolve, reject);
        };
        built = life.build();
      });
    };
    const states = { indexStates: controlledIndexes({ unregistered: "readable" }) };
    const writer = connect({ ...backend, ...intercept(backend, late), ...states });
    await assert.rejects(writer.open(One).insert({ dept: "Sales", id: 99, email: "late" }), {
      code: "throttled",
    });
    await built;
    assert.equal((await verifyIndex(db, One, "near")).missing, 0);
  });
});

/** Runs workers, then repairs until nothing is young. */
async function mendAll(db: Database, name: Name): Promise<void> {
  const worker = createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Indexed])] });
  for (let round = 0; round < 4; round++) {
    await db.clock.sleep(2 * MINUTE);
    await worker.drain();
    await repairIndex(db, Indexed, name);
  }
}

/** Gives an employee this address, or deletes the employee; a refusal caused by other clients is not a failure. */
async function change(db: Database, id: number, email: string): Promise<void> {
  const employees = db.open(Indexed);
  try {
    if (db.random() < 0.3) await employees.delete({ dept: "Sales", id });
    else await employees.upsert({ dept: "Sales", id, email });
  } catch (error) {
    const isExpected =
      isTableError(error, "unique-violation") ||
      isTableError(error, "throttled") ||
      isTableError(error, "contention-exhausted");
    if (!isExpected) throw error;
  }
}
