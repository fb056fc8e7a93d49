import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { batch } from "./batch.ts";
import { connect, type Database, entity, isTableError, k } from "./index.ts";
import { indexLifeCycle } from "./index-life-cycle.ts";
import { indexRepairs } from "./index-repairs.ts";
import { repairIndex, verifyIndex } from "./index-scrub.ts";
import { type BuildProgress, controlledIndexes } from "./index-states.ts";
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
import { isRefusal, PortError } from "./ports/port-error.ts";
import type { CommitOptions } from "./ports/tables.ts";
import { createWorker } from "./queue-worker.ts";
import { remoteIndex } from "./remote-index.ts";
import { siblingIndex } from "./sibling-index.ts";
import { systemClock } from "./store/clock.ts";
import { loseEveryAnswer } from "./testing/lose-every-answer.ts";
import { schedules } from "./testing/test-histories.ts";
import {
  crashEverywhere,
  FakeClock,
  intercept,
  interleave,
  type Layer,
  type Memory,
  memory,
  withFaults,
} from "./testing.ts";

describe("the life cycle of an index", () => {
  it("costs a measured write nothing where the states are known", async () => {
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

  it("is built in four requests for each entity, three where entries stand beside them", async () => {
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

  for (const name of NAMES) {
    it(`builds an index for entities that are there (${name})`, async () => {
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

    it(`goes on with a build after a crash at any request (${name})`, async () => {
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

    it(`is built and mended although answers get lost (${name})`, async () => {
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

    it(`misses nothing that others write while it is built (${name})`, async () => {
      const write = async (db: Database) => {
        for (let i = 0; i < 2; i++) {
          const id = 1 + Math.floor(db.random() * 3);
          // Each has values of its own: while it is disabled, a unique index keeps nothing unique.
          const email = `e${id}${db.random() < 0.5 ? "" : "x"}`;
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
          await db.clock.sleep(20_000 * db.random());
        }
      };
      await interleave({
        backend: (clock, seed) => memory({ clock, seed, pageEntitiesMax: 2 }),
        connect: { indexStates: controlledIndexes() },
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
          // There may be entries too many until somebody mends; one that is missing nobody would look for.
          assert.equal((await verifyIndex(db, Indexed, name)).missing, 0);
          await mendAll(db, name);
        },
        check: async (db, backend) => {
          assert.deepEqual(await entriesOf(backend, name), await expected(db));
        },
        runs: schedules(60),
      });
    });

    it(`finds every corruption and nothing else, mends it, and is clean then (${name})`, async () => {
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
      // Each might have been a write under way, had it not been the same a minute later.
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

    it(`lists values that are not unique, and becomes readable without reserve once they are (${name})`, async () => {
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

    it(`is built by nobody while it is retired, however long that takes, but afterwards (${name})`, async () => {
      const { backend, db, plain, of } = await open();
      await of(name).disable();
      await of(name).build();
      const builds = new Set<string>();
      const beside: Layer = async ({ method, args }, send) => {
        if (method === "deleteTable" || isDelete(args)) {
          const build = of(name).build();
          builds.add(
            await build.then(
              () => "built",
              (error) => String(error.message.match(/somebody else is building or retiring it/)),
            ),
          );
          backend.clock.advance(40_000);
        }
        return send();
      };
      const states = { indexStates: controlledIndexes() };
      const other = connect({ ...backend, ...intercept(backend, beside), ...states });
      await indexLifeCycle(other, Indexed, name).retire();
      assert.deepEqual([...builds], ["somebody else is building or retiring it"]);
      // The name of a table that was deleted is free again only then.
      backend.clock.advance(MINUTE);
      await db.createTables(Indexed);
      await of(name).build();
      assert.deepEqual(await entriesOf(backend, name), await expected(plain));
    });

    it(`is retired: from readers, from writers, then its entries go (${name})`, async () => {
      const { backend, db, of } = await open(0);
      await db.open(Indexed).insert({ dept: "Sales", id: 1, email: "e1" });
      await of(name)
        .disable()
        .catch(() => undefined);
      await of(name).build();
      await of(name).retire();
      assert.equal(await of(name).state(), "disabled");
      if (name === "near") assert.deepEqual(await entriesOf(backend, name), []);
      else
        assert.equal(
          (await backend.tables.listTables({ from: "ByEmail" })).names.includes("ByEmail"),
          false,
        );
      await db.open(Indexed).update({ dept: "Sales", id: 1 }, () => ({ email: "e2" }));
    });
  }

  it("leaves no entry that became stale the moment before it was inserted", async () => {
    const { backend, db, plain, of } = await open();
    await of("far").disable();
    const beside: Layer = async ({ method, args }, send) => {
      if (method === "commit" && args[0] === "ByEmail" && JSON.stringify(args).includes('"e2"')) {
        await db.open(Indexed).update({ dept: "Sales", id: 2 }, () => ({ email: "new" }));
      }
      return send();
    };
    const builder = connect({ ...backend, ...intercept(backend, beside) });
    await indexLifeCycle(builder, Indexed, "far").build();
    assert.deepEqual(await entriesOf(backend, "far"), await expected(plain));
  });

  it("stays with who retires it also while a whole page of entries is deleted slowly", async () => {
    const { backend, db, of } = await open(0, memory());
    await batch(db, (plan) => {
      for (let id = 1; id <= 250; id++) {
        plan.insert(Plain, { dept: "Sales", id, email: `e${id}` });
      }
    });
    await of("near").disable();
    await of("near").build({ rate: 10_000 });
    const builds: string[] = [];
    const slow: Layer = async ({ args }, send) => {
      if (isDelete(args)) {
        const build = of("near").build();
        builds.push(await build.then(() => "built").catch(() => "refused"));
        backend.clock.advance(40_000);
      }
      return send();
    };
    const retiring = connect({ ...backend, ...intercept(backend, slow) });
    await indexLifeCycle(retiring, Indexed, "near").retire();
    assert.deepEqual(builds, ["refused", "refused", "refused"]);
    assert.deepEqual(await entriesOf(backend, "near"), []);
  });

  it("loses no entry of a later build to who retired it too slowly", async () => {
    const { backend, db, of } = await open();
    await of("near").disable();
    await of("near").build();
    let isLate = false;
    const slow: Layer = async ({ args }, send) => {
      if (isDelete(args) && !isLate) {
        isLate = true;
        backend.clock.advance(2 * MINUTE);
        await of("near").retire();
        await of("near").build();
      }
      return send();
    };
    const retiring = connect({ ...backend, ...intercept(backend, slow) });
    const retired = indexLifeCycle(retiring, Indexed, "near").retire();
    await assert.rejects(retired, (error) => isTableError(error, "conflict"));
    assert.equal(await of("near").state(), "readable");
    assert.deepEqual(await entriesOf(backend, "near"), await expected(db));
  });

  it("deletes also the entry that somebody changed when it was about to be deleted", async () => {
    const { backend, of } = await open();
    await of("near").disable();
    await of("near").build();
    let changes = 0;
    const changing: Layer = async ({ args }, send) => {
      if (isDelete(args) && changes++ === 0) {
        const entry = { partitionKey: "Sales", rowKey: "email_e2", ifMatch: "*", properties: {} };
        await backend.tables.commit("Employee", [{ kind: "merge", ...entry }]);
      }
      return send();
    };
    const retiring = connect({ ...backend, ...intercept(backend, changing) });
    await indexLifeCycle(retiring, Indexed, "near").retire();
    assert.notEqual(changes, 0);
    assert.deepEqual(await entriesOf(backend, "near"), []);
  });

  it("leaves the table to the index of another entity, and to rows of others", async () => {
    const { backend, db } = await open(0);
    const [one, other] = ["Buyer", "Seller"].map((name) => {
      const town = remoteIndex({
        table: "Towns",
        partition: [k.lit(name), k.str("email")],
        row: [k.str("dept"), k.lit("empid"), k.uint("id", 6)],
      });
      return entity(name, { version: 1, fields, key, indexes: { town } });
    });
    for (const definition of [one!, other!]) {
      await db.createTables(definition);
      await db.open(definition).insert({ dept: "Sales", id: 1, email: "e1" });
    }
    await backend.tables.commit("Towns", [
      { kind: "insert", partitionKey: "a", rowKey: "b", properties: {} },
    ]);
    const left = async () =>
      (await everything(backend.tables, "Towns")).entities.map(({ partitionKey }) => partitionKey);
    await indexLifeCycle(db, one!, "town").retire();
    assert.deepEqual(await left(), ["Seller_e1", "a"]);
    await indexLifeCycle(db, other!, "town").retire();
    assert.deepEqual(await left(), ["a"]);
  });

  it("is mended no more once it is being retired", async () => {
    const { backend, of } = await open();
    const retired: string[] = [];
    const beside: Layer = async ({ method, args }, send) => {
      // The repair goes on to its second page.
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
      connect({ ...backend, ...intercept(backend, beside) }),
      Indexed,
      "near",
    );
    await assert.rejects(repair, /disabled: it cannot repair now/);
    assert.equal(retired[0], "disabled");
    assert.deepEqual(await entriesOf(backend, "near"), []);
  });

  it("is not built under a changed definition while its entries are being deleted, nor before they are gone", async () => {
    const { backend, db, of } = await open(3);
    const row = [k.lit("mail"), k.str("email")] as const;
    const { far } = Indexed.indexes;
    const indexes = { near: siblingIndex({ row, unique: true }), far };
    const Changed = entity("Employee", { version: 1, fields, key, indexes });
    await of("near").disable();
    await of("near").build();
    const cycle = indexLifeCycle(db, Changed, "near");
    await cycle.disable();
    // The process ends in the middle.
    const dying = withFaults(({ args }) =>
      isDelete(args) ? { kind: "refuse", status: 403, code: "AuthorizationFailure" } : undefined,
    );
    const retiring = connect({ ...backend, ...intercept(backend, dying) });
    await assert.rejects(indexLifeCycle(retiring, Indexed, "near").retire(), (error) =>
      isRefusal(error, 403),
    );
    await assert.rejects(cycle.build(), /was another before: retire that one/);
    backend.clock.advance(2 * MINUTE);
    await of("near").retire();
    assert.equal((await cycle.build()).done, 3);
  });

  it("is not found in order by a look at none of it", async () => {
    const { db } = await open(1);
    for (const sample of [0, -1, Number.NaN]) {
      await assert.rejects(verifyIndex(db, Indexed, "near", { sample }), (error) =>
        isTableError(error, "validation-failed"),
      );
    }
  });

  it("records as many duplicates as fit, and ends all the same", async () => {
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

  for (const name of NAMES) {
    it(`leaves rows of others where its entries belong, and tells of them (${name})`, async () => {
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
      assert.deepEqual((await backend.tables.get(table, foreign))?.properties, properties);

      await backend.tables.commit(table, [{ kind: "delete", ...foreign, ifMatch: "*" }]);
      assert.equal((await repairIndex(db, Indexed, name)).missing, 1);
      assert.equal(await of(name).state(), "readable");
      assert.deepEqual(await entriesOf(backend, name), await expected(db));
    });
  }

  it("goes slower while the service pushes back, and makes up for nothing", async () => {
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
      // Too often for the retries of one request.
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

  it("goes on at its rate when the clock is set back", () => {
    const clock = new FakeClock();
    const pace = new Pace(clock, 400);
    pace.begin(200);
    clock.advance(-60 * MINUTE);
    assert.equal(pace.waitMs(), 500);
    pace.begin(200);
    assert.equal(pace.waitMs(), 1000);
    clock.advance(1500);
    assert.equal(pace.waitMs(), 0);
  });

  it("is verified and repaired at the rate asked for, and as fast as it can otherwise", async () => {
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
      // 40 entities, then 40 entries.
      assert.equal(await timeOf(scrub(db, Indexed, "far", { rate: 10 })), 4000);
      assert.equal(await timeOf(scrub(db, Indexed, "far")), 0);
    }
  });

  it("is verified from where an earlier one ended, with what that found", async () => {
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
        onProgress(progress) {
          kept = JSON.stringify(progress);
          if (++pagesRead === pagesUntilStop) stop.abort(new Error("Stopped."));
        },
      });
      await assert.rejects(first, /Stopped/);
      assert.deepEqual(await verifyIndex(db, Indexed, "far", { from: JSON.parse(kept) }), whole);
    }
  });

  it("comes back to a value that another writer claims, until it is certain whose it is", async () => {
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

  it("sees what a writer commits that knew nothing of it, as late as the service executes that", async () => {
    const { near } = Indexed.indexes;
    const One = entity("Employee", { version: 1, fields, key, indexes: { near } });
    const { backend, db } = await open();
    const { clock } = backend;
    let execute: (() => void) | undefined;
    // What the writer sent is executed when the build has just read what is there.
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
      const { timeoutS = 0 } = (method === "commit" && (args[2] as CommitOptions)) || {};
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
    const states = { indexStates: controlledIndexes() };
    const writer = connect({ ...backend, ...intercept(backend, late), ...states });
    await assert.rejects(writer.open(One).insert({ dept: "Sales", id: 99, email: "late" }), {
      code: "throttled",
    });
    await built;
    assert.equal((await verifyIndex(db, One, "near")).missing, 0);
  });

  it("is mended by a worker where readers ask for it", async () => {
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

  it("lets one process build, and refuses moves that are none", async () => {
    const { of } = await open(1);
    await assert.rejects(of("far").build(), /cannot build/);
    await of("near").disable();
    await assert.rejects(
      of("near").disable(),
      (error) => isTableError(error, "conflict") && isRefusal(error.cause, 409),
    );
    const progress: BuildProgress[] = [];
    await of("near").build({ onProgress: (one) => progress.push(one) });
    assert.equal(progress.at(-1)?.done, 1);
  });

  it("keeps writers off a state they have not looked at for longer than their lease", async () => {
    const { backend, db, of } = await open(1);
    await of("near").disable();
    const employees = db.open(Indexed);
    await employees.insert({ dept: "Sales", id: 2, email: "two" });
    assert.deepEqual(await entriesOf(backend, "near"), []);
    const other = connect({ ...backend, indexStates: controlledIndexes() });
    const build = indexLifeCycle(other, Indexed, "near").build();
    await build;
    // The same client, whose cache would still say disabled had the build not waited for it.
    await employees.insert({ dept: "Sales", id: 3, email: "three" });
    assert.deepEqual(await entriesOf(backend, "near"), [
      "e1 empid_000001",
      "three empid_000003",
      "two empid_000002",
    ]);
  });

  it("looks at a state again when the clock was set back", async () => {
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

function isDelete(args: readonly unknown[]): boolean {
  return JSON.stringify(args).includes('"kind":"delete"');
}

/** Workers, then repairs until nothing is young. */
async function mendAll(db: Database, name: Name): Promise<void> {
  const worker = createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Indexed])] });
  for (let round = 0; round < 4; round++) {
    await db.clock.sleep(2 * MINUTE);
    await worker.drain();
    await repairIndex(db, Indexed, name);
  }
}
