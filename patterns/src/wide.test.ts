import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, f, isTableError, k } from "./index.ts";
import type { StandardSchema } from "./model/standard-schema.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { interleave } from "./testing/interleave.ts";
import { memory } from "./testing/memory.ts";
import { histories, schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";
import { wide } from "./wide.ts";

const key = { partition: [k.str("dept")], row: [k.uint("id", 6), k.uint("year", 4)] } as const;
const keyFields = { dept: f.string(), id: f.int32(), year: f.int32() };
const number = f.int32().optional();
const abc = { ...keyFields, a: number, b: number, c: number, d: number, e: number };
const Year = wide("YearStats", { version: 1, fields: abc, key, perPart: 2 });
const jones = { dept: "Sales", id: 123, year: 2014 };

const days = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, i) => [`day_${String(i + 1).padStart(3, "0")}`, number]),
  );

async function open() {
  const backend = memory();
  const db = connect(backend);
  await db.createTables(Year);
  return { backend, db, year: db.open(Year) };
}

const rowKeys = async (db: Database, table = "YearStats") =>
  (await db.tables.query(table, {})).entities.map(({ rowKey }) => rowKey);

const withoutEtag = (row: object | undefined) =>
  row && Object.fromEntries(Object.entries(row).filter(([name]) => name !== "etag"));

describe("a wide entity", () => {
  it("stores 365 days in two rows of its partition", async () => {
    const { backend, db } = await open();
    const named = { day_001: number, day_248: number, day_249: number, day_365: number };
    const fields = { ...keyFields, ...days(365), ...named };
    const Days = wide("Days", { version: 1, fields, key });
    await db.createTables(Days);
    await db.open(Days).write({ ...jones, day_001: 1, day_248: 2, day_249: 3, day_365: 4 });
    assert.deepEqual(await rowKeys(db, "Days"), ["000123_2014_01", "000123_2014_02"]);
    const partKey = { partitionKey: "Sales", rowKey: "000123_2014_02" };
    const { rh_w, rh_x, ...properties } = (await backend.tables.get("Days", partKey))!.properties;
    assert.deepEqual(properties, {
      day_249: { type: "Int32", value: 3 },
      day_365: { type: "Int32", value: 4 },
      rh_t: { type: "String", value: "Days:1" },
    });
    assert.equal(rh_x?.value, `2:${rh_w?.value}`);
    assert.equal((await db.open(Days).read(jones))?.day_249, 3);
  });

  it("has one part for each 248 fields, and at most 99 parts", () => {
    const parts = async (count: number) => {
      const db = connect(memory());
      const Days = wide("Days", { version: 1, fields: { ...keyFields, ...days(count) }, key });
      await db.createTables(Days);
      await db.open(Days).write(jones);
      return (await rowKeys(db, "Days")).length;
    };
    const refused = (count: number, perPart: number) =>
      assert.throws(
        () => wide("Days", { version: 1, fields: { ...keyFields, ...days(count) }, key, perPart }),
        (error) => isTableError(error, "invalid-definition"),
      );
    refused(100, 1);
    refused(3, 0);
    refused(3, 249);
    wide("Days", { version: 1, fields: { ...keyFields, ...days(99) }, key, perPart: 1 });
    return Promise.all([248, 249, 496, 497].map(parts)).then((counts) =>
      assert.deepEqual(counts, [1, 2, 2, 3]),
    );
  });

  it("matches one object after any history", async () => {
    const value = fc.option(fc.nat(9), { nil: undefined });
    const record = fc.record(
      { a: value, b: value, c: value, d: value, e: value },
      { requiredKeys: [] },
    );
    const command = fc.tuple(fc.constantFrom("write", "merge", "delete"), record);
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 20 }), async (commands) => {
        const { year } = await open();
        let model: Record<string, unknown> | undefined;
        for (const [kind, values] of commands) {
          const fields = { ...jones, ...values } as typeof jones & { a?: number };
          if (kind === "write") {
            await year.write(fields);
            model = fields;
          } else if (kind === "delete") {
            assert.equal(await year.delete(jones), model !== undefined);
            model = undefined;
          } else {
            const merged = year.merge(fields).then(
              () => true,
              () => false,
            );
            assert.equal(await merged, model !== undefined);
            model = model && { ...model, ...fields };
          }
          const expected =
            model && Object.entries(model).filter(([, value]) => value !== undefined);
          assert.deepEqual(
            withoutEtag(await year.read(jones)),
            expected && Object.fromEntries(expected),
          );
        }
      }),
      histories(60),
    );
  });

  it("grows and shrinks with its definition", async () => {
    const { db, year } = await open();
    const fewer = { ...keyFields, a: number, b: number };
    const Small = wide("YearStats", { version: 1, fields: fewer, key, perPart: 2 });
    await db.open(Small).write({ ...jones, a: 1 });
    assert.deepEqual(await rowKeys(db), ["000123_2014_01"]);
    await year.merge({ ...jones, e: 5 });
    assert.deepEqual(withoutEtag(await year.read(jones)), { ...jones, a: 1, e: 5 });
    assert.equal((await rowKeys(db)).length, 3);
    await db.open(Small).write({ ...jones, b: 2 });
    assert.deepEqual(await rowKeys(db), ["000123_2014_01"]);
  });

  it("is not overwritten by code of an older version that would lose newer fields", async () => {
    const { db, year } = await open();
    const fields = { ...abc, added: number };
    const Newer = wide("YearStats", { version: 2, fields, key, perPart: 2 });
    await db.open(Newer).write({ ...jones, a: 1, added: 2 });
    await assert.rejects(year.write({ ...jones, a: 3 }), { code: "validation-failed" });
    await assert.rejects(year.merge({ ...jones, a: 3, c: 3 }), { code: "validation-failed" });
    await year.merge({ ...jones, a: 3 });
    const expected = { ...jones, a: 3, added: 2 };
    assert.deepEqual(withoutEtag(await db.open(Newer).read(jones)), expected);
  });

  it("costs the requests and entities that the manual states", async () => {
    const { db } = await open();
    const cost = async (work: (db: Database) => Promise<unknown>) => {
      const { requests, entities } = await db.metered(work);
      return [requests, entities];
    };
    const write = (db: Database) => db.open(Year).write(jones);
    await write(db);
    assert.deepEqual(await cost(write), [2, 4]);
    assert.deepEqual(await cost((db) => db.open(Year).read(jones)), [1, 3]);
    assert.deepEqual(await cost((db) => db.open(Year).merge({ ...jones, e: 1 })), [1, 2]);
    assert.deepEqual(await cost((db) => db.open(Year).delete(jones)), [2, 4]);
  });

  it("refuses invalid values and absent entities", async () => {
    const { year } = await open();
    await year.write(jones);
    await assert.rejects(year.write({ ...jones, a: 1.5 }), (error) =>
      isTableError(error, "validation-failed"),
    );
    await assert.rejects(year.merge({ ...jones, a: 1.5 }), (error) =>
      isTableError(error, "validation-failed"),
    );
    const { db } = await open();
    const small: StandardSchema<number> = {
      "~standard": {
        version: 1,
        vendor: "test",
        validate: (value) =>
          Number(value) < 10 ? { value: Number(value) } : { issues: [{ message: "is too large" }] },
      },
    };
    const fields = { ...keyFields, a: f.int32(small).optional() };
    const Refined = wide("YearStats", { version: 1, fields, key });
    await db.open(Refined).write({ ...jones, a: 9 });
    await assert.rejects(db.open(Refined).merge({ ...jones, a: 10 }), {
      code: "validation-failed",
    });
    await assert.rejects(year.merge({ ...jones, id: 9, a: 1 }), (error) =>
      isTableError(error, "not-found"),
    );
  });

  const all = (value: number) => ({ ...jones, a: value, b: value, c: value, d: value, e: value });
  const before = async (db: Database) => {
    await db.createTables(Year);
    await db.open(Year).write(all(0));
  };
  const write = (value: number) => (db: Database) => db.open(Year).write(all(value));
  const valueIn = async (db: Database) => {
    const found = await db.open(Year).read(jones);
    if (!found) return undefined;
    const { a, b, c, d, e } = found;
    assert.equal(new Set([a, b, c, d, e]).size, 1);
    return a;
  };
  const isWhole = async (db: Database) => assert.ok((await valueIn(db)) !== undefined);

  it("is never torn by writers, crashes or lost answers", async () => {
    await crashEverywhere(write(1), { before, check: isWhole });
    const is = (value: number) => async (db: Database) => assert.equal(await valueIn(db), value);
    await crashEverywhere(write(1), { before, recover: write(1), check: is(1) });
    await loseEveryAnswer(write(1), { before, check: is(1) });
    const gone = async (db: Database) => assert.deepEqual(await rowKeys(db), []);
    const remove = (db: Database) => db.open(Year).delete(jones);
    await crashEverywhere(remove, { before, recover: remove, check: gone });
    await loseEveryAnswer(remove, { before, check: gone });
  });

  for (const [state, prepare, runs] of [
    ["exists", before, schedules(500)],
    ["is absent", (db: Database) => db.createTables(Year), "all"],
  ] as const) {
    it(`takes concurrent writes one after the other, each once, if it ${state}`, async () => {
      let values: unknown[] = [];
      const see = async (db: Database) => {
        const value = await valueIn(db);
        if (value !== values.at(-1)) values.push(value);
      };
      const first = state === "exists" ? [0] : [];
      await interleave({
        before: async (db) => {
          values = [];
          await prepare(db);
          await see(db);
        },
        clients: {
          one: async (db) => {
            await write(1)(db);
            await write(2)(db);
          },
          two: write(3),
          reader: see,
        },
        always: (backend) => see(connect(backend)),
        check: async () => {
          assert.deepEqual(values.slice(0, first.length), first);
          assert.deepEqual(values.toSorted(), [...first, 1, 2, 3]);
          assert.ok(values.indexOf(1) < values.indexOf(2), `${values}`);
        },
        runs,
      });
    });
  }

  it("loses no concurrent merge to another part", async () => {
    await interleave({
      before,
      clients: {
        one: (db) => db.open(Year).merge({ ...jones, a: 1, e: 1 }),
        two: (db) => db.open(Year).merge({ ...jones, c: 2 }),
        three: (db) => db.open(Year).merge({ ...jones, d: undefined }),
      },
      check: async (db) =>
        assert.deepEqual(withoutEtag(await db.open(Year).read(jones)), {
          ...jones,
          a: 1,
          b: 0,
          c: 2,
          e: 1,
        }),
      runs: schedules(500),
    });
  });
});
