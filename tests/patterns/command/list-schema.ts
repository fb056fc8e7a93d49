import { entity, f, k } from "@rowhouse/patterns";
import { listIndex } from "@rowhouse/patterns/list-index";

export const Employee = entity("Employee", {
  version: 1,
  fields: { dept: f.string(), id: f.int32(), town: f.string() },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
  indexes: { town: listIndex({ row: [k.lit("town"), k.str("town")], property: "EmployeeIDs" }) },
});
