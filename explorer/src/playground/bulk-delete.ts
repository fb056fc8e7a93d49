import { type Database, entity, f, k } from "@rowhouse/patterns";
import { batch } from "@rowhouse/patterns/batch";
import { bulkDelete } from "@rowhouse/patterns/bulk-delete";
import { type Pattern, rowsOf, type World } from "./pattern.ts";

// What is shown:
const Attempt = entity("LoginAttempt", {
  version: 1,
  fields: { user: f.string(), day: f.string(), id: f.int32() },
  key: { partition: [k.str("user")], row: [k.str("day"), k.uint("id", 4)] },
});

const fill = (db: Database) =>
  batch(db, (plan) => {
    for (let id = 0; id < 245; id++) {
      plan.insert(Attempt, { user: "ann", day: id < 240 ? "20140731" : "20140801", id });
    }
  });

const deleteJuly = (db: Database) =>
  bulkDelete(db, "LoginAttempt", {
    partitionKey: "ann",
    rows: { from: "201407", to: "201408" },
  });
// Until here.

function rowsOfMonth(world: World, month: string): number {
  return rowsOf(world, "LoginAttempt").filter(({ rowKey }) => rowKey.startsWith(month)).length;
}

export const bulkDeletePattern: Pattern = {
  title: "Large delete",
  about:
    "A range of rows goes: a page of their keys is read, and transactions of up to 100 delete them. One that stops halfway is run again, and goes on with what is left. Where all rows of a time go together, a table for each time is better: one request drops it.",
  async prepare(db) {
    await db.createTables(Attempt);
    await fill(db);
  },
  actions: [
    {
      name: "Delete July",
      run: async (db) => `${await deleteJuly(db)} rows deleted.`,
    },
  ],
  invariants: [
    {
      says: "A transaction deletes all of its rows or none: of July 240, 140, 40 or 0 are there",
      when: "always",
      broken(world) {
        const left = rowsOfMonth(world, "201407");
        return [240, 140, 40, 0].includes(left) ? undefined : `${left} are there`;
      },
    },
    {
      says: "The 5 rows of August stay",
      when: "always",
      broken(world) {
        const left = rowsOfMonth(world, "201408");
        return left === 5 ? undefined : `${left} are there`;
      },
    },
  ],
};
