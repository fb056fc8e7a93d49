import assert from "node:assert/strict";
import { blobList } from "../blob-list.ts";
import type { Database } from "../database.ts";
import { connect, entity, f, k } from "../index.ts";
import { indexRepairs } from "../index-repairs.ts";
import type { EntityKey } from "../ports/tables.ts";
import { createWorker } from "../queue-worker.ts";
import { remoteList } from "../remote-list.ts";
import { type Memory, memory } from "../testing.ts";

export const fields = {
  dept: f.string(),
  id: f.int32(),
  lastName: f.string().optional(),
  age: f.int32().optional(),
};
export const key = { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] } as const;
/** Rows of two members, so that lists of a few continue in further rows. */
export const LENGTH_MAX = 40;
const list = remoteList({
  table: "EmployeeByName",
  partition: [k.str("lastName")],
  row: [k.lit("lastName"), k.str("lastName")],
  property: "EmployeeDetails",
  lengthMax: LENGTH_MAX,
});
const blobs = blobList({ container: "employee-lastname", name: [k.str("lastName")] });
export const Plain = entity("Employee", { version: 1, fields, key });
export const Employee = entity("Employee", { version: 1, fields, key, indexes: { list, blobs } });
export const NAMES = ["list", "blobs"] as const;
type Name = (typeof NAMES)[number];

export async function prepareIn(db: Database): Promise<void> {
  await db.createTables(Employee);
  await db.blobs?.createContainer("employee-lastname");
  for (const name of ["index-repairs", "index-repairs-poison"]) await db.queues?.createQueue(name);
}

export async function open() {
  const backend = memory();
  const db = connect(backend);
  await prepareIn(db);
  return { backend, db, employees: db.open(Employee) };
}

export const Townsman = entity("Townsman", {
  version: 1,
  fields: { ...fields, town: f.string() },
  key,
  indexes: {
    names: remoteList({
      table: "ByName",
      partition: [k.str("lastName")],
      row: [k.lit("lastName"), k.str("lastName")],
      property: "Members",
    }),
    towns: blobList({ container: "towns", name: [k.str("town")] }),
  },
});

export async function work(db: Database, rounds: number) {
  const worker = createWorker(db, {
    queue: "index-repairs",
    handlers: [indexRepairs([Employee])],
  });
  for (let round = 0; round < rounds; round++) {
    await db.clock.sleep(95_000);
    await worker.drain();
  }
  return worker;
}

/** Works, then sends poison messages back once: a message is not to blame for attempts that were cut off. */
export async function letWorkersFinish(db: Database, rounds = 3): Promise<void> {
  const worker = await work(db, rounds);
  if ((await worker.redrive()) > 0) {
    await db.clock.sleep(95_000);
    await worker.drain();
  }
  assert.deepEqual(await worker.peekPoison(), []);
}

/** Every list holds exactly the entities with its value, sorted, and no row or blob is empty. */
export async function audit(db: Database, backend: Memory): Promise<void> {
  const employees = await db.open(Plain).scan().all({ allow: "table-scan", because: "test" });
  const expected = new Map<string, string[]>();
  for (const { dept, id, lastName } of employees) {
    if (lastName === undefined) continue;
    const member = `${dept} empid_${String(id).padStart(6, "0")}`;
    expected.set(lastName, [...(expected.get(lastName) ?? []), member].sort());
  }
  for (const name of NAMES) {
    const found = await listsIn(backend, name);
    assert.deepEqual(found, new Map([...expected].sort()), name);
  }
  assert.deepEqual(backend.queues.contents("index-repairs"), []);
}

export async function listsIn(
  { tables, blobs }: Memory,
  name: Name,
): Promise<Map<string, string[]>> {
  const lists = new Map<string, string[]>();
  if (name === "blobs") {
    for (const blob of (await blobs.list("employee-lastname", {})).blobs) {
      const { body } = (await blobs.get("employee-lastname", blob.name))!;
      lists.set(blob.name, new TextDecoder().decode(body).trimEnd().split("\n"));
    }
    return lists;
  }
  const { entities } = await tables.query("EmployeeByName", {});
  for (const { partitionKey, properties } of entities) {
    const content = String(properties.EmployeeDetails?.value);
    assert.ok(content.length <= LENGTH_MAX, content);
    const members = [...(lists.get(partitionKey) ?? []), ...content.split("\n")];
    lists.set(partitionKey, members.filter(Boolean).sort());
  }
  return new Map([...lists].sort());
}

export const rowOf = (key: unknown) => (key as EntityKey).rowKey;

export const jones = (id: number, lastName: string | undefined = "Jones", dept = "Sales") => ({
  ...{ dept, id },
  ...(lastName !== undefined && { lastName }),
});
