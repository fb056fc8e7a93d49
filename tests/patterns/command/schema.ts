import { type Database, entity, f, k } from "@rowhouse/patterns";
import { remoteIndex } from "@rowhouse/patterns/remote-index";
import { siblingIndex } from "@rowhouse/patterns/sibling-index";

export const Employee = entity("Employee", {
  version: 1,
  fields: {
    dept: f.string(),
    id: f.int32(),
    email: f.string(),
    town: f.string(),
    hiredAt: f.date().optional(),
  },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
  indexes: {
    email: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true }),
    byTown: remoteIndex({
      table: "EmployeeByTown",
      partition: [k.str("town")],
      row: [k.str("dept"), k.uint("id", 6)],
      copy: ["email"],
    }),
  },
});

export const queries = {
  one: (db: Database) => db.open(Employee).range({ dept: "Sales", id: 223 }),
  byEmail: (db: Database) => db.open(Employee).by.email.range({ dept: "Sales" }),
  neighbours: (db: Database) => db.open(Employee).by.byTown.range({ town: "Redmond" }).limit(10),
  redmond: (db: Database) =>
    db
      .open(Employee)
      .range({ dept: "Sales" })
      .where((employee) => employee.town.eq("Redmond")),
};
