import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import { connect, type Database, entity, f, isTableError, k } from "@rowhouse/patterns";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { missing } from "@rowhouse/patterns/missing";
import { remoteIndex } from "@rowhouse/patterns/remote-index";
import { serverIndex } from "@rowhouse/patterns/server-index";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { type LocalServer, startLocalServer } from "../wire/local-server.ts";
import { TableWire } from "../wire/table-wire.ts";

const ACCOUNT = DEVELOPMENT_ACCOUNT.name;
const KEY = Buffer.from(DEVELOPMENT_ACCOUNT.keys[0]!).toString("base64");
const LONG = "a long name ".repeat(40);

const declaration = {
  version: 1,
  fields: {
    dept: f.string(),
    id: f.string(),
    lastName: f.string(),
    firstName: f.string().optional(),
    hired: f.int32(),
  },
  key: { partition: [k.str("dept")], row: [k.str("id")] },
} as const;
const firstNames = missing("last", k.str("firstName"));
const Employee = entity("Employee", {
  ...declaration,
  indexes: {
    name: serverIndex({
      table: "EmployeeByName",
      partition: [k.str("lastName")],
      row: k.ordered(firstNames),
    }),
    hired: serverIndex({ table: "EmployeeByHired", partition: [k.int32("hired")] }),
    inDept: serverIndex({ table: "EmployeeInDept", row: k.ordered(k.int32("hired")) }),
  },
});
/** The index by name, as the library carries it on without the server. */
function detachedIndex() {
  return remoteIndex({
    table: "EmployeeByName",
    partition: [k.str("lastName")],
    row: k.ordered(firstNames, k.str("dept"), k.str("id")),
    copy: "keys",
  });
}

/** The declaration as it is printed, with the names of the entity's own keys. */
function evaluated(printed: string): ReturnType<typeof detachedIndex> {
  const named = printed.replace('"partitionKey"', '"dept"').replace('"rowKey"', '"id"');
  const read = new Function("remoteIndex", "missing", "k", `return ${named}`);
  return read(remoteIndex, missing, k);
}

describe("An index that the server keeps, read with the pattern library", () => {
  let server: LocalServer;
  let wire: TableWire;
  let db: Database;

  before(async () => {
    server = await startLocalServer();
    wire = new TableWire({ url: `${server.url}/${ACCOUNT}`, account: ACCOUNT, key: KEY });
    const credential = new AzureNamedKeyCredential(ACCOUNT, KEY);
    const service = new TableServiceClient(`${server.url}/${ACCOUNT}`, credential, {
      allowInsecureConnection: true,
    });
    db = connect({ tables: azureTables(service, { profile: "rowhouse" }) });
    await db.createTables(Employee);
    for (const [name, key] of [
      ["EmployeeByName", "lastName,firstName"],
      ["EmployeeByHired", "hired:Int32"],
      ["EmployeeInDept", "PartitionKey,hired:Int32"],
    ]) {
      const body = { table: "Employee", key: key!.replace(/Name/g, "Name:String"), rate: 0 };
      const answer = await wire.send("PUT", `/_rowhouse/indexes/${name}`, { body });
      assert.equal(answer.status, 201, String(answer));
    }
    for (const [dept, id, lastName, firstName, hired] of [
      ["Sales", "1", "Jones", "Mary", 2012],
      ["Sales", "2", "Jones", undefined, -3],
      ["Legal", "1", "Jones", "Ann", 2012],
      ["Legal", "2", "Smith/é😀", LONG, 2020],
      ["Legal", "3", LONG, "Zoë", 2021],
    ] as const) {
      const row = { dept, id, lastName, hired };
      await db.open(Employee).insert(firstName === undefined ? row : { ...row, firstName });
    }
  });
  after(async () => {
    wire.close();
    await server.close();
  });

  const idsOf = (rows: readonly { readonly dept: string; readonly id: string }[]) =>
    rows.map(({ dept, id }) => `${dept} ${id}`);

  it("finds entities in the order of its key, those without a value last", async () => {
    const { by } = db.open(Employee);
    const jones = await by.name.range({ lastName: "Jones" }).all();
    assert.deepEqual(idsOf(jones), ["Legal 1", "Sales 1", "Sales 2"]);
    assert.equal(jones[0]!.firstName, "Ann");
    const some = by.name.range({ lastName: "Jones", firstName: { gt: "Ann" } });
    assert.deepEqual(idsOf(await some.all()), ["Sales 1"]);
    const absent = by.name.range({ lastName: "Jones", firstName: null });
    assert.deepEqual(idsOf(await absent.all()), ["Sales 2"]);
  });

  it("finds numbers, inside a partition too, and values that the server cuts", async () => {
    const { by } = db.open(Employee);
    assert.deepEqual(idsOf(await by.hired.range({ hired: 2012 }).all()), ["Legal 1", "Sales 1"]);
    const early = by.inDept.range({ dept: "Sales", hired: { lt: 2000 } });
    assert.deepEqual(idsOf(await early.all()), ["Sales 2"]);
    assert.deepEqual(idsOf(await by.name.range({ lastName: LONG }).all()), ["Legal 3"]);
    const both = by.name.range({ lastName: "Smith/é😀", firstName: LONG });
    assert.deepEqual(idsOf(await both.all()), ["Legal 2"]);
    assert.throws(
      () => by.name.range({ lastName: "Smith/é😀", firstName: { lt: LONG } }),
      /more than 66 characters have no order/,
    );
  });

  it("follows the library's writes, which cost what they cost without it", async () => {
    const employees = db.open(Employee);
    const key = { dept: "Sales", id: "1" };
    await employees.update(key, () => ({ hired: 1999 }));
    assert.deepEqual(idsOf(await employees.by.hired.range({ hired: 1999 }).all()), ["Sales 1"]);
    await employees.update(key, () => ({ hired: 2012 }));
    assert.deepEqual(await employees.by.hired.range({ hired: 1999 }).all(), []);
  });

  it("is refused where the server writes other keys", () => {
    const wrong = (index: ReturnType<typeof serverIndex>) => () =>
      entity("Employee", { ...declaration, indexes: { wrong: index } });
    const table = "EmployeeByName";
    for (const [index, message] of [
      [serverIndex({ table, partition: [k.strCI("lastName")] }), /a form that no server writes/],
      [serverIndex({ table, partition: [k.hash("lastName", 9)] }), /a form that no server writes/],
      [serverIndex({ table, partition: [k.lit("x"), k.str("lastName")] }), /the literal "x"/],
      [serverIndex({ table, partition: [k.str("dept")] }), /is in the entity's key/],
      [serverIndex({ table, partition: [k.str("age")] }), /the field "age", which is not declared/],
      [serverIndex({ table, row: [k.str("firstName")] }), /declare missing\("last", …\)/],
      [
        serverIndex({ table, row: [missing("first", k.str("firstName"))] }),
        /a form that no server writes/,
      ],
      [serverIndex({ table: "employee", row: [k.int32("hired")] }), /a table of its own/],
    ] as const) {
      assert.throws(wrong(index as ReturnType<typeof serverIndex>), (error) => {
        assert.ok(isTableError(error, "invalid-definition"));
        assert.match(error.message, message);
        return true;
      });
    }
  });

  it("is carried on by the library once it is detached, with the entries that it has", async () => {
    // The library refuses keys that the server cuts.
    for (const id of ["2", "3"]) await db.open(Employee).delete({ dept: "Legal", id });
    const detached = await wire.send("POST", "/_rowhouse/indexes/EmployeeByName?comp=detach");
    assert.equal(detached.status, 200, String(detached));
    const trusting = connect({ tables: db.tables, indexStates: "trusted" });
    const { declaration: printed } = detached.json() as { declaration: string };
    const indexes = { name: evaluated(printed) };
    const employees = trusting.open(entity("Employee", { ...declaration, indexes }));
    const jones = () => employees.by.name.range({ lastName: "Jones" }).all();
    assert.deepEqual(idsOf(await jones()), ["Legal 1", "Sales 1", "Sales 2"]);
    await employees.update({ dept: "Legal", id: "1" }, () => ({ firstName: "Nina" }));
    assert.deepEqual(idsOf(await jones()), ["Sales 1", "Legal 1", "Sales 2"]);
  });

  it("is told to be none that the library can carry on where it writes no such keys", async () => {
    const detach = async (key: string) => {
      const body = { table: "Employee", key, rate: 0 };
      await wire.send("PUT", "/_rowhouse/indexes/ToDetach", { body });
      const detached = await wire.send("POST", "/_rowhouse/indexes/ToDetach?comp=detach");
      await wire.send("DELETE", "/Tables('ToDetach')");
      return detached.json() as { declaration?: string; problem?: string };
    };
    assert.deepEqual(await detach("lastName:String,hired:Int32 desc"), {
      name: "ToDetach",
      table: "Employee",
      problem: "it writes no descending Int32, as hired is",
    });
    const { declaration: local = "" } = await detach("PartitionKey,hired:Int32,firstName:String");
    const { partition, row } = evaluated(local).options;
    const expected = remoteIndex({
      table: "ToDetach",
      partition: [k.str("dept")],
      row: k.ordered(k.int32("hired"), firstNames, k.str("id")),
    }).options;
    assert.equal(
      JSON.stringify([partition, row]),
      JSON.stringify([expected.partition, expected.row]),
    );
  });
});
