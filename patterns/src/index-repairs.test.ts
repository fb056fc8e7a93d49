import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { indexLifeCycle } from "./index-life-cycle.ts";
import { indexRepairs } from "./index-repairs.ts";
import { repairIndex, verifyIndex } from "./index-scrub.ts";
import { controlledIndexes } from "./index-states.ts";
import type { AnyEntity } from "./model/follower.ts";
import { createWorker, sendMessage } from "./queue-worker.ts";
import { remoteIndex } from "./remote-index.ts";
import { siblingIndex } from "./sibling-index.ts";
import { schedules } from "./testing/test-histories.ts";
import {
  crashEverywhere,
  type InterleaveOptions,
  intercept,
  interleave,
  type Memory,
  memory,
} from "./testing.ts";

const person = (mode?: "inline") =>
  entity("Person", {
    version: 1,
    fields: { id: f.int32(), town: f.string(), age: f.int32().optional() },
    key: { partition: [k.lit("all")], row: [k.uint("id", 4)] },
    indexes: {
      town: remoteIndex({
        table: "ByTown",
        partition: [k.str("town")],
        row: [k.uint("id", 4)],
        ...(mode && { mode }),
      }),
    },
  });
const Person = person();
const Bare = entity("Person", {
  version: 1,
  fields: { id: f.int32(), town: f.string() },
  key: { partition: [k.lit("all")], row: [k.uint("id", 4)] },
});
const QUEUE = "index-repairs";
const key = { partitionKey: "all", rowKey: "0001" };
const order = (more: object = {}) => ({
  kind: "reconcile",
  key: key.rowKey,
  body: {
    entity: "Person",
    table: "Person",
    base: key,
    hints: { town: [{ partitionKey: "Old", rowKey: "0001" }] },
    ...more,
  },
});
const workerOf = (db: Database, definition: AnyEntity = Person) =>
  createWorker(db, { queue: QUEUE, handlers: [indexRepairs([definition])] });

/** A person whose entry is at a former town, and an order to repair it. */
async function prepare(db: Database, more?: object): Promise<void> {
  await db.createTables(Person);
  await workerOf(db).createQueues();
  await db.open(Person).insert({ id: 1, town: "Old" });
  await db.open(Bare).update({ id: 1 }, () => ({ town: "New" }));
  await sendMessage(db, QUEUE, order(more));
}

async function letWorkersFinish(db: Database, definition: AnyEntity = Person): Promise<void> {
  for (let round = 0; round < 4; round++) {
    await db.clock.sleep(120_000);
    await workerOf(db, definition).drain();
  }
}

async function assertMended(db: Database, backend: Memory): Promise<void> {
  await assertInStep(db, backend);
  assert.deepEqual(backend.queues.contents(QUEUE), []);
  assert.deepEqual(backend.queues.contents(`${QUEUE}-poison`), []);
}

/** One entry, live, where the person lives. */
async function assertInStep(db: Database, backend: Memory): Promise<void> {
  const { town } = await db.open(Person).mustGet({ id: 1 });
  assert.deepEqual(await entriesIn(backend), [[town, "live"]]);
}

/** The same, except that a refused writer may have left a pending entry for a later scrub. */
async function assertLiveInStep(db: Database, backend: Memory): Promise<void> {
  const { town } = await db.open(Person).mustGet({ id: 1 });
  const live = (await entriesIn(backend)).filter(([, state]) => state === "live");
  assert.deepEqual(live, [[town, "live"]]);
}

async function entriesIn(backend: Memory): Promise<[town: string, state: "live" | "pending"][]> {
  const entries: [string, "live" | "pending"][] = [];
  for (const partitionKey of ["Old", "New", "Else"]) {
    const entry = await backend.tables.get("ByTown", { partitionKey, rowKey: "0001" });
    if (entry) entries.push([partitionKey, "rh_s" in entry.properties ? "pending" : "live"]);
  }
  return entries;
}

// A commit that the schedule delays beyond its deadline is refused; nothing is written then.
const moveAway = (db: Database, definition = Person) =>
  db
    .open(definition)
    .update({ id: 1 }, () => ({ town: "Else" }))
    .catch((error) => assert.ok(isTableError(error, "throttled"), String(error)));

describe("index repairs", () => {
  it("come back later for an entry that is too young to delete", async () => {
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    await workerOf(db).drain();
    assert.ok(await backend.tables.get("ByTown", { partitionKey: "New", rowKey: "0001" }));
    assert.ok(await backend.tables.get("ByTown", { partitionKey: "Old", rowKey: "0001" }));
    await letWorkersFinish(db);
    await assertMended(db, backend);
  });

  it("are finished by another worker after a crash at any request", async () => {
    const crashes = await crashEverywhere((db) => workerOf(db).drain(), {
      before: async (db) => {
        await prepare(db);
        await db.clock.sleep(120_000);
      },
      recover: (db) => letWorkersFinish(db),
      check: assertMended,
    });
    assert.ok(crashes > 10);
  });

  it("leave the entity and its entry consistent, whatever writers and workers run concurrently", async () => {
    await interleave({
      before: (db) => prepare(db),
      clients: {
        worker: (db) => workerOf(db).drain(),
        another: (db) => workerOf(db).drain(),
        writer: moveAway,
      },
      crashShare: 0.02,
      recover: (db) => letWorkersFinish(db),
      check: assertMended,
      runs: schedules(150),
    });
  });

  it("delete the entry they inserted just after a concurrent writer had looked for it", async () => {
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    const late = intercept(backend, async ({ method, args }, send) => {
      if (method === "commit" && args[0] === "Person") await workerOf(db).drain();
      return send();
    });
    await moveAway(connect({ ...backend, ...late }));
    await letWorkersFinish(db);
    await assertMended(db, backend);
  });

  for (const [why, definition, of] of [
    ["no message is sent", person("inline"), (db: Database) => db],
    [
      "there are no queues",
      Person,
      ({ tables, clock }: Database) => connect({ tables, clock, indexStates: "trusted" }),
    ],
  ] as const) {
    it(`are left to the scrub if ${why}, and it keeps the live entry correct despite a concurrent writer`, async () => {
      await interleave({
        before: async (db) => {
          await prepare(db);
          await db.clock.sleep(120_000);
        },
        clients: {
          scrub: async (db) => {
            const { young } = await repairIndex(of(db), definition, "town");
            assert.equal(young, 0);
          },
          writer: (db) => moveAway(of(db), definition),
        },
        check: assertLiveInStep,
        runs: schedules(300),
      });
    });
  }

  /** An entry with content that nobody wrote, under the token of its entity's last write. */
  const damaged = (mutated: boolean): InterleaveOptions => {
    const Inline = person("inline");
    return {
      before: async (db) => {
        await db.createTables(Inline);
        await db.open(Inline).insert({ id: 1, town: "Old", age: 1 });
        const entry = (await db.tables.get("ByTown", { partitionKey: "Old", rowKey: "0001" }))!;
        const properties = { ...entry.properties, age: { type: "Int32", value: 7 } } as const;
        await db.tables.commit("ByTown", [{ ...entry, kind: "insertOrReplace", properties }]);
        await db.clock.sleep(120_000);
      },
      clients: {
        scrub: (db) => repairIndex(db, Inline, "town"),
        ages: (db) => db.open(Inline).update({ id: 1 }, ({ age = 0 }) => ({ age: age + 1 })),
        moves: (db) => moveAway(db, Inline),
      },
      check: async (db, backend) => {
        const { town, age } = await db.open(Inline).mustGet({ id: 1 });
        const states = Object.fromEntries(await entriesIn(backend));
        assert.equal(states[town], "live");
        const read = { consistency: "eventual" } as const;
        const [entry] = await db.open(Inline).by.town.range({ town }, read).all();
        assert.equal(entry?.age, age, "the entry says something else");
      },
      ...(mutated && {
        layer:
          (client, { tables }) =>
          (call, send) => {
            if (client !== "scrub" || call.method !== "commit") return send();
            const [table, [mutation], options] = call.args as Parameters<typeof tables.commit>;
            if (table !== "ByTown" || mutation?.kind !== "replace") return send();
            const { ifMatch: _ifMatch, ...rest } = mutation;
            return tables.commit(table, [{ ...rest, kind: "insertOrReplace" }], options);
          },
      }),
    };
  };

  it("correct an entry with wrong copies under a current token, despite concurrent writers", async () => {
    await interleave({ ...damaged(false), runs: schedules(200) });
  });

  it("would overwrite a concurrent write if they replaced entries without an ETag (the check notices)", async () => {
    // One schedule in a thousand shows it: counted from 1, the 228th.
    const runs = interleave({ ...damaged(true), runs: 2000, seed: 1 });
    await assert.rejects(runs, /says something else/);
  });

  it("do not give a unique value back to its former owner after another entity claimed it", async () => {
    const Owner = entity("Owner", {
      version: 1,
      fields: { id: f.int32(), town: f.string(), age: f.int32() },
      key: { partition: [k.lit("all")], row: [k.uint("id", 4)] },
      indexes: {
        town: remoteIndex({
          table: "ByTown",
          partition: [k.str("town")],
          row: [k.lit("owner")],
          unique: true,
          mode: "inline",
        }),
      },
    });
    const backend = memory();
    const db = connect(backend);
    const owners = db.open(Owner);
    await db.createTables(Owner);
    for (const [id, town] of ["Old", "Other"].entries()) await owners.insert({ id, town, age: 1 });
    const at = { partitionKey: "Old", rowKey: "owner" };
    const entry = (await db.tables.get("ByTown", at))!;
    const properties = { ...entry.properties, age: { type: "Int32", value: 7 } } as const;
    await db.tables.commit("ByTown", [{ ...entry, kind: "insertOrReplace", properties }]);
    await db.clock.sleep(120_000);
    let isLate = false;
    const late = intercept(backend, async ({ method }, send) => {
      if (method === "commit" && !isLate) {
        isLate = true;
        await owners.update({ id: 0 }, () => ({ town: "New" }));
        await db.clock.sleep(120_000);
        await owners.update({ id: 1 }, () => ({ town: "Old" }));
      }
      return send();
    });
    await repairIndex(connect({ ...backend, ...late }), Owner, "town");
    assert.ok(isLate);
    assert.equal((await owners.by.town.get({ town: "Old" }))?.id, 1);
  });

  it("upgrade entries to a new version of their entity", async () => {
    const { indexes } = person("inline");
    const key = { partition: [k.lit("all")], row: [k.uint("id", 4)] } as const;
    const fields = { id: f.int32(), town: f.string(), country: f.string() };
    const upgrade = { 1: (old: object) => ({ ...old, country: "de" }) };
    const Newer = entity("Person", { version: 2, fields, key, indexes, upgrade });
    const db = connect(memory());
    await db.createTables(Newer);
    await db.open(person("inline")).insert({ id: 1, town: "Old" });
    await db.clock.sleep(120_000);
    assert.equal((await verifyIndex(db, Newer, "town")).wrong, 1);
    await repairIndex(db, Newer, "town");
    await db.clock.sleep(120_000);
    assert.equal((await verifyIndex(db, Newer, "town")).wrong, 0);
    const read = { consistency: "eventual" } as const;
    const [entry] = await db.open(Newer).by.town.range({ town: "Old" }, read).all();
    assert.equal(entry?.country, "de");
  });

  it("with an older definition keep an entry that a newer program wrote", async () => {
    const indexes = Person.indexes;
    const key = { partition: [k.lit("all")], row: [k.uint("id", 4)] } as const;
    const fields = { id: f.int32(), town: f.string(), phone: f.string().optional() };
    const Newer = entity("Person", { version: 2, fields, key, indexes });
    const db = connect(memory());
    await db.createTables(Newer);
    await workerOf(db).createQueues();
    await db.open(Newer).insert({ id: 1, town: "Old", phone: "112" });
    await db.clock.sleep(120_000);
    assert.equal((await repairIndex(db, Person, "town")).wrong, 0);
    const read = { consistency: "eventual" } as const;
    const [entry] = await db.open(Newer).by.town.range({ town: "Old" }, read).all();
    assert.equal(entry?.phone, "112");
  });

  it("and writers with an older definition keep the entry fields they do not know", async () => {
    const key = { partition: [k.lit("all")], row: [k.lit("id"), k.uint("id", 4)] } as const;
    const fields = { id: f.int32(), town: f.string(), age: f.int32() };
    const indexes = {
      near: siblingIndex({ row: [k.lit("town"), k.str("town"), k.uint("id", 4)] }),
      far: remoteIndex({
        table: "ByTown",
        partition: [k.str("town")],
        row: [k.lit("all"), k.uint("id", 4)],
      }),
    };
    const Old = entity("Person", { version: 1, fields, key, indexes });
    for (const version of [1, 2]) {
      const New = entity("Person", {
        version,
        fields: { ...fields, phone: f.string().optional() },
        key,
        indexes,
        ...(version === 2 && { upgrade: { 1: (old) => ({ ...old, phone: "none" }) } }),
      });
      const backend = memory();
      const db = connect(backend);
      await db.createTables(New);
      const old = createWorker(db, { queue: QUEUE, handlers: [indexRepairs([Old])] });
      await old.createQueues();
      const phones = async (town: string) => {
        const { near, far } = db.open(New).by;
        const found = [
          await near.range({ town }).first(),
          await far.range({ town }, { consistency: "eventual" }).first(),
        ];
        return found.map((person) => [person?.age, person?.phone]);
      };
      await db.open(New).insert({ id: 1, town: "Bonn", age: 1, phone: "112" });
      await db.open(Old).update({ id: 1 }, () => ({ age: 2 }));
      assert.deepEqual(await phones("Bonn"), Array(2).fill([2, "112"]));
      await db.open(Old).update({ id: 1 }, () => ({ town: "Ulm" }));
      assert.deepEqual(await phones("Ulm"), Array(2).fill([2, "112"]));
      backend.clock.advance(120_000);
      await old.drain();
      await db.open(Old).reconcile({ id: 1 });
      for (const name of ["near", "far"]) {
        assert.equal((await verifyIndex(db, New, name)).wrong, 0);
        await repairIndex(db, Old, name);
      }
      assert.deepEqual(await phones("Ulm"), Array(2).fill([2, "112"]));
      await db.open(New).update({ id: 1 }, () => ({ phone: undefined }));
      assert.deepEqual(await phones("Ulm"), Array(2).fill([2, undefined]));
    }
  });

  it("leave a retired index empty, and carry out the rest of the order", async () => {
    const row = [k.uint("id", 4)] as const;
    const Both = entity("Person", {
      version: 1,
      fields: { id: f.int32(), town: f.string() },
      key: { partition: [k.lit("all")], row },
      indexes: {
        retired: remoteIndex({ partition: [k.lit("retired"), k.str("town")], row }),
        town: remoteIndex({ table: "ByTown", partition: [k.str("town")], row }),
      },
    });
    const backend = memory();
    const db = connect({
      ...backend,
      indexStates: controlledIndexes({ unregistered: "readable" }),
    });
    await db.tables.createTable("rhcontrol");
    const retired = [{ partitionKey: "retired_Old", rowKey: "0001" }];
    await prepare(db, { hints: { retired, ...order().body.hints } });
    await indexLifeCycle(db, Both, "retired").retire();
    await letWorkersFinish(db, Both);
    await assertMended(db, backend);
    const { entities } = await backend.tables.query("Person", {});
    assert.deepEqual(
      entities.map(({ partitionKey }) => partitionKey),
      ["all"],
    );
  });

  it("carry out the rest of an order that names an index no longer declared", async () => {
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    await sendMessage(db, QUEUE, order({ hints: { gone: [], ...order().body.hints } }));
    await letWorkersFinish(db);
    await assertMended(db, backend);
  });

  it("set aside an order for an entity that the worker does not know", async () => {
    const backend = memory();
    const db = connect(backend);
    await prepare(db);
    await letWorkersFinish(db);
    await sendMessage(db, QUEUE, order({ entity: "Stranger" }));
    await workerOf(db).drain();
    const [poison] = await workerOf(db).peekPoison();
    assert.match(
      poison?.failure?.error ?? "",
      /entity: Stranger in Person is unknown to this worker/,
    );
  });
});
