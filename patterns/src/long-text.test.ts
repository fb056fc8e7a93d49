import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { longText } from "./long-text.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { memory } from "./testing/memory.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";

const body = longText("body");
const Article = entity("Article", {
  version: 1,
  fields: { site: f.string(), id: f.string(), ...body.fields },
  key: { partition: [k.str("site")], row: [k.str("id")] },
});
const key = { site: "a", id: "1" };
const PART = 32_768;

async function open() {
  const backend = memory();
  const db = connect(backend);
  await db.createTables(Article);
  return { backend, db, articles: db.open(Article) };
}

describe("long text", () => {
  it("is stored in numbered parts with their count", async () => {
    const { backend, articles } = await open();
    const text = `${"x".repeat(PART)}end`;
    await articles.insert({ ...key, ...body.split(text) });
    const { properties } = (await backend.tables.get("Article", {
      partitionKey: "a",
      rowKey: "1",
    }))!;
    assert.deepEqual(properties.body_01, { type: "String", value: "end" });
    assert.deepEqual(properties.body_count, { type: "Int32", value: 2 });
    assert.equal(body.join(await articles.mustGet(key)), text);
  });

  it("is restored at every length around the limits", () => {
    for (const length of [0, 1, PART - 1, PART, PART + 1, 15 * PART - 1, 15 * PART]) {
      const text = "y".repeat(length);
      const parts = body.split(text);
      assert.equal(parts.body_count, Math.max(1, Math.ceil(length / PART)));
      assert.equal(body.join(parts), text);
    }
    assert.throws(
      () => body.split("y".repeat(15 * PART + 1)),
      (error) => isTableError(error, "entity-too-large") && error.bytes === 15 * PART * 2 + 2,
    );
    // Every full property is one unit short so that no pair is cut, although the bytes would fit.
    assert.throws(
      () => body.split(`y${"😀".repeat((15 * PART - 2) / 2)}y`),
      /takes 983040 bytes in 16 properties; at most 983040 in 15 are allowed/,
    );
    assert.equal(body.join({}), undefined);
  });

  it("never splits a surrogate pair", () => {
    fc.assert(
      fc.property(
        fc.nat(3),
        fc.string({ unit: fc.constantFrom("a", "é", "😀"), maxLength: 8 }),
        (shift, tail) => {
          const text = `${"z".repeat(PART - 2 + shift)}😀${tail}`;
          const parts = body.split(text);
          assert.doesNotMatch(parts.body_00!.slice(-1), /[\ud800-\udbff]/);
          assert.equal(body.join(parts), text);
        },
      ),
    );
  });

  const long = "a".repeat(PART * 3);
  const before = async (db: Database) => {
    await db.createTables(Article);
    await db.open(Article).insert({ ...key, ...body.split(long) });
  };
  const shorten = (db: Database) => db.open(Article).update(key, () => body.split("short"));
  const textOf = async (db: Database) => body.join(await db.open(Article).mustGet(key));

  it("removes the parts it no longer needs when it becomes shorter", async () => {
    const { db, backend } = await open();
    await before(db);
    const { requests, entities } = await db.metered(shorten);
    assert.deepEqual([requests, entities], [2, 2]);
    const stored = await backend.tables.get("Article", { partitionKey: "a", rowKey: "1" });
    assert.deepEqual(
      Object.keys(stored!.properties).filter((name) => name.startsWith("body")),
      ["body_00", "body_count"],
    );
  });

  it("is the old or the new text after a crash, and the new one after a lost answer", async () => {
    await crashEverywhere(shorten, {
      before,
      check: async (db) => assert.ok([long, "short"].includes((await textOf(db)) ?? "")),
    });
    const check = async (db: Database) => assert.equal(await textOf(db), "short");
    await crashEverywhere(shorten, { before, recover: shorten, check });
    await loseEveryAnswer(shorten, { before, check });
  });

  it("must be text", () => {
    for (const other of [undefined, null, 5, ["text"]] as never[]) {
      assert.throws(
        () => longText("body").split(other),
        (error) => isTableError(error, "validation-failed"),
      );
    }
  });

  it("reports a part that other software removed", () => {
    assert.throws(
      () => body.join({ ...body.split(long), body_01: undefined }),
      (error) => isTableError(error, "validation-failed") && error.issues[0]?.path === "body_01",
    );
  });
});
