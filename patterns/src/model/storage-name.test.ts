import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { blobList } from "../blob-list.ts";
import { inbox } from "../inbox.ts";
import { connect, entity, f, isTableError, k } from "../index.ts";
import { largeValueFields, largeValues } from "../large-value.ts";
import { jsonLines, logFiles } from "../logs.ts";
import { outbox } from "../outbox.ts";
import { createWorker } from "../queue-worker.ts";
import { remoteIndex } from "../remote-index.ts";
import { remoteList } from "../remote-list.ts";
import { rotating } from "../rotation.ts";
import { saga } from "../saga.ts";
import { memory } from "../testing.ts";
import { view } from "../view.ts";
import type { Follower, Index } from "./follower.ts";
import { nameProblems, tableProblems } from "./storage-name.ts";

const LONGEST = "q".repeat(63);
const fields = { p: f.string(), id: f.int32(), town: f.string(), ...largeValueFields("photo") };
const key = { partition: [k.str("p")], row: [k.lit("id"), k.uint("id", 4)] } as const;
const Base = entity("Base", { version: 1, fields, key });

function indexed(index: Index) {
  return entity("Base", { version: 1, fields, key, indexes: { towns: index } });
}

function followed(follower: Follower) {
  return entity("Base", { version: 1, fields, key, followers: { events: follower } });
}

const partition = [k.lit("town"), k.str("town")];
const row = [k.lit("of"), k.str("p"), k.uint("id", 4)];

/** By the kind of thing that is named. */
const DECLARATIONS: Readonly<Record<string, readonly ((name: string) => unknown)[]>> = {
  container: [
    (container) => indexed(blobList({ container, name: [k.str("town")] })),
    (container) => largeValues(Base, { name: "photo", container }),
    (container) => logFiles({ container, service: "web", format: jsonLines() }),
  ],
  queue: [
    (queue) => indexed(blobList({ container: "towns", name: [k.str("town")], queue })),
    (queue) => indexed(remoteIndex({ partition, row, queue })),
    (queue) => indexed(remoteList({ partition, row: [k.lit("all")], property: "members", queue })),
    (queue) => followed(outbox({ queue, message: () => undefined })),
    (queue) => followed(view("Towns", { fields, key, project: () => undefined, queue })),
    (queue) => saga("move", (steps) => steps.input<string>().step("one", async () => 1), { queue }),
    (queue) => createWorker(connect(memory()), { queue, handlers: [], poisonQueue: "poison" }),
  ],
  poisonQueue: [
    (poisonQueue) => createWorker(connect(memory()), { queue: "q-1", handlers: [], poisonQueue }),
  ],
};

describe("the name of a queue or container", () => {
  it("is 3 to 63 lower-case letters, digits and single hyphens, none at the ends", () => {
    for (const name of ["abc", "a-b", "1-2-3", "007", LONGEST, `a${"-b".repeat(31)}`]) {
      assert.deepEqual(nameProblems({ queue: name }), [], name);
    }
    const wrong = ["", "ab", `${LONGEST}q`, `a${"-b".repeat(31)}c`, "a--b", "-ab", "ab-", "Abc"];
    for (const name of [...wrong, "a_b", "a.b", "a b", "äbc", "abc\n"]) {
      assert.equal(nameProblems({ queue: name }).length, 1, name);
    }
  });

  for (const [what, declarations] of Object.entries(DECLARATIONS)) {
    it(`is checked when a ${what} is declared`, () => {
      for (const declare of declarations) {
        declare("work-2");
        assert.throws(
          () => declare("Work_2"),
          (error) => {
            assert.ok(isTableError(error, "invalid-definition"), `${declare}: ${error}`);
            assert.match(error.message, new RegExp(`illegal ${what} name "Work_2"`));
            return true;
          },
          `${declare}`,
        );
      }
    });
  }
});

/** With the number of characters that are appended to the name. */
const TABLES: readonly (readonly [number, (name: string) => unknown])[] = [
  [0, (name) => entity(name, { version: 1, fields, key })],
  [0, (table) => entity("Base", { version: 1, fields, key, table })],
  [0, (table) => indexed(remoteIndex({ table, partition, row }))],
  [
    0,
    (table) => saga("move", (steps) => steps.input<string>().step("a", async () => 1), { table }),
  ],
  [3, (name) => view(name, { fields, key, project: () => undefined, queue: "work" })],
  [8, (name) => inbox(name)],
  [4, (name) => rotating(dated(name), { at: "at", unit: "year", keep: 1 })],
  [10, (name) => rotating(dated(name), { at: "at", unit: "hour", keep: 1 })],
];

function dated(name: string) {
  const fields = { p: f.string(), at: f.date() };
  const key = { partition: [k.str("p")], row: [k.date("at")] } as const;
  return entity(name, { version: 1, fields, key });
}

describe("the name of a table", () => {
  it("is 3 to 63 letters and digits, a letter first, including any suffix", () => {
    for (const [room, declare] of TABLES) {
      const longest = "T".repeat(63 - room);
      for (const name of ["Abc", longest]) declare(name);
      for (const name of ["1abc", "a-b-c", "a_b_c", "äbcd", "", "abc\n", `${longest}T`]) {
        assert.throws(
          () => declare(name),
          (error) => isTableError(error, "invalid-definition"),
          `${declare} ${name}`,
        );
      }
    }
    for (const name of ["tables", "TABLES"]) assert.equal(tableProblems(name).length, 1);
    assert.deepEqual(tableProblems("tables2"), []);
  });
});
