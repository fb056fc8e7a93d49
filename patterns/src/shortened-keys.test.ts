import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, entity, f, isTableError, k } from "./index.ts";
import { missing } from "./missing.ts";
import { remoteIndex } from "./remote-index.ts";
import { siblingIndex } from "./sibling-index.ts";
import { memory } from "./testing/memory.ts";

/** Two texts with the same 128-bit FNV-1a hash, found by lattice reduction in a second. */
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

const Post = entity("Post", {
  version: 1,
  fields: { p: f.string(), links: f.string(), via: f.string().optional(), id: f.int32() },
  key: { partition: [k.str("p")], row: [k.lit("post"), k.uint("id", 4)] },
  indexes: {
    near: siblingIndex({
      row: [k.lit("url"), url, k.uint("id", 4)],
      each: { url: ({ links }) => String(links).split(" ") },
    }),
    far: remoteIndex({
      table: "FarPosts",
      partition: [url],
      row: [k.str("p"), k.uint("id", 4)],
      each: { url: ({ links }) => String(links).split(" ") },
      mode: "inline",
    }),
    via: siblingIndex({
      row: [
        k.lit("via"),
        missing("last", k.str("via", { max: 20, overflow: "hash" })),
        k.uint("id", 4),
      ],
    }),
  },
});

async function open() {
  const db = connect(memory());
  await db.createTables(Page, Visit, Post);
  return db;
}

describe("a key shortened with a hash", () => {
  it("is the same for two texts whose hashes collide", () => {
    assert.notEqual(OURS, THEIRS);
    assert.equal(Page.rows.row.encode(ours), Page.rows.row.encode(theirs));
  });

  it("finds, changes and deletes only the entity with the whole text", async () => {
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

  it("finds only that entity in a transaction, too", async () => {
    const db = await open();
    await db.open(Page).insert(ours);
    const found = await db.tx({ p: "p" }, async (tx) => [
      await tx.get(Page, ours),
      await tx.get(Page, theirs),
    ]);
    assert.deepEqual(
      found.map((page) => page?.note),
      ["ours", undefined],
    );
  });

  it("finds entities by computed values that are no field", async () => {
    const posts = (await open()).open(Post);
    await posts.insert({ p: "p", links: `short ${OURS}`, id: 1 });
    await posts.insert({ p: "p", links: "short", id: 2 });
    for (const [url, ids] of [
      ["short", [1, 2]],
      [OURS, [1]],
    ] as const) {
      for (const run of [posts.by.near.range({ p: "p", url }), posts.by.far.range({ url })]) {
        for (const found of [await run.all(), await run.select("id").all()]) {
          assert.deepEqual(
            found.map(({ id }) => id),
            ids,
          );
        }
      }
    }
  });

  it("is compared in full if entities without a value are indexed, too", async () => {
    const posts = (await open()).open(Post);
    await posts.insert({ p: "p", links: "", via: OURS, id: 1 });
    await posts.insert({ p: "p", links: "", id: 2 });
    for (const [via, ids] of [
      [OURS, [1]],
      [THEIRS, []],
      [null, [2]],
    ] as const) {
      const found = await posts.by.via.range({ p: "p", via }).all();
      assert.deepEqual(
        found.map(({ id }) => id),
        ids,
      );
    }
  });

  it("costs deleteIfUnchanged no read, because the ETag identifies the entity", async () => {
    const db = await open();
    const saved = await db.open(Page).insert(ours);
    const { requests } = await db.metered((metered) => metered.open(Page).deleteIfUnchanged(saved));
    assert.equal(requests, 1);
  });

  it("finds only that entity through an index", async () => {
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
