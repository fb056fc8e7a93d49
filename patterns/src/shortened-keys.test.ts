import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, entity, f, isTableError, k } from "./index.ts";
import { remoteIndex } from "./remote-index.ts";
import { siblingIndex } from "./sibling-index.ts";
import { memory } from "./testing/memory.ts";

/** Two texts of one FNV-1a hash of 128 bits, made by the reduction of a lattice in a second. */
const OURS = "https://contoso.com/v8K4LrBoCMX68549CRVPdsz7359i";
const THEIRS = "https://contoso.com/MXXX69Eh2BtOFTIUGZXF71QV5WZU";

const fields = { p: f.string(), url: f.string(), note: f.string(), id: f.int32() };
const url = k.str("url", { max: 20, overflow: "hash" });
const Page = entity("Page", {
  version: 1,
  fields,
  key: { partition: [k.str("p")], row: [k.lit("page"), url] },
});
const Visit = entity("Visit", {
  version: 1,
  fields,
  key: { partition: [k.str("p")], row: [k.lit("visit"), k.uint("id", 4)] },
  indexes: {
    near: siblingIndex({ row: [k.lit("url"), url], unique: true, copy: ["note"] }),
    far: remoteIndex({
      table: "Far",
      partition: [url],
      row: [k.str("p"), k.uint("id", 4)],
      mode: "inline",
    }),
  },
});
const ours = { p: "p", url: OURS, note: "ours", id: 1 };
const theirs = { ...ours, url: THEIRS, note: "theirs" };

async function open() {
  const db = connect(memory());
  await db.createTables(Page, Visit);
  return db;
}

describe("a key with a hash in it", () => {
  it("is the same for two texts that were made so", () => {
    assert.notEqual(OURS, THEIRS);
    assert.equal(Page.rows.row.encode(ours), Page.rows.row.encode(theirs));
  });

  it("leads to the entity that has the whole text, and to no other", async () => {
    const pages = (await open()).open(Page);
    await pages.insert(ours);
    for (const found of [
      await pages.get(ours),
      await pages.range(ours).select("note").first(),
      await pages.update(ours, () => undefined),
    ]) {
      assert.equal(found?.note, "ours");
    }
    assert.deepEqual(Object.keys((await pages.range(ours).select("note").all())[0] ?? {}).sort(), [
      "etag",
      "note",
    ]);
    assert.equal(await pages.get(theirs), undefined);
    assert.deepEqual(await pages.range(theirs).select("note").all(), []);
    assert.equal(await pages.delete(theirs), false);
    assert.equal(await pages.delete(theirs, { force: true }), false);
    await assert.rejects(
      pages.update(theirs, () => ({ note: "x" })),
      (error) => isTableError(error, "not-found"),
    );
    await assert.rejects(pages.insert(theirs), (error) => isTableError(error, "unique-violation"));
    await assert.rejects(pages.upsert(theirs), (error) => isTableError(error));
    assert.equal((await pages.mustGet(ours)).note, "ours");
    assert.equal((await pages.upsert({ ...ours, note: "new" })).note, "new");
    assert.equal(await pages.delete(ours, { force: true }), true);
  });

  it("does not lead through an index to an entity with another text either", async () => {
    const visits = (await open()).open(Visit);
    await visits.insert(ours);
    assert.equal((await visits.by.near.get(ours))?.note, "ours");
    assert.equal(await visits.by.near.get(theirs), undefined);
    for (const [asked, notes] of [
      [ours, ["ours"]],
      [theirs, []],
    ] as const) {
      const near = visits.by.near.range({ p: "p", url: asked.url });
      const far = visits.by.far.range({ url: asked.url });
      for (const found of [
        await near.all(),
        await near.select("note").all(),
        await far.all(),
        await visits.by.far
          .range({ url: asked.url }, { consistency: "eventual" })
          .select("note")
          .all(),
      ]) {
        assert.deepEqual(
          found.map(({ note }) => note),
          notes,
        );
      }
    }
  });
});
