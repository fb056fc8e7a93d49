import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import {
  AzureNamedKeyCredential,
  AzureSASCredential,
  TableClient,
  TableServiceClient,
} from "@azure/data-tables";
import { connect, entity, f, isRefusal, isTableError, k } from "@rowhouse/patterns";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { sasIssuer, type TablePermission } from "@rowhouse/patterns/table-sas";
import { type LocalServer, startLocalServer } from "../wire/local-server.ts";
import { KEY } from "../wire/queue-wire.ts";

const ACCOUNT = "devstoreaccount1";
const Note = entity("Note", {
  version: 1,
  fields: { user: f.string(), folder: f.string(), id: f.int32(), text: f.string() },
  key: { partition: [k.str("user")], row: [k.lit("note"), k.str("folder"), k.uint("id", 4)] },
});
const issuer = sasIssuer({ account: ACCOUNT, key: KEY, allowHttp: true });
const inbox = (id: number) => ({ user: "ann", folder: "in.", id, text: "" });
const neighbours = [
  { user: "ann", folder: "in./", id: 1, text: "" },
  { user: "ann", folder: "in", id: 1, text: "" },
  { user: "ann", folder: "im", id: 1, text: "" },
  { user: "ann", folder: "io", id: 1, text: "" },
  { user: "anm", folder: "in.", id: 1, text: "" },
  { user: "ann2", folder: "in.", id: 1, text: "" },
];
let server: LocalServer;

before(async () => {
  server = await startLocalServer();
  const db = open(new AzureNamedKeyCredential(ACCOUNT, KEY));
  await db.createTables(Note);
  for (const note of [inbox(0), inbox(9999), ...neighbours]) await db.open(Note).insert(note);
});
after(() => server.close());

function open(credential: AzureNamedKeyCredential | AzureSASCredential) {
  const url = `${server.url}/${ACCOUNT}`;
  const options = { allowInsecureConnection: true };
  const client =
    credential instanceof AzureSASCredential
      ? new TableServiceClient(url, credential, options)
      : new TableServiceClient(url, credential, options);
  return connect({ tables: azureTables(client, { profile: "rowhouse" }) });
}

async function as(...permissions: TablePermission[]) {
  const grant = { partition: { user: "ann" }, rows: { folder: "in." }, permissions };
  const { token } = await issuer.sasFor(Note, grant);
  return open(new AzureSASCredential(token)).open(Note);
}

const isForbidden = (error: unknown) => isRefusal(error, 403);

describe("a token for one user's rows, on Rowhouse", () => {
  it("reads the first and last row of its range, and no neighbor", async () => {
    const notes = await as("read");
    assert.equal((await notes.get(inbox(0)))?.id, 0);
    assert.equal((await notes.get(inbox(9999)))?.id, 9999);
    for (const note of neighbours) {
      // The service answers 404, as if the row did not exist.
      assert.equal(await notes.get(note), undefined, JSON.stringify(note));
    }
  });

  it("limits a query to its range", async () => {
    const notes = await as("read");
    const found = await notes.range({ user: "ann" }).all();
    assert.deepEqual(
      found.map(({ folder, id }) => `${folder} ${id}`),
      ["in. 0", "in. 9999"],
    );
    const all = await notes.scan().all({ allow: "table-scan", because: "the range is clipped" });
    assert.equal(all.length, 2);
  });

  it("allows only the granted permissions", async () => {
    const actions = {
      read: (notes: Notes) => notes.get(inbox(0)),
      add: (notes: Notes) => notes.insert(inbox(1)),
      delete: (notes: Notes) => notes.delete(inbox(1), { force: true }),
    };
    type Notes = Awaited<ReturnType<typeof as>>;
    for (const [name, action] of Object.entries(actions)) {
      for (const permission of ["read", "update", "delete", "add"] as const) {
        const attempt = action(await as(permission));
        if (permission === name) await attempt;
        else await assert.rejects(attempt, isForbidden, `${name} with ${permission}`);
      }
    }
    const notes = await as("read", "update");
    await notes.update(inbox(0), () => ({ text: "read" }));
    assert.equal((await notes.get(inbox(0)))?.text, "read");
    for (const permissions of [
      ["update", "add", "delete"],
      ["read", "add", "delete"],
    ] as const) {
      const update = (await as(...permissions)).update(inbox(0), () => ({ text: "" }));
      await assert.rejects(update, isForbidden, permissions.join());
    }
  });

  it("follows its policy until that is removed", async () => {
    const credential = new AzureNamedKeyCredential(ACCOUNT, KEY);
    const url = `${server.url}/${ACCOUNT}`;
    const table = new TableClient(url, "Note", credential, { allowInsecureConnection: true });
    const accessPolicy = { permission: "r", start: new Date(0), expiry: new Date("2100-01-01") };
    await table.setAccessPolicy([{ id: "readers", accessPolicy }]);
    const grant = { partition: { user: "ann" }, rows: { folder: "in." }, policy: "readers" };
    const { token } = await issuer.sasFor(Note, grant);
    const notes = open(new AzureSASCredential(token)).open(Note);
    assert.equal((await notes.get(inbox(9999)))?.id, 9999);
    await assert.rejects(notes.insert(inbox(1)), isForbidden);
    await table.setAccessPolicy([]);
    await assert.rejects(notes.get(inbox(9999)), isForbidden);
  });

  it("commits no transaction that leaves its range", async () => {
    const { token } = await issuer.sasFor(Note, {
      partition: { user: "ann" },
      rows: { folder: "in." },
      permissions: ["read", "add", "update"],
    });
    const db = open(new AzureSASCredential(token));
    await db.tx({ user: "ann" }, (tx) => {
      tx.insert(Note, inbox(10));
      tx.insert(Note, inbox(11));
    });
    const leaving = db.tx({ user: "ann" }, (tx) => {
      tx.insert(Note, inbox(12));
      tx.insert(Note, { ...inbox(12), folder: "out" });
    });
    await assert.rejects(leaving, isForbidden);
    assert.equal(await db.open(Note).get(inbox(12)), undefined);
  });

  it("is refused if another key signed it", async () => {
    const forged = sasIssuer({ account: ACCOUNT, key: btoa("another key"), allowHttp: true });
    const { token } = await forged.sasFor(Note, { partition: { user: "ann" } });
    const notes = open(new AzureSASCredential(token)).open(Note);
    await assert.rejects(notes.get(inbox(0)), isForbidden);
    assert.ok(!isTableError(await notes.get(inbox(0)).catch((error) => error)));
  });
});
