// Compiled by `declarations.test.ts`: a line after `// error: …` must be refused with that text, no other line may be.
import { blobList } from "../src/blob-list.ts";
import { connect, entity, f, k } from "../src/index.ts";
import { listIndex } from "../src/list-index.ts";
import { remoteIndex } from "../src/remote-index.ts";
import { remoteList } from "../src/remote-list.ts";
import { serverIndex } from "../src/server-index.ts";
import { siblingIndex } from "../src/sibling-index.ts";
import { memory } from "../src/testing.ts";

export const Employee = entity("Employee", {
  version: 2,
  fields: {
    dept: f.string(),
    id: f.int32(),
    email: f.string(),
    lastName: f.string(),
    hiredAt: f.date(),
    age: f.int32().optional(),
  },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
  indexes: {
    email: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true }),
    lastName: siblingIndex({
      row: [k.lit("last"), k.str("lastName"), k.uint("id", 6)],
      copy: ["email"],
    }),
    hired: siblingIndex({
      row: k.ordered(k.lit("hired"), k.str("lastName"), k.dateDesc("hiredAt"), k.uint("id", 6)),
      when: (e) => e.age !== undefined,
    }),
  },
  upgrade: { 1: (old) => ({ ...old, hiredAt: old.hiredAt ?? new Date(0) }) },
});
export type Employee = typeof Employee.infer;
export type EmployeeKey = typeof Employee.inferKey;

const Visit = entity("Visit", {
  version: 1,
  fields: { at: f.date(), id: f.guid(), town: f.string(), street: f.string() },
  key: {
    partition: [k.isoDate("at", "month", "month"), k.str("town")],
    row: k.ordered(k.str("street"), k.dateDesc("at"), k.guid("id")),
  },
});

const db = connect(memory());
const emp = db.open(Employee);
const visits = db.open(Visit);

export async function accepted() {
  const hiredAt = new Date();
  await emp.insert({ dept: "Sales", id: 223, email: "a@b.c", lastName: "Jones", hiredAt });
  const key: EmployeeKey = { dept: "Sales", id: 223 };
  const e = await emp.get(key);
  const age: number | undefined = e?.age;
  const etag: string | undefined = e?.etag;
  const j = await emp.by.email.get({ dept: "Sales", email: "a@b.c" });
  const name: string | undefined = j?.lastName;
  await emp.by.email.range({ dept: "Sales", email: { startsWith: "a" } }).all();
  await emp.by.email.range({ dept: "Sales", email: { gte: "a", lt: "b" } }).first();
  for await (const x of emp
    .range({ dept: "Sales", id: { gte: 100, lte: 199 } })
    .select("email")
    .stream()) {
    const email: string = x.email;
    void email;
  }
  await emp.by.lastName.range({ dept: "Sales", lastName: "Jones", id: { gte: 5 } }).all();
  await emp.by.lastName.range({ dept: "Sales", lastName: { startsWith: "J" } }).all();
  await emp.by.hired
    .range({ dept: "Sales", lastName: { gte: "J" } })
    .limit(10)
    .all();
  await emp.by.hired.range({ dept: "Sales", lastName: "Jones", hiredAt: { gte: hiredAt } }).all();
  await emp.update({ dept: "Sales", id: 223 }, (cur) => ({ lastName: `${cur.lastName}-Lee` }));
  await emp.update({ dept: "Sales", id: 223 }, () => ({ age: undefined }));
  await emp.scan().all({ allow: "table-scan", because: "nightly export" });
  const old = emp.range({ dept: "Sales" }).where((x) => x.age.gt(40).and(x.email.ne("")));
  await old.all({ allow: "partition-scan", because: "small department" });
  await visits.range({ month: hiredAt, town: "Redmond", street: { gte: "A" } }).all();
  await visits
    .range({ month: hiredAt, town: "Redmond", street: "Main", at: { gt: hiredAt } })
    .all();
  const employee: Employee = { dept: "a", id: 1, email: "a", lastName: "b", hiredAt };
  return [age, etag, name, employee];
}

export async function refused() {
  // error: Add an index, or pass { allow: 'table-scan', because: '…' }
  await emp.scan().all();
  const filtered = emp.range({ dept: "Sales" }).where((x) => x.age.gt(40));
  // error: Add an index, or pass { allow: 'partition-scan', because: '…' }
  await filtered.all();
  // error: Add an index, or pass { allow: 'partition-scan', because: '…' }
  await filtered.page(undefined);
  // error: is not assignable
  await filtered.first("Add an index", "why");
  // error: Add an index, or pass { allow: 'table-scan', because: '…' }
  emp.scan().stream();
  // error: Property 'dept' is missing
  emp.range({ id: 3 });
  // error: 'age' does not exist
  emp.range({ dept: "Sales", age: 3 });
  // error: Property 'get' does not exist
  emp.by.lastName.get({ dept: "Sales", lastName: "Jones" });
  // error: 'lastName' is missing
  emp.by.lastName.range({ dept: "Sales", id: 3 });
  // error: "partition-scan"' is not assignable
  await emp.scan().all({ allow: "partition-scan", because: "x" });
  // error: 'string' is not assignable
  emp.range({ dept: "Sales" }).where((x) => x.age.gt("40"));
  // error: Property 'hiredAt' is missing
  await emp.insert({ dept: "Sales", id: 1, email: "a", lastName: "b" });
  // error: not assignable
  emp.by.lastName.range({ dept: "Sales", lastName: { gte: "J" } });
  // error: not assignable
  emp.range({ dept: "Sales", id: { startsWith: "1" } });
  // error: not assignable
  emp.range({ dept: { startsWith: "S" } });
  // error: 'undefined' is not assignable to type 'string'
  await emp.update({ dept: "Sales", id: 223 }, () => ({ lastName: undefined }));
  // error: not callable
  await emp.insertOrMerge({ dept: "Sales", id: 1, age: 3 });
  // error: Property 'lastName' does not exist
  (await emp.range({ dept: "Sales" }).select("email").first())?.lastName;
  // error: does not exist on type
  emp.by.town;
}

const fields = { a: f.string(), b: f.int32() };
// error: A segment's field is missing, optional or of another type
entity("X", { version: 1, fields, key: { partition: [k.str("zzz")], row: [k.str("a")] } });
// error: A segment's field is missing, optional or of another type
entity("X", { version: 1, fields, key: { partition: [k.str("a")], row: [k.str("b")] } });
// error: Property 'version' is missing
entity("X", { fields, key: { partition: [k.str("a")], row: [k.uint("b", 2)] } });
const at = { version: 1, fields, key: { partition: [k.str("a")], row: [k.uint("b", 2)] } } as const;
const near = siblingIndex({ row: [k.lit("c"), k.str("c")], unique: true });
// error: A field of an index is not declared
entity("X", { ...at, indexes: { near } });
const each = siblingIndex({
  row: [k.lit("t"), k.str("tag")],
  unique: true,
  each: { tag: () => [] },
});
entity("X", { ...at, indexes: { each } });
const far = remoteIndex({
  table: "Far",
  partition: [k.hash("c", 8)],
  row: [k.str("a"), k.uint("b", 2)],
});
// error: undeclared: "c"
entity("X", { ...at, indexes: { each, far } });
const row = [k.lit("d"), k.str("d")] as const;
// error: undeclared: "d"
entity("X", { ...at, indexes: { list: listIndex({ row, property: "Ids" }) } });
// error: undeclared: "d"
entity("X", { ...at, indexes: { all: blobList({ container: "lists", name: row }) } });
const lists = remoteList({ table: "Lists", partition: [k.str("e")], row, property: "Keys" });
// error: A field of an index is not declared
entity("X", { ...at, indexes: { lists } });
// error: undeclared: "d"
entity("X", { ...at, indexes: { kept: serverIndex({ table: "Kept", row }) } });
