import { copies } from "../src/copies.ts";
import { connect, entity, f, k } from "../src/index.ts";
import { listIndex } from "../src/list-index.ts";
import { memory } from "../src/testing.ts";

const db = connect(memory());
const partition = [k.str("dept")] as const;
const Employee = entity("Employee", {
  version: 1,
  table: "Staff",
  fields: { dept: f.string(), id: f.int32(), lastName: f.string() },
  key: { partition, row: [k.lit("empid"), k.uint("id", 6)] },
  indexes: {
    last: listIndex({ row: [k.lit("last"), k.str("lastName")], property: "EmployeeIDs" }),
  },
});
const Department = entity("Department", {
  version: 1,
  table: "Staff",
  fields: { dept: f.string(), headId: f.int32().optional(), headName: f.string().optional() },
  key: { partition, row: [k.lit("dept")] },
});
const heads = db.open(
  copies(Employee, Department, {
    via: ({ dept, headId }) => (headId === undefined ? undefined : { dept, id: headId }),
    targets: ({ dept }) => [{ dept }],
    copy: { headName: "lastName" },
  }),
);

export async function accepted() {
  const found = await db.open(Employee).by.last.get({ dept: "Sales", lastName: "Jones" });
  void (found[0]?.id satisfies number | undefined);
  await heads.putTarget({ dept: "Sales", headId: 1 });
  await heads.updateSource({ dept: "Sales", id: 1 }, (e) => ({ lastName: `${e.lastName}!` }));
  void ((await heads.sync({ dept: "Sales" })) satisfies boolean);
}

export async function refused() {
  // error: Property 'lastName' is missing
  await db.open(Employee).by.last.get({ dept: "Sales" });
  // error: Property 'range' does not exist
  db.open(Employee).by.last.range({ dept: "Sales" });
  // error: Property 'id' is missing
  await heads.deleteSource({ dept: "Sales" });
  // error: has no properties in common
  await heads.updateSource({ dept: "Sales", id: 1 }, () => ({ headName: "x" }));
  const via = () => undefined;
  const targets = () => [];
  // error: '"surname"' is not assignable
  copies(Employee, Department, { via, targets, copy: { headName: "surname" } });
}
