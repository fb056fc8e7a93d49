import { type Database, entity, f, isTableError, k } from "@rowhouse/patterns";
import { backTo, readMoved, saga } from "@rowhouse/patterns/saga";

/** Moves an employee who left from one table to another: two writes that no single transaction can hold. */

export const Employee = entity("Employee", {
  version: 1,
  fields: { dept: f.string(), id: f.int32(), name: f.string() },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
});
export const Archive = Employee.in("EmployeeArchive");

export type EmployeeKey = { readonly dept: string; readonly id: number };

export const archiveEmployee = saga("archive-employee", (s) =>
  s
    .input<EmployeeKey>()
    .step("copy", async ({ input, db }) => {
      const employee = await db.open(Employee).get(input);
      if (!employee) return null;
      const { etag: _etag, ...values } = employee;
      await db.open(Archive).upsert(values);
      return employee;
    })
    // Deletes only the version that was copied: an employee who changed since is copied again. The ETag is in
    // the saga's state, so a stalled worker cannot remove an employee who was hired again in the meantime.
    .step("remove", async ({ db, results }) => {
      if (!results.copy) return undefined;
      try {
        await db.open(Employee).deleteIfUnchanged(results.copy);
        return undefined;
      } catch (error) {
        if (isTableError(error, "conflict")) return backTo("copy");
        throw error;
      }
    }),
);

/** Reads from the table that the employee is in, even while the saga is running. */
export function readEmployee(db: Database, key: EmployeeKey) {
  return readMoved(db.open(Employee), db.open(Archive), key);
}
