import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { Database } from "./database.ts";
import { connect, entity, f, isTableError, k } from "./index.ts";
import { indexRepairs } from "./index-repairs.ts";
import { repairIndex, verifyIndex } from "./index-scrub.ts";
import { listIndex } from "./list-index.ts";
import type { Row } from "./model/entity-rows.ts";
import { createWorker } from "./queue-worker.ts";
import { remoteIndex } from "./remote-index.ts";
import { siblingIndex } from "./sibling-index.ts";
import { histories, schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";
import { crashEverywhere, interleave, type Memory, memory } from "./testing.ts";

const tagsOf = ({ tags }: Row) => tags as readonly string[] | undefined;
const Film = entity("Film", {
  version: 1,
  fields: {
    studio: f.string(),
    id: f.int32(),
    year: f.int32(),
    tags: f.json<readonly string[]>().optional(),
    note: f.string().optional(),
  },
  key: { partition: [k.str("studio")], row: [k.lit("film"), k.uint("id", 4)] },
  indexes: {
    near: siblingIndex({
      row: [k.lit("near"), k.str("tag"), k.uint("id", 4)],
      each: { tag: tagsOf },
    }),
    listed: listIndex({
      row: [k.lit("listed"), k.str("tag")],
      property: "Films",
      each: { tag: tagsOf },
    }),
    far: remoteIndex({
      table: "FilmByTag",
      partition: [k.strCI("tag")],
      row: k.ordered(k.str("studio"), k.uint("id", 4)),
      each: { tag: tagsOf },
      copy: ["note"],
    }),
    pair: remoteIndex({
      table: "FilmByPair",
      partition: [k.str("one")],
      row: k.ordered(k.str("other"), k.uint("year", 4), k.str("studio"), k.uint("id", 4)),
      each: { one: tagsOf, other: tagsOf },
      copy: "keys",
    }),
  },
});
type Film = typeof Film.infer;
const key = { studio: "Ufa", id: 1 };
const film = (tags: readonly string[], rest: Partial<Film> = {}): Film => ({
  ...key,
  year: 1927,
  tags,
  ...rest,
});
const MINUTE = 60_000;

async function open() {
  const backend = memory();
  const db = connect(backend);
  await prepareIn(db);
  return { backend, db, films: db.open(Film) };
}

async function prepareIn(db: Database): Promise<void> {
  await db.createTables(Film);
  for (const name of ["index-repairs", "index-repairs-poison"]) await db.queues?.createQueue(name);
}

async function letWorkersFinish(db: Database): Promise<void> {
  const worker = createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Film])] });
  for (let round = 0; round < 8; round++) {
    await db.clock.sleep(45_000);
    await worker.drain();
  }
  assert.deepEqual(await worker.peekPoison(), []);
}

/** The entries are exactly those of the entities, each once. */
async function audit(db: Database, { tables }: Memory): Promise<void> {
  const films = await db.open(Film).scan().all({ allow: "table-scan", because: "test" });
  const { indexes } = Film;
  const { row: nearKey } = indexes.near.place(Film);
  const { row: listKey } = indexes.listed.place(Film);
  const { partition: farKey } = indexes.far.place(Film);
  const id = (film: Film) => String(film.id).padStart(4, "0");
  const all = async (table: string) => (await tables.query(table, {})).entities;
  const near = (await all("Film")).filter(({ rowKey }) => rowKey.startsWith("near_"));
  const unique = films.map((film) => ({ film, tags: [...new Set(film.tags)] }));
  assert.deepEqual(
    near.map(({ partitionKey, rowKey }) => `${partitionKey} ${rowKey}`).sort(),
    unique
      .flatMap(({ film, tags }) =>
        tags.map((tag) => `${film.studio} ${nearKey.encode({ tag, id: film.id })}`),
      )
      .sort(),
  );
  const lists = (await all("Film")).filter(({ rowKey }) => rowKey.startsWith("listed_"));
  for (const { partitionKey, rowKey, properties } of lists) {
    const members = unique.filter(
      ({ film, tags }) =>
        film.studio === partitionKey && tags.some((tag) => listKey.encode({ tag }) === rowKey),
    );
    const ids = members.map(({ film }) => id(film)).sort();
    assert.equal(properties.Films?.value, ids.join());
  }
  const far = await all("FilmByTag");
  assert.deepEqual(
    far
      .map(({ partitionKey, rowKey, properties }) => {
        assert.ok(!("rh_s" in properties), `${partitionKey} ${rowKey} is pending`);
        return `${partitionKey} ${rowKey} ${properties.note?.value}`;
      })
      .sort(),
    films
      .flatMap((film) => {
        const tags = [...new Set((film.tags ?? []).map((tag) => tag.toLowerCase()))];
        return tags.map(
          (tag) => `${farKey.encode({ tag })} ${film.studio}!${id(film)} ${film.note}`,
        );
      })
      .sort(),
  );
  assert.equal(
    (await all("FilmByPair")).length,
    unique.reduce((sum, { tags }) => sum + tags.length ** 2, 0),
  );
}

describe("an index with several entries for each entity", () => {
  it("stores one entry for every value and every combination, without duplicates", async () => {
    const { backend, db, films } = await open();
    await films.insert(film(["Drama", "drama", "Sci-Fi", "Drama"], { note: "silent" }));
    await audit(db, backend);
    const found = await films.by.far.range({ tag: "DRAMA" }).all();
    assert.deepEqual(
      found.map(({ id }) => id),
      [1],
    );
    const copies = films.by.far.range({ tag: "sci-fi" }, { consistency: "eventual" });
    const [copied] = await copies.select("id", "note").all();
    assert.deepEqual([copied?.id, copied?.note, "tag" in (copied ?? {})], [1, "silent", false]);
    const inDecade = { one: "Drama", other: "Sci-Fi", year: { gte: 1920, lt: 1930 } };
    assert.equal((await films.by.pair.range(inDecade).all()).length, 1);
    const listed = await films.by.listed.get({ studio: "Ufa", tag: "Sci-Fi" });
    assert.equal(listed[0]?.note, "silent");
    assert.equal((await films.by.near.range({ studio: "Ufa", tag: "drama" }).all()).length, 1);
  });

  it("writes exactly the entries that differ when the values change", async () => {
    const { backend, db, films } = await open();
    await films.insert(film(["a", "b", "c"]));
    backend.clock.advance(2 * MINUTE);
    const entries = async () =>
      (await backend.tables.query("FilmByTag", {})).entities.map(
        ({ partitionKey, etag }) => [partitionKey, etag] as const,
      );
    const before = new Map(await entries());
    await films.update(key, () => ({ tags: ["b", "c", "d"] }));
    const after = new Map(await entries());
    assert.deepEqual([...after.keys()], ["b", "c", "d"]);
    assert.deepEqual([after.get("b"), after.get("c")], [before.get("b"), before.get("c")]);
    await audit(db, backend);
    await films.update(key, () => ({ tags: undefined }));
    await letWorkersFinish(db);
    assert.deepEqual(await entries(), []);
    await audit(db, backend);
  });

  it("matches the sets of the entities after any history", async () => {
    const command = fc.tuple(
      fc.constantFrom("put", "put", "note", "delete"),
      fc.integer({ min: 1, max: 3 }),
      fc.subarray(["a", "A", "b", "x_y", "!"]),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 12 }), async (commands) => {
        const { backend, db, films } = await open();
        for (const [verb, id, tags] of commands) {
          if (verb === "put") await films.upsert(film(tags, { id }));
          else if (verb === "delete") await films.delete({ studio: "Ufa", id });
          else
            await films
              .update({ studio: "Ufa", id }, () => ({ note: tags.join("") }))
              .catch((error) => assert.ok(isTableError(error, "not-found")));
        }
        await letWorkersFinish(db);
        await audit(db, backend);
      }),
      histories(40),
    );
  });

  const before = async (db: Database) => {
    await prepareIn(db);
    await db.open(Film).insert(film(["a", "b"], { note: "old" }));
    await db.clock.sleep(2 * MINUTE);
  };
  const change = (tags: readonly string[]) => (db: Database) =>
    db.open(Film).update(key, () => ({ tags, note: tags.join("") }));

  it("survives a crash or a lost answer at every request, and any interleaving", async () => {
    const remove = (db: Database) => db.open(Film).delete(key);
    for (const operation of [change(["b", "c"]), change([]), remove]) {
      await crashEverywhere(operation, { before, recover: letWorkersFinish, check: audit });
      const auditAfterWorkers = async (db: Database, backend: Memory) => {
        await letWorkersFinish(db);
        await audit(db, backend);
      };
      await loseEveryAnswer(operation, { before, check: auditAfterWorkers });
    }
    const clients = { grow: change(["a", "b", "c"]), move: change(["b", "d"]), remove };
    const tolerant = Object.fromEntries(
      Object.entries(clients).map(([name, client]) => [
        name,
        (db: Database) =>
          client(db).catch((error) => {
            if (!isTableError(error, "not-found")) throw error;
          }),
      ]),
    );
    await interleave({
      before,
      clients: tolerant,
      recover: letWorkersFinish,
      check: audit,
      crashShare: 0.01,
      runs: schedules(40),
    });
  });

  it("is verified and repaired entry by entry", async () => {
    const { backend, db, films } = await open();
    await films.insert(film(["a", "b", "c"]));
    const at = (partitionKey: string) => ({ partitionKey, rowKey: "Ufa!0001" });
    const stray = (await backend.tables.get("FilmByTag", at("b")))!.properties;
    await backend.tables.commit("FilmByTag", [{ kind: "delete", ...at("a"), ifMatch: "*" }]);
    await backend.tables.commit("FilmByTag", [{ kind: "insert", ...at("zzz"), properties: stray }]);
    backend.clock.advance(2 * MINUTE);
    const { missing, wrong, dangling, entities, entries } = await verifyIndex(db, Film, "far");
    assert.deepEqual([missing, wrong, dangling, entities, entries], [1, 0, 1, 1, 3]);
    await repairIndex(db, Film, "far");
    await audit(db, backend);
    await letWorkersFinish(db);
    assert.equal((await verifyIndex(db, Film, "far")).missing, 0);
  });

  it("lets an entity without entries, written by other software, be deleted", async () => {
    const { backend, films } = await open();
    const properties = {
      year: { type: "Int32", value: 1927 },
      tags: { type: "String", value: JSON.stringify(["a", "b", "c", "d", "e"]) },
    } as const;
    const row = { partitionKey: "Ufa", rowKey: "film_0001" };
    await backend.tables.commit("Film", [{ kind: "insert", ...row, properties }]);
    assert.equal((await films.mustGet(key)).tags?.length, 5);
    assert.equal(await films.delete(key), true);
    assert.equal(await films.get(key), undefined);
  });

  it("is refused if it computes a field, or a name that its key does not use", () => {
    const declare = (name: string) =>
      entity("Thing", {
        version: 1,
        fields: { p: f.string(), tags: f.json<string[]>() },
        key: { partition: [k.str("p")], row: [k.lit("row")] },
        indexes: {
          bad: siblingIndex({
            row: [k.lit("n"), k.str("tag")],
            unique: true,
            each: { tag: tagsOf, [name]: tagsOf },
          }),
        },
      });
    const refused = (name: string, text: RegExp) =>
      assert.throws(
        () => declare(name),
        (error) => isTableError(error, "invalid-definition") && text.test(error.message),
      );
    refused("tags", /which is already a field/);
    refused("other", /which its key does not use/);
    declare("tag");
  });
});
