import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Engine } from "@rowhouse/server/engine/engine";
import {
  ACCOUNT,
  assertIndexesAreRight,
  insertion,
  openIndexLab,
  runRandomHistory,
  TABLE,
} from "@rowhouse/server/table/indexes/test-index-model";
import { createTestDatabase, type TestDatabase } from "../support/database-engine.ts";

const seed = Number(process.env.INDEX_SEED ?? Math.floor(Math.random() * 2 ** 31));
const operations = Number(process.env.INDEX_OPERATIONS ?? 200);
const MINUTE_MICROS = 61 * 1_000_000;

describe(`Indexes over PostgreSQL (seed ${seed}, INDEX_SEED repeats it)`, () => {
  let database: TestDatabase;
  let engine: Engine;
  before(async () => {
    database = await createTestDatabase();
    engine = await database.open();
  });
  after(async () => {
    await engine.close();
    await database.drop();
  });

  it("are built a minute after they were declared, and are what the entities say, after any history", async () => {
    const lab = await openIndexLab(engine);
    await lab.catalog.create(ACCOUNT, TABLE, { policies: [] });
    await lab.write(insertion("insert", "p", "old", '"A":"1","B":1'));
    for (const [name, key] of [
      ["ByA", "A:String"],
      ["ByBA", "B:Int32 desc,A:String"],
      ["LocalByC", "PartitionKey,C:String"],
    ] as const) {
      await lab.indexes.create(ACCOUNT, { name, table: TABLE, key, rate: 0 });
    }
    assert.equal(await lab.builder.step(ACCOUNT, "ByA"), "waiting");
    await lab.catalog.update(ACCOUNT, TABLE, (value) => ({
      ...value,
      indexes: value.indexes!.map((index) => ({ ...index, since: index.since - MINUTE_MICROS })),
    }));
    for (const name of ["ByA", "ByBA", "LocalByC"]) await lab.build(name);
    await assertIndexesAreRight(lab, "built");
    await runRandomHistory(lab, { seed, operations });
  });

  it("are seen by a front end that has read the table before", async () => {
    const here = await openIndexLab(engine);
    const otherEngine = await database.open();
    try {
      const there = await openIndexLab(otherEngine);
      await there.write(insertion("replace", "p", "other", '"A":"1"'));
      await here.indexes.drop(ACCOUNT, "ByA");
      await there.write(insertion("replace", "p", "other", '"A":"2"'));
      await here.indexes.create(ACCOUNT, { name: "ByA2", table: TABLE, key: "A:String" });
      await there.write(insertion("replace", "p", "new", '"A":"3"'));
      await there.write(insertion("merge", "p", "new", '"A":"4"'));
      await here.catalog.update(ACCOUNT, TABLE, (value) => ({
        ...value,
        indexes: value.indexes!.map((index) => ({ ...index, since: index.since - MINUTE_MICROS })),
      }));
      await here.build("ByA2");
      await assertIndexesAreRight(here);
    } finally {
      await otherEngine.close();
    }
  });
});
