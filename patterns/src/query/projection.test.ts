import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, entity, f, k } from "../index.ts";
import { intercept } from "../testing/intercept.ts";
import { memory } from "../testing/memory.ts";

const definition = {
  version: 1,
  fields: {
    dept: f.string(),
    id: f.int32(),
    email: f.string().as("EmailAddress"),
    pay: f.double().optional(),
    resume: f.string(),
  },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
} as const;
const Employee = entity("Employee", definition);

async function open() {
  const backend = memory();
  const selects: unknown[] = [];
  const spied = intercept(backend, (call, send) => {
    const [, query] = call.args;
    if (typeof query === "object" && query && "select" in query) selects.push(query.select);
    return send();
  });
  const db = connect({ ...backend, ...spied });
  await db.createTables(Employee);
  const employees = db.open(Employee);
  await employees.insert({ dept: "Sales", id: 1, email: "a", pay: 3, resume: "long" });
  await employees.insert({ dept: "Sales", id: 2, email: "b", resume: "long" });
  return { db, employees, selects };
}

describe("a projection", () => {
  it("selects properties by their stored names, and the type", async () => {
    const { employees, selects } = await open();
    const [row] = await employees.range({ dept: "Sales" }).select("id", "email").all();
    const { etag, ...fields } = row!;
    assert.deepEqual(fields, { id: 1, email: "a" });
    assert.ok(etag);
    assert.deepEqual(selects, [["EmailAddress", "rh_t"]]);
  });

  it("reads key fields from the keys", async () => {
    const { employees, selects } = await open();
    const rows = await employees.range({ dept: "Sales" }).select("id").all();
    assert.deepEqual(
      rows.map(({ id }) => id),
      [1, 2],
    );
    assert.deepEqual(selects, [["rh_t"]]);
  });

  it("leaves out fields that a row lacks, and decodes the others by the schema", async () => {
    const { employees } = await open();
    const rows = await employees.range({ dept: "Sales" }).select("pay").all();
    assert.deepEqual(
      rows.map((row) => ("pay" in row ? row.pay : "absent")),
      [3, "absent"],
    );
  });

  it("costs as much as reading whole rows", async () => {
    const { db } = await open();
    const { requests, entities } = await db.metered((metered) =>
      metered.open(Employee).range({ dept: "Sales" }).select("id").all(),
    );
    assert.deepEqual([requests, entities], [1, 2]);
  });

  it("fetches whole rows if an upgrade may need any field", async () => {
    const { db, selects } = await open();
    const upgrade = {
      1: (old: Readonly<Record<string, unknown>>) => ({ ...old, email: old.resume }),
    };
    const Newer = entity("Employee", { ...definition, version: 2, upgrade });
    const [row] = await db.open(Newer).range({ dept: "Sales" }).select("email").all();
    assert.equal(row?.email, "long");
    assert.deepEqual(Object.keys(row!).sort(), ["email", "etag"]);
    assert.deepEqual(selects, []);
  });
});
