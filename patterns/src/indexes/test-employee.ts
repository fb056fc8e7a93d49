import { entity, f, k } from "../index.ts";
import { remoteIndex } from "../remote-index.ts";
import { siblingIndex } from "../sibling-index.ts";

/** For tests: employees without indexes, and with them. */
export const fields = { dept: f.string(), id: f.int32(), email: f.string() };
export const key = { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] } as const;
export const Plain = entity("Employee", { version: 1, fields, key });
export const Indexed = entity("Employee", {
  version: 1,
  fields,
  key,
  indexes: {
    near: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true }),
    far: remoteIndex({
      table: "ByEmail",
      partition: [k.str("email")],
      row: [k.lit("owner")],
      unique: true,
    }),
  },
});
