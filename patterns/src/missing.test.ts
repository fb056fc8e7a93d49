import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, entity, f, k } from "./index.ts";
import { missing } from "./missing.ts";
import { definitionHash } from "./model/declared-index.ts";
import { remoteIndex } from "./remote-index.ts";
import { siblingIndex } from "./sibling-index.ts";
import { memory } from "./testing/memory.ts";
import { histories } from "./testing/test-histories.ts";

const declaration = {
  version: 1,
  fields: {
    dept: f.string(),
    id: f.int32(),
    town: f.string().optional(),
    age: f.int32().optional(),
  },
  key: { partition: [k.str("dept")], row: [k.lit("p"), k.uint("id", 3)] },
} as const;
const person = (place: "first" | "last") =>
  entity("Person", {
    ...declaration,
    indexes: {
      town: siblingIndex({
        row: k.ordered(k.lit("town"), missing(place, k.str("town")), k.uint("id", 3)),
      }),
      age: siblingIndex({
        row: [k.lit("age"), missing(place, k.uintDesc("age", 3)), k.uint("id", 3)],
      }),
      byTown: remoteIndex({
        table: "PersonByTown",
        partition: [k.lit("town"), missing(place, k.str("town"))],
        row: [k.str("dept"), k.uint("id", 3)],
        mode: "inline",
      }),
    },
  });
const Person = person("last");
const Plain = entity("Person", {
  ...declaration,
  indexes: {
    town: siblingIndex({ row: k.ordered(k.lit("town"), k.str("town"), k.uint("id", 3)) }),
  },
});
type Person = typeof Person.infer;

async function open(definition = Person) {
  const backend = memory();
  const db = connect(backend);
  await db.createTables(definition);
  return { backend, db, people: db.open(definition) };
}

const idsOf = (rows: readonly { readonly id: number }[]) => rows.map(({ id }) => id);

describe("an index over a value that may be missing", () => {
  it("stores the entry of an entity without the value first or last, as its key declares", async () => {
    for (const [place, mark] of [
      ["first", '""'],
      ["last", "~~"],
    ] as const) {
      const { backend, people } = await open(person(place));
      await people.insert({ dept: "Sales", id: 1 });
      const { entities } = await backend.tables.query("Person", {});
      assert.deepEqual(
        entities.map(({ rowKey }) => rowKey),
        ["p_001", `town!${mark}!001`, `age_${mark}_001`].sort(),
      );
      const remote = await backend.tables.query("PersonByTown", {});
      assert.deepEqual(
        remote.entities.map(({ partitionKey }) => partitionKey),
        [`town_${mark}`],
      );
    }
  });

  it("finds entities without the value by null, for the cost of any other value", async () => {
    const { db, people } = await open();
    await people.insert({ dept: "Sales", id: 1 });
    await people.insert({ dept: "Sales", id: 2, town: "Redmond" });
    const { result, requests, entities } = await db.metered((metered) =>
      metered.open(Person).by.town.range({ dept: "Sales", town: null }).all(),
    );
    assert.deepEqual([idsOf(result), requests, entities], [[1], 1, 1]);
    assert.equal("town" in result[0]!, false);
    assert.deepEqual(idsOf(await people.by.byTown.range({ town: null }).all()), [1]);
  });

  it("moves the entry when the value is added or removed", async () => {
    const { people } = await open();
    await people.insert({ dept: "Sales", id: 1 });
    const who = async (town: string | null) => [
      idsOf(await people.by.town.range({ dept: "Sales", town }).all()),
      idsOf(await people.by.byTown.range({ town }).all()),
    ];
    await people.update({ dept: "Sales", id: 1 }, () => ({ town: "Redmond" }));
    assert.deepEqual([await who(null), await who("Redmond")].flat(), [[], [], [1], [1]]);
    await people.update({ dept: "Sales", id: 1 }, () => ({ town: undefined }));
    assert.deepEqual([await who(null), await who("Redmond")].flat(), [[1], [1], [], []]);
  });

  it("matches sorting and filtering all entities, whatever the values", async () => {
    const town = fc.option(
      fc.string({ unit: fc.constantFrom(...'ab"~!#_ë'), minLength: 1, maxLength: 3 }),
      { nil: undefined },
    );
    const age = fc.option(fc.integer({ min: 0, max: 999 }), { nil: undefined });
    const history = fc.array(fc.tuple(town, age), { minLength: 1, maxLength: 8 });
    const property = fc.asyncProperty(
      fc.constantFrom("first" as const, "last" as const),
      history,
      town,
      async (place, values, bound) => {
        const { people } = await open(person(place));
        const all: Person[] = [];
        for (const [id, [town, age]] of values.entries()) {
          const one = {
            dept: "Sales",
            id,
            ...(town && { town }),
            ...(age !== undefined && { age }),
          };
          all.push(one);
          await people.insert(one);
        }
        const absent = place === "first" ? -1 : 1;
        const sorted = <Value extends string | number>(keyOf: (one: Person) => Value | undefined) =>
          all.toSorted((a, b) => {
            const [x, y] = [keyOf(a), keyOf(b)];
            if (x === y) return a.id - b.id;
            if (x === undefined || y === undefined) return x === undefined ? absent : -absent;
            return x < y ? -1 : 1;
          });
        const byTown = sorted(({ town }) => town);
        // The newest first; people without an age are where the declaration says, all the same.
        const byAge = sorted(({ age }) => (age === undefined ? undefined : -age));
        const dept = "Sales";
        assert.deepEqual(idsOf(await people.by.town.range({ dept }).all()), idsOf(byTown));
        assert.deepEqual(idsOf(await people.by.age.range({ dept }).all()), idsOf(byAge));
        for (const value of [bound ?? "b"]) {
          const from = await people.by.town.range({ dept, town: { gte: value } }).all();
          assert.deepEqual(idsOf(from), idsOf(byTown.filter(({ town }) => town && town >= value)));
          const below = await people.by.town.range({ dept, town: { lt: value } }).all();
          assert.deepEqual(idsOf(below), idsOf(byTown.filter(({ town }) => town && town < value)));
        }
        const old = await people.by.age.range({ dept, age: { gte: 500 } }).all();
        assert.deepEqual(
          idsOf(old),
          idsOf(byAge.filter(({ age }) => age !== undefined && age >= 500)),
        );
      },
    );
    await fc.assert(property, histories(150));
  });

  it("refuses an empty text that must sort before missing values, and null as a bound", async () => {
    const { people } = await open(person("first"));
    const refusal = { code: "validation-failed", message: /missing\("last", …\)/ };
    await assert.rejects(people.insert({ dept: "Sales", id: 1, town: "" }), refusal);
    assert.throws(() => people.by.town.range({ dept: "Sales", town: { gte: null } }), {
      code: "validation-failed",
      message: /null cannot bound a range/,
    });
    const last = await open();
    await last.people.insert({ dept: "Sales", id: 1, town: "" });
    const found = await last.people.by.town.range({ dept: "Sales", town: { lt: "a" } }).all();
    assert.deepEqual(idsOf(found), [1]);
  });

  it("has the entities that an index over the plain segment leaves out", async () => {
    const dept = "Sales";
    const { people } = await open();
    const db = connect(memory());
    await db.createTables(Plain);
    const plain = db.open(Plain);
    for (const repository of [people, plain]) {
      await repository.insert({ dept, id: 1 });
      await repository.insert({ dept, id: 2, town: "Redmond" });
    }
    assert.deepEqual(idsOf(await people.by.town.range({ dept }).all()), [2, 1]);
    assert.deepEqual(idsOf(await plain.by.town.range({ dept }).all()), [2]);
  });

  it("hashes differently if missing values sort first, sort last, or are left out", () => {
    const hashes = [person("first"), person("last"), Plain].map((one) =>
      definitionHash(one, "town"),
    );
    assert.equal(new Set(hashes).size, 3);
  });
});
