import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, entity, f, isTableError, k } from "../index.ts";
import type { EntryOptions } from "../model/entry-options.ts";
import { siblingIndex } from "../sibling-index.ts";
import { memory } from "../testing.ts";

const person = { town: "Redmond", id: 1, tags: ["b", "a"], since: new Date(0), points: 7n };
const row = [k.lit("tag"), k.str("tag"), k.uint("id", 4)] as const;

/** Inserts a person, in development or not. */
async function insertInto(options: EntryOptions, isDevelopment = true) {
  const Person = entity("Person", {
    version: 1,
    fields: {
      town: f.string(),
      id: f.int32(),
      tags: f.json<readonly string[]>(),
      since: f.date(),
      points: f.int64(),
    },
    key: { partition: [k.str("town")], row: [k.lit("id"), k.uint("id", 4)] },
    indexes: { tag: siblingIndex({ row, ...options }) },
  });
  const { computed, ...endpoints } = memory();
  const db = connect(isDevelopment ? { ...endpoints, computed } : endpoints);
  await db.createTables(Person);
  await db.open(Person).insert(person);
  return db.open(Person).by.tag.range({ town: "Redmond" }).all();
}

describe("a function of an index, in development", () => {
  const tags = ({ tags }: { tags?: unknown }) => tags as string[];

  it("is accepted if it is pure", async () => {
    assert.equal((await insertInto({ each: { tag: tags }, when: () => true })).length, 2);
    assert.equal((await insertInto({ each: { tag: tags }, when: () => false })).length, 0);
  });

  it("is refused if it changes the entity, naming the field", async () => {
    for (const [field, change] of [
      ["tags", (entity) => tags(entity).sort()],
      ["since", (entity) => [String((entity.since as Date).setTime(1))]],
      ["seen", (entity) => [String(Object.assign(entity, { seen: true }))]],
    ] as [string, (entity: Record<string, unknown>) => string[]][]) {
      await assert.rejects(insertInto({ each: { tag: change } }), (error) => {
        assert.ok(isTableError(error, "invalid-definition"));
        assert.equal(error.issues[0]?.path, field);
        assert.match(
          error.message,
          /^Person\.tag: each tag is refused: .* the function changes it/,
        );
        return true;
      });
    }
  });

  it("is refused if it returns something else the second time", async () => {
    let calls = 0;
    const each = { tag: () => [`tag${++calls}`] };
    await assert.rejects(insertInto({ each }), /\["tag1"\].*, then .*\["tag2"\]/);
    const flips = { each: { tag: tags }, when: () => ++calls % 2 === 0 };
    await assert.rejects(insertInto(flips), /Person\.tag: when is refused/);
  });

  it("runs once, on the entity itself, in production", async () => {
    let calls = 0;
    const counted = (entity: Parameters<typeof tags>[0]) => {
      calls++;
      return tags(entity);
    };
    await insertInto({ each: { tag: counted } }, false);
    assert.equal(calls, 1);
  });
});
