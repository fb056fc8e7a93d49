import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, entity, f, isTableError, k } from "../index.ts";
import type { KeyDeclaration } from "../keys/key.ts";
import { ENTITY_BYTES_MAX, sizeOf } from "../model/entity-size.ts";
import { remoteIndex } from "../remote-index.ts";
import { memory } from "../testing.ts";

const key = { partition: [k.str("p")], row: [k.lit("row"), k.uint("id", 4)] } as const;
const fields = { p: f.string(), id: f.int32() };

describe("a definition", () => {
  const refused = (declare: () => unknown, text: RegExp) =>
    assert.throws(
      declare,
      (error) => isTableError(error, "invalid-definition") && text.test(error.message),
    );

  it("is refused for names and versions that cannot be stored", () => {
    refused(
      () => entity("My Entity", { version: 1, fields, key, table: "Fine" }),
      /only letters, digits and _/,
    );
    for (const table of ["ab", "1abc", "with-dash", "tables", "x".repeat(64)]) {
      refused(() => entity("E", { version: 1, fields, key, table }), /illegal table name/);
      refused(() => entity("Thing", { version: 1, fields, key }).in(table), /illegal table name/);
    }
    refused(() => entity("Thing", { version: 0, fields, key }), /not 1, 2, 3/);
    for (const name of ["Timestamp", "rh_mine", "etag", "constructor"]) {
      refused(
        () => entity("Thing", { version: 1, fields: { ...fields, [name]: f.string() }, key }),
        /reserved/,
      );
    }
    refused(
      () => entity("Thing", { version: 1, fields: { ...fields, "a-b": f.string() }, key }),
      /illegal/,
    );
    refused(
      () =>
        entity("Thing", {
          version: 1,
          fields: { ...fields, a: f.string().as("x"), b: f.string().as("x") },
          key,
        }),
      /is already in use/,
    );
    refused(
      () =>
        entity("Thing", {
          version: 1,
          fields: { ...fields, kind: f.string() },
          key,
          typeProperty: "kind",
        }),
      /is already in use/,
    );
    entity("Thing", { version: 1, fields: { ...fields, time: f.string().as("at") }, key });
  });

  it("may have 248 fields of its own, and no more", () => {
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, f.int32().optional()]));
    entity("Wide", { version: 1, fields: { ...fields, ...many(248) }, key });
    refused(() => entity("Wide", { version: 1, fields: { ...fields, ...many(249) }, key }), /249/);
  });

  it("accepts exactly the values that a property of each type can hold", async () => {
    const types = {
      text: f.string().optional(),
      json: f.json<string>().optional(),
      bytes: f.bytes().optional(),
      small: f.int32().optional(),
      big: f.int64().optional(),
      at: f.date().optional(),
    };
    const Typed = entity("Typed", { version: 1, fields: { ...fields, ...types }, key });
    const db = connect(memory());
    await db.createTables(Typed);
    const typed = db.open(Typed);
    type Values = Partial<typeof Typed.infer>;
    const edges: readonly [held: Values, refused: Values][] = [
      [{ text: "é".repeat(32_768) }, { text: "é".repeat(32_769) }],
      [{ json: "x".repeat(32_766) }, { json: "x".repeat(32_767) }],
      [{ bytes: new Uint8Array(65_536) }, { bytes: new Uint8Array(65_537) }],
      [{ small: 2 ** 31 - 1 }, { small: 2 ** 31 }],
      [{ small: -(2 ** 31) }, { small: -(2 ** 31) - 1 }],
      [{ big: 2n ** 63n - 1n }, { big: 2n ** 63n }],
      [{ big: -(2n ** 63n) }, { big: -(2n ** 63n) - 1n }],
      [{ at: new Date("1601-01-01T00:00:00Z") }, { at: new Date("1600-12-31T23:59:59.999Z") }],
      [{ at: new Date("9999-12-31T23:59:59.999Z") }, { at: new Date("+010000-01-01T00:00:00Z") }],
    ];
    for (const [held, refused] of edges) {
      const saved = await typed.upsert({ p: "p", id: 1, ...held });
      assert.deepEqual(await typed.get({ p: "p", id: 1 }), saved);
      await assert.rejects(typed.upsert({ p: "p", id: 1, ...refused }), (error) =>
        isTableError(error, "validation-failed"),
      );
    }
  });

  it("is refused for keys that name a segment twice", () => {
    refused(
      () =>
        entity("Thing", {
          version: 1,
          fields,
          key: { partition: [k.str("p")], row: [k.str("p")] },
        }),
      /names two segments "p"/,
    );
    refused(
      () =>
        entity("Visit", {
          version: 1,
          fields: { id: f.guid(), at: f.date() },
          key: { partition: [k.guid("id")], row: [k.lit("visit")] },
          indexes: {
            at: remoteIndex({
              table: "VisitByAt",
              partition: [k.isoDate("at", "month")],
              row: [k.date("at"), k.guid("id")],
            }),
          },
        }),
      /names two segments "at"/,
    );
  });

  it("is refused if spellings of one value would be in several partitions", () => {
    const declare = (partition: KeyDeclaration, row: KeyDeclaration) => () =>
      entity("User", {
        version: 1,
        fields: { id: f.guid(), email: f.string() },
        key: { partition: [k.hashCI("id", 16)], row: [k.guid("id")] },
        indexes: { email: remoteIndex({ table: "ByEmail", partition, row, unique: true }) },
      });
    refused(declare([k.hash("email", 64)], [k.strCI("email")]), /use k\.hashCI\("email", …\)/);
    declare([k.hashCI("email", 64)], [k.strCI("email")])();
    declare([k.hash("email", 64)], [k.str("email")])();
    refused(
      () =>
        entity("User", {
          version: 1,
          fields: { id: f.guid() },
          key: { partition: [k.hash("id", 16)], row: [k.guid("id")] },
        }),
      /use k\.hashCI\("id", …\)/,
    );
  });
});

describe("upcasting", () => {
  const One = entity("Person", { version: 1, fields: { ...fields, name: f.string() }, key });
  const Three = entity("Person", {
    version: 3,
    fields: { ...fields, first: f.string(), last: f.string(), active: f.bool() },
    key,
    upgrade: {
      1: ({ name, ...rest }) => {
        const [first = "", last = ""] = String(name).split(" ");
        return { ...rest, first, last };
      },
      2: (old) => ({ ...old, active: true }),
    },
  });

  it("reads rows of an older version, and writes them in the newest", async () => {
    const backend = memory();
    const db = connect(backend);
    await db.createTables(One);
    await db.open(One).insert({ p: "p", id: 1, name: "Ann Lee" });
    const { etag: _etag, ...read } = await db.open(Three).mustGet({ p: "p", id: 1 });
    assert.deepEqual(read, { p: "p", id: 1, first: "Ann", last: "Lee", active: true });
    const selected = await db.open(Three).range({ p: "p" }).select("last").all();
    assert.deepEqual(
      selected.map(({ last }) => last),
      ["Lee"],
    );
    await db.open(Three).update({ p: "p", id: 1 }, () => ({ active: false }));
    const stored = await backend.tables.get("Person", { partitionKey: "p", rowKey: "row_0001" });
    assert.equal(stored?.properties.rh_t?.value, "Person:3");
    assert.equal((await db.open(Three).mustGet({ p: "p", id: 1 })).active, false);
  });

  it("starts with the version of each row, and leaves rows of the newest as they are", async () => {
    const Two = entity("Person", {
      version: 2,
      fields: { ...fields, first: f.string(), last: f.string() },
      key,
      upgrade: { 1: () => ({}) },
    });
    const db = connect(memory());
    await db.createTables(One);
    await db.open(One).insert({ p: "p", id: 1, name: "Ann Lee" });
    await db.open(Two).insert({ p: "p", id: 2, first: "Bob", last: "Ray" });
    await db.open(Three).insert({ p: "p", id: 3, first: "Cy", last: "Fox", active: false });
    const found = await db.open(Three).range({ p: "p" }).all();
    assert.deepEqual(
      found.map(({ first, last, active }) => [first, last, active]),
      [
        ["Ann", "Lee", true],
        ["Bob", "Ray", true],
        ["Cy", "Fox", false],
      ],
    );
  });

  it("makes old code refuse to replace what newer code wrote", async () => {
    const db = connect(memory());
    await db.createTables(One);
    await db.open(Three).insert({ p: "p", id: 1, first: "Ann", last: "Lee", active: true });
    await assert.rejects(db.open(One).replace({ p: "p", id: 1, name: "x" }), (error) =>
      isTableError(error, "validation-failed"),
    );
  });

  it("keeps the fields and the version that newer code wrote when old code updates a row", async () => {
    const One = entity("Person", { version: 1, fields: { ...fields, name: f.string() }, key });
    const Two = entity("Person", {
      version: 2,
      fields: { ...fields, name: f.string(), active: f.bool() },
      key,
      upgrade: { 1: (old) => ({ ...old, active: true }) },
    });
    const db = connect(memory());
    await db.createTables(One);
    await db.open(Two).insert({ p: "p", id: 1, name: "Ann", active: false });
    await db.open(One).update({ p: "p", id: 1 }, () => ({ name: "Lee" }));
    const { name, active } = await db.open(Two).mustGet({ p: "p", id: 1 });
    assert.deepEqual([name, active], ["Lee", false]);
  });
});

describe("sizeOf", () => {
  const entityKey = { partitionKey: "p", rowKey: "row" };
  const size = (properties: Parameters<typeof sizeOf>[1]) => sizeOf(entityKey, properties);

  it("follows the published formula for every type", () => {
    const empty = 4 + 2 * 4;
    assert.equal(size({}), empty);
    const one = (property: Parameters<typeof sizeOf>[1][string]) =>
      size({ ab: property }) - empty - 8 - 4;
    assert.equal(one({ type: "String", value: "ü😀" }), 4 + 2 * 3);
    assert.equal(one({ type: "Binary", value: "" }), 4);
    assert.equal(one({ type: "Binary", value: "AA==" }), 4 + 1);
    assert.equal(one({ type: "Binary", value: "AAA=" }), 4 + 2);
    assert.equal(one({ type: "Binary", value: "AAAA" }), 4 + 3);
    assert.equal(one({ type: "Int32", value: 1 }), 4);
    assert.equal(one({ type: "Int64", value: "1" }), 8);
    assert.equal(one({ type: "Double", value: 1 }), 8);
    assert.equal(one({ type: "DateTime", value: "2026-01-01T00:00:00Z" }), 8);
    assert.equal(one({ type: "Guid", value: "" }), 16);
    assert.equal(one({ type: "Boolean", value: true }), 1);
  });

  it("allows an entity of 1 MiB and nothing larger", async () => {
    const texts = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`t${i}`, f.string()]));
    const Big = entity("Big", { version: 1, fields: { ...fields, ...texts }, key });
    const backend = memory();
    const db = connect(backend);
    await db.createTables(Big);
    const row = (last: number) => ({
      p: "p",
      id: 1,
      ...Object.fromEntries(
        Object.keys(texts).map((name, i) => [name, "x".repeat(i < 15 ? 32_768 : last)]),
      ),
    });
    await db.open(Big).insert(row(1));
    const stored = await backend.tables.get("Big", { partitionKey: "p", rowKey: "row_0001" });
    const left = (ENTITY_BYTES_MAX - sizeOf(stored!, stored!.properties)) >> 1;
    await db.open(Big).delete({ p: "p", id: 1 });
    await assert.rejects(db.open(Big).insert(row(left + 2)), (error) =>
      isTableError(error, "entity-too-large"),
    );
    await db.open(Big).insert(row(left + 1));
  });
});
