import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { selfSignedCertificate } from "../support/certificate.ts";
import { startLocalServer } from "./local-server.ts";
import { assertRefused } from "./refusals.ts";
import { batchedQuery, readBatch, rowsOf, sendBatch, sendChangeset } from "./table-batch.ts";
import { ANY, EntityRequests, NOMETADATA } from "./table-entity-requests.ts";
import { accountSas, tableSas } from "./table-sas.ts";
import { WireTarget } from "./table-target.ts";
import { hmac, TableWire } from "./table-wire.ts";

/** What clients send although the reference does not mention it, and what the service makes of it. */

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;
const table = await target.table();
const requests = new EntityRequests(wire, table);

describe("X-HTTP-Method that repeats the verb", () => {
  it("changes nothing, in a single request as in a batch", async () => {
    for (const [verb, tunnelled] of [
      ["MERGE", "MERGE"],
      ["PATCH", "patch"],
      ["PATCH", "MERGE"],
      ["PUT", "PUT"],
    ] as const) {
      const keys = requests.fresh();
      const headers = { "X-HTTP-Method": tunnelled };
      const answer = await wire.send(verb, requests.at(keys), { headers, body: { v: 1 } });
      assert.equal(answer.status, 204, verb);
      const call = { method: verb, path: requests.at(keys), headers, body: { v: 2 } };
      const [part] = readBatch(await sendChangeset(wire, [call]));
      assert.equal(part!.status, 204, verb);
      assert.deepEqual(await requests.custom(keys), { v: 2 });
    }
    const keys = requests.fresh();
    await requests.insert(keys, { "X-HTTP-Method": "POST" });
    const get = { "X-HTTP-Method": "GET" };
    assert.equal((await wire.send("GET", requests.at(keys), { headers: get })).status, 200);
    const [found] = readBatch(await sendBatch(wire, batchedQuery(requests.at(keys), get)));
    assert.equal(found!.status, 200);
    const headers = { "X-HTTP-Method": "DELETE", ...ANY };
    assert.equal((await wire.send("DELETE", requests.at(keys), { headers })).status, 204);
  });

  it("keeps an insert an insert, also where that fails", async () => {
    const keys = requests.fresh();
    const headers = { "X-HTTP-Method": "POST", Prefer: "return-no-content" };
    assert.equal((await requests.insert(keys, headers)).status, 204);
    const again = await requests.insert(keys, headers);
    assert.equal(again.status, 409);
    assert.equal(again.header("preference-applied"), "return-no-content");
    const call = { method: "POST", path: `/${table}`, headers, body: keys };
    const [part] = readBatch(await sendChangeset(wire, [call]));
    assert.equal(part!.code, "EntityAlreadyExists");
    assert.equal(part!.headers["Preference-Applied"], "return-no-content");
  });
});

describe("Keys in the body of an update that differ from the address", () => {
  it("are ignored, whatever they are, in a single request as in a batch", async () => {
    for (const verb of ["PUT", "MERGE", "PATCH"]) {
      for (const other of [
        { PartitionKey: "o''p", RowKey: "''" },
        { RowKey: "q" },
        { PartitionKey: 5, RowKey: null },
      ]) {
        const keys = requests.fresh();
        const path = requests.at(keys);
        const answer = await wire.send(verb, path, { body: { ...other, v: 1 } });
        assert.equal(answer.status, 204, String(answer));
        const call = { method: verb, path, body: { ...other, v: 2 } };
        const [part] = readBatch(await sendChangeset(wire, [call]));
        assert.equal(part!.status, 204);
        assert.deepEqual(await requests.custom(keys), { v: 2 });
      }
    }
    assert.deepEqual(await rowsOf(wire, table, "o''p"), {});
  });
});

describe("An endpoint that already names a table", () => {
  it("refuses to create, with the codes by which clients give their hint", async () => {
    const body = { TableName: table };
    assertRefused(
      await wire.send("POST", `/${table}/Tables`, { body }),
      {
        status: 400,
        code: "PropertiesNeedValue",
        message: "The values are not specified for all properties in the entity.",
      },
      "json",
    );
    assertRefused(await wire.send("POST", "/Missing/Tables", { body }), {
      status: 404,
      code: "TableNotFound",
    });
  });

  it("never inserts, even an entity with both keys", async () => {
    const body = { PartitionKey: "below", RowKey: "r" };
    const answer = await wire.send("POST", `/${table}/${table}`, { body });
    assert.equal(answer.status, 400);
    assert.deepEqual(await rowsOf(wire, table, "below"), {});
  });

  it("reads nothing, and deletes nothing for the number of its keys", async () => {
    for (const path of ["Tables", "Tables()", "Tables('t')", `${table}()`]) {
      const answer = await wire.send("GET", `/${table}/${path}`);
      assertRefused(answer, { status: 501, code: "NotImplemented" });
    }
    for (const path of ["Tables('t')", `${table}(PartitionKey='p',RowKey='r')`]) {
      assertRefused(await wire.send("DELETE", `/${table}/${path}`, { headers: ANY }), {
        status: 400,
        code: "InvalidInput",
        message: /^The number of keys specified in the URI does not match number of key properties/,
      });
    }
    const batch = await wire.send("POST", `/${table}/$batch`, { body: "" });
    assertRefused(batch, { status: 501, code: "NotImplemented" });
  });

  it("tells a caller without the right nothing", async () => {
    const token = tableSas(target, table, { sp: "r" });
    const answer = await wire.send("POST", `/${table}/Tables`, { as: { kind: "sas", token } });
    assertRefused(answer, { status: 403, code: "AuthorizationPermissionMismatch" });
  });
});

/** As curl sends it: UTF-8, one character per byte. */
const raw = (path: string) => Buffer.from(path, "utf8").toString("latin1");

describe("Raw UTF-8 in the request line", () => {
  const PATH = `/${table}(PartitionKey='é 名'.RowKey='\u{1f600}')`
    .replace(".", ",")
    .replace(" ", "%20");
  const FILTER = `/${table}?$filter=RowKey%20eq%20'\u{1f600}'&$select=v`;

  it("is read as UTF-8, in the address of an entity as in a filter", async () => {
    const as = { kind: "sas", token: tableSas(target, table) } as const;
    const put = await wire.send("PUT", raw(PATH), { as, body: { v: "é" } });
    assert.equal(put.status, 204, String(put));
    const same = await wire.send("GET", encodeURI(decodeURI(PATH)), { headers: NOMETADATA });
    assert.equal((same.json() as { v: string }).v, "é");
    const list = await wire.send("GET", raw(FILTER), { as, headers: NOMETADATA });
    assert.deepEqual(list.items(), [{ v: "é" }]);
  });

  it("may be signed as it is sent or as it would be escaped", async () => {
    const date = new Date().toUTCString();
    for (const path of [PATH, encodeURI(decodeURI(PATH))]) {
      const { pathname } = new URL(target.url);
      const text = `${date}\n/${target.account}${pathname}${path}`;
      const Authorization = `SharedKeyLite ${target.account}:${hmac(target.key, text)}`;
      const headers = { Authorization, "x-ms-date": date };
      const answer = await wire.send("PUT", raw(PATH), { headers, body: {} });
      assert.equal(answer.status, 204, String(answer));
    }
  });

  it("that is no UTF-8 is refused with a body, in an address as in a filter", async () => {
    for (const path of ["(PartitionKey='\u00e9',RowKey='r')", "?$filter=RowKey%20eq%20'\u00e9'"]) {
      const as = { kind: "sas", token: tableSas(target, table) } as const;
      const refusal = { status: 400, code: "RequestUrlFailedToParse" };
      assertRefused(await wire.send("GET", `/${table}${path}`, { as }), refusal);
    }
  });

  it("is read over TLS too, in the first request of a connection and in a later one", async () => {
    const certificate = selfSignedCertificate(new Date());
    const server = await startLocalServer({ tls: certificate });
    const secure = new TableWire(
      { ...target, url: `${server.url}/${target.account}` },
      certificate.cert,
    );
    try {
      await secure.send("POST", "/Tables", { body: { TableName: table } });
      const as = { kind: "sas", token: tableSas(target, table) } as const;
      for (const body of [{ v: 1 }, { v: 2 }]) {
        assert.equal((await secure.send("PUT", raw(PATH), { as, body })).status, 204);
        const found = await secure.send("GET", raw(FILTER), { as, headers: NOMETADATA });
        assert.deepEqual(found.items(), [body]);
      }
    } finally {
      secure.close();
      await server.close();
    }
  });
});

describe("The refusal of HEAD", () => {
  it("has no Content-Type, because it has no body", async () => {
    for (const path of [`/Tables('${table}')`, requests.at(requests.fresh()), "/Tables", "/none"]) {
      const answer = await wire.send("HEAD", path);
      assert.deepEqual([answer.status, answer.header("content-type")], [405, undefined], path);
      assert.equal(answer.header("x-ms-error-code"), "MethodNotAllowed");
    }
  });
});

describe("Other spellings", () => {
  it("of true and false are read in filters and as the text of an Edm.Boolean", async () => {
    const p = "spelled";
    const body = `{"PartitionKey":"${p}","RowKey":"r","b":"FALSE","b@odata.type":"Edm.Boolean","c":"True","c@odata.type":"Edm.Boolean"}`;
    assert.equal((await requests.insertText(body)).status, 201);
    const found = await wire.send("GET", requests.at({ PartitionKey: p, RowKey: "r" }), {
      headers: NOMETADATA,
    });
    assert.match(found.text, /"b":false,"c":true/);
    for (const filter of ["b eq False", "c eq TRUE", "not (b eq True)", "c ne false"]) {
      const path = `/${table}?$filter=PartitionKey%20eq%20'${p}'%20and%20${encodeURIComponent(filter)}`;
      assert.equal((await wire.send("GET", path)).items().length, 1, filter);
      const [part] = readBatch(await sendBatch(wire, batchedQuery(path)));
      assert.match(part!.body, /"RowKey":"r"/);
    }
  });

  it('of a weak ETag, w/"…", are its plain form', async () => {
    const keys = requests.fresh();
    const inserted = await requests.insert(keys);
    const first = inserted.header("etag")!.replace("W/", "w/");
    const merged = await wire.send("MERGE", requests.at(keys), {
      headers: { "If-Match": first },
      body: {},
    });
    assert.equal(merged.status, 204);
    const stale = { method: "DELETE", path: requests.at(keys), headers: { "If-Match": first } };
    const [part] = readBatch(await sendChangeset(wire, [stale]));
    assert.equal(part!.code, "UpdateConditionNotSatisfied");
  });
});

describe("A SAS with a parameter twice", () => {
  it("is refused, whichever of the two was signed", async () => {
    for (const sas of [tableSas(target, table), accountSas(target)]) {
      const get = (token: string) =>
        wire.send("GET", `/${table}`, { as: { kind: "sas", token }, headers: NOMETADATA });
      assert.equal((await get(sas)).status, 200);
      const signature = /sig=[^&]*/.exec(sas)![0];
      for (const twice of [
        `${sas}&sp=r`,
        `sp=raud&${sas}`,
        `${sas}&SP=r`,
        `${sas}&sp=`,
        `${sas}&${signature}`,
        `sig=x&${sas}`,
        `${sas}&se=2999-01-01`,
      ]) {
        const answer = await get(twice);
        assertRefused(answer, { status: 403, code: "AuthenticationFailed" });
      }
    }
  });
});
