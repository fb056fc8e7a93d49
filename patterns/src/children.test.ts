import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { family } from "./children.ts";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { siblingIndex } from "./sibling-index.ts";
import type { Layer } from "./store/layer.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { intercept } from "./testing/intercept.ts";
import { interleave } from "./testing/interleave.ts";
import { memory } from "./testing/memory.ts";
import { histories } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";

const partition = [k.str("dept")] as const;
const Employee = entity("Employee", {
  version: 1,
  table: "Staff",
  fields: { dept: f.string(), id: f.int32(), lastName: f.string() },
  key: { partition, row: [k.lit("empid"), k.uint("id", 6)] },
  indexes: { last: siblingIndex({ row: [k.lit("last"), k.str("lastName"), k.uint("id", 6)] }) },
});
const Review = entity("Review", {
  version: 1,
  table: "Staff",
  fields: { dept: f.string(), id: f.int32(), year: f.int32(), ManagerRating: f.int32() },
  key: { partition, row: [k.lit("empid"), k.uint("id", 6), k.uint("year", 4)] },
});
const Reviewed = family(Employee, Review);
const jones = { dept: "Sales", id: 123, lastName: "Jones" };
const key = { dept: "Sales", id: 123 };
const review = (id: number, year: number) => ({ dept: "Sales", id, year, ManagerRating: 5 });

const before = async (db: Database) => {
  await db.createTables(Reviewed);
  await db.open(Employee).insert(jones);
  for (const year of [2012, 2013]) await db.open(Reviewed).addChild(review(123, year));
};

async function open() {
  const backend = memory();
  const db = connect(backend);
  await before(db);
  return { backend, db, reviewed: db.open(Reviewed) };
}

const years = (found: { children: readonly { year: number }[] } | undefined) =>
  found?.children.map(({ year }) => year);

describe("a family", () => {
  it("keys a child by its parent's key and more segments", async () => {
    const { backend } = await open();
    const { entities } = await backend.tables.query("Staff", {});
    assert.deepEqual(
      entities.map(({ rowKey }) => rowKey),
      ["empid_000123", "empid_000123_2012", "empid_000123_2013", "last_Jones_000123"],
    );
    const { rh_w: _, ...properties } = entities[1]!.properties;
    assert.deepEqual(properties, {
      ManagerRating: { type: "Int32", value: 5 },
      rh_t: { type: "String", value: "Review:1" },
    });
  });

  it("reads a parent and only its own children in one request", async () => {
    const { db } = await open();
    for (const id of [12, 124, 1230]) {
      await db.open(Employee).insert({ ...jones, id });
      await db.open(Reviewed).addChild(review(id, 2012));
    }
    const { requests, entities, result } = await db.metered((metered) =>
      metered.open(Reviewed).withChildren(key),
    );
    assert.deepEqual([requests, entities], [1, 3]);
    assert.equal(result?.parent.lastName, "Jones");
    assert.deepEqual(years(result), [2012, 2013]);
    const late = db.open(Reviewed).children.range({ ...key, year: { gte: 2013 } });
    assert.deepEqual(
      (await late.select("ManagerRating").all()).map(({ ManagerRating }) => ManagerRating),
      [5],
    );
  });

  it("adds a child only to an existing parent, and only once", async () => {
    const { db, reviewed } = await open();
    await assert.rejects(reviewed.addChild(review(999, 2012)), (error) =>
      isTableError(error, "not-found"),
    );
    await assert.rejects(reviewed.addChild(review(123, 2012)), (error) =>
      isTableError(error, "unique-violation"),
    );
    const added = await db.metered((metered) => metered.open(Reviewed).addChild(review(123, 2014)));
    assert.deepEqual([added.requests, added.entities], [1, 2]);
    const { etag } = added.result;
    assert.ok(await reviewed.children.deleteIfUnchanged({ ...review(123, 2014), etag }));
  });

  it("matches a map of parents to their children after any history", async () => {
    const id = fc.integer({ min: 1, max: 3 });
    const command = fc.oneof(
      fc.record({ kind: fc.constant("hire" as const), id }),
      fc.record({ kind: fc.constant("fire" as const), id }),
      fc.record({ kind: fc.constant("rate" as const), id, year: fc.integer({ min: 1, max: 4 }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 30 }), async (commands) => {
        const db = connect(memory());
        await db.createTables(Reviewed);
        const reviewed = db.open(Reviewed);
        const model = new Map<number, Set<number>>();
        for (const command of commands) {
          const parent = model.get(command.id);
          if (command.kind === "hire") {
            await db.open(Employee).upsert({ ...jones, id: command.id });
            if (!parent) model.set(command.id, new Set());
          } else if (command.kind === "fire") {
            const gone = await reviewed.deleteCascade({ dept: "Sales", id: command.id });
            assert.equal(gone, model.delete(command.id));
          } else {
            const isNew = parent && !parent.has(command.year);
            const added = reviewed.addChild(review(command.id, command.year));
            assert.equal(
              await added.then(
                () => true,
                () => false,
              ),
              isNew ?? false,
            );
            parent?.add(command.year);
          }
        }
        for (const id of [1, 2, 3]) {
          const expected = model.get(id);
          const found = await reviewed.withChildren({ dept: "Sales", id });
          assert.deepEqual(years(found), expected && [...expected].sort());
        }
      }),
      histories(50),
    );
  });

  const fire = (db: Database) => db.open(Reviewed).deleteCascade(key);
  const nothingLeft = async (db: Database) =>
    assert.deepEqual((await db.tables.query("Staff", {})).entities, []);

  it("deletes a parent with 250 children, and finishes after a crash at any request", async () => {
    const { db, reviewed } = await open();
    for (let year = 1; year <= 250; year++) await reviewed.addChild(review(123, year));
    assert.equal(await reviewed.deleteCascade(key), true);
    await nothingLeft(db);
    assert.equal(await reviewed.deleteCascade(key), false);
    const crashes = await crashEverywhere(fire, { before, recover: fire, check: nothingLeft });
    assert.equal(crashes, 8);
    assert.equal(await loseEveryAnswer(fire, { before, check: nothingLeft }), 4);
  });

  it("adds a child once if the answer is lost, and completely or not at all in a crash", async () => {
    const add = (db: Database) => db.open(Reviewed).addChild(review(123, 2014));
    const check = async (db: Database) =>
      assert.deepEqual(years(await db.open(Reviewed).withChildren(key)), [2012, 2013, 2014]);
    await loseEveryAnswer(add, { before, check });
    const recover = (db: Database) =>
      add(db).catch((error) => assert.ok(isTableError(error, "unique-violation")));
    await crashEverywhere(add, { before, recover, check });
  });

  it("leaves no child behind if a writer adds one during a cascade", async () => {
    await interleave({
      before,
      clients: {
        fire,
        rate: (db) =>
          db
            .open(Reviewed)
            .addChild(review(123, 2014))
            .catch((error) => assert.ok(isTableError(error, "not-found"))),
      },
      check: nothingLeft,
      runs: "all",
    });
  });

  it("leaves no orphan if a parent and child are inserted while a cascade looks for leftovers", async () => {
    const { backend, db } = await open();
    await db.open(Employee).delete(key);
    let comes = true;
    const insertBeforeQuery: Layer = async ({ method }, send) => {
      if (method === "query" && comes) {
        comes = false;
        await db.open(Employee).insert(jones);
        await db.open(Reviewed).addChild(review(123, 2014));
      }
      return send();
    };
    await fire(connect({ ...backend, ...intercept(backend, insertBeforeQuery) }));
    await nothingLeft(db);
  });

  it("refuses keys by which families could mix", () => {
    const fields = { dept: f.string(), id: f.int32(), year: f.int32(), name: f.string() };
    const inTable = { version: 1, table: "Staff", fields };
    const [id, year, name] = [k.uint("id", 6), k.uint("year", 4), k.str("name")];
    const byId = entity("A", { ...inTable, key: { partition, row: [id] } });
    const byName = entity("B", { ...inTable, key: { partition, row: [name] } });
    const refused = (declare: () => unknown) =>
      assert.throws(declare, (error) => isTableError(error, "invalid-definition"));
    refused(() => family(byId, entity("C", { ...inTable, key: { partition, row: [id] } })));
    refused(() => family(byId, entity("C", { ...inTable, key: { partition, row: [year, id] } })));
    refused(() =>
      family(byName, entity("C", { ...inTable, key: { partition, row: [name, year] } })),
    );
    const narrow = [k.uint("id", 4), year] as const;
    refused(() => family(byId, entity("C", { ...inTable, key: { partition, row: narrow } })));
    const [few, many] = [8, 16].map((buckets) => [k.hash("dept", buckets)] as const);
    const spread = entity("A", { ...inTable, key: { partition: few!, row: [id] } });
    const wider = entity("C", { ...inTable, key: { partition: many!, row: [id, year] } });
    refused(() => family(spread, wider));
    refused(() => family(Employee, Review.in("Elsewhere")));
  });
});
