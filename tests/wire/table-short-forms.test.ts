import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { TableClient } from "@azure/data-tables";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import type { HttpAnswer } from "./http-answer.ts";
import { assertRefused } from "./refusals.ts";
import { readBatch, sendBatch, sendChangeset } from "./table-batch.ts";
import { accountSas, tableSas } from "./table-sas.ts";
import { WireTarget } from "./table-target.ts";
import type { Call } from "./table-wire.ts";

/* The short cases of the protocol's description, each with its letter. */

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;
const table = await target.table();

let rows = 0;
const fresh = () => ({ PartitionKey: "p", RowKey: `row${rows++}` });
const NOMETADATA = { Accept: "application/json;odata=nometadata" };
const ANY = { "If-Match": "*" };

/** Inserts a JSON object's members with new keys, and reads them back. */
async function roundTrip(members: string, headers: Record<string, string>): Promise<string> {
  const keys = fresh();
  const answer = await insert(`{${JSON.stringify(keys).slice(1, -1)},${members}}`);
  assert.equal(answer.status, 201, String(answer));
  const read = await wire.send("GET", at(keys), { headers });
  return read.text.replace(/^.*"Timestamp":"[^"]*",?/, "").replace(/\}$/, "");
}

describe("Short case", () => {
  it("a: both keys may be empty", async () => {
    assert.equal((await insert({ PartitionKey: "", RowKey: "", v: 1 })).status, 201);
    assert.equal((await wire.send("GET", `/${table}(PartitionKey='',RowKey='')`)).status, 200);
  });

  it("b: 1 is an Int32, 1.0 a Double", async () => {
    assert.equal(await roundTrip('"d":1,"d2":1.0', {}), '"d":1,"d2":1.0');
  });

  it("c: a Double may be written without a point if it is annotated", async () => {
    assert.equal(await roundTrip('"d":4,"d@odata.type":"Edm.Double"', {}), '"d":4.0');
  });

  it("d: NaN is a Double in quotes", async () => {
    const members = '"x":"NaN","x@odata.type":"Edm.Double"';
    assert.equal(await roundTrip(members, {}), '"x@odata.type":"Edm.Double","x":"NaN"');
    assert.equal(await roundTrip(members, NOMETADATA), '"x":"NaN"');
  });

  it("e: a Double may be written in quotes", async () => {
    const read = await roundTrip('"d":"1.23456789012346e+24","d@odata.type":"Edm.Double"', {});
    assert.equal(read, '"d":1.23456789012346E+24');
  });

  it("f: dates drop trailing zeros", async () => {
    const own = await target.table();
    const body =
      '{"PartitionKey":"p","RowKey":"r","when@odata.type":"Edm.DateTime","when":"2012-11-10T03:04:05.200Z"}';
    await wire.send("POST", `/${own}`, { body });
    const filter = "when eq datetime'2012-11-10T03:04:05.2000000Z'";
    const answer = await wire.send("GET", `/${own}?$filter=${encodeURIComponent(filter)}`);
    assert.equal(answer.items()[0]!.when, "2012-11-10T03:04:05.2Z");
  });

  it("g: null is never stored; replace drops the property, and merge keeps it", async () => {
    const keys = fresh();
    await insert({ ...keys, v: 1, n: null });
    assert.equal((await read(keys)).text.includes('"n"'), false);
    await wire.send("MERGE", at(keys), { body: { v: null } });
    assert.match((await read(keys)).text, /"v":1/);
    await wire.send("PUT", at(keys), { body: { v: null } });
    assert.equal((await read(keys)).text.includes('"v"'), false);
  });

  it("h: an entity has at most 252 properties, not counting nulls", async () => {
    const names = (count: number, value: number | null) =>
      Object.fromEntries(
        Array.from({ length: count }, (_, i) => [`${value === null ? "n" : "p"}${i}`, value]),
      );
    assert.equal((await insert({ ...fresh(), ...names(252, 1), ...names(9, null) })).status, 201);
    refused(await insert({ ...fresh(), ...names(253, 1) }), "TooManyProperties");
  });

  it("i: property names have at most 255 units", async () => {
    assert.equal((await insert({ ...fresh(), ["n".repeat(255)]: 1 })).status, 201);
    refused(await insert({ ...fresh(), ["n".repeat(256)]: 1 }), "PropertyNameTooLong");
  });

  it("j: texts have at most 32,768 units", async () => {
    for (const unit of ["x", "é"]) {
      assert.equal((await insert({ ...fresh(), s: unit.repeat(32_768) })).status, 201);
      refused(await insert({ ...fresh(), s: unit.repeat(32_769) }), "PropertyValueTooLarge");
    }
  });

  it("k: binaries have at most 65,536 bytes", async () => {
    const binary = (bytes: number) => ({
      ...fresh(),
      "x@odata.type": "Edm.Binary",
      x: Buffer.alloc(bytes).toString("base64"),
    });
    assert.equal((await insert(binary(65_536))).status, 201);
    refused(await insert(binary(65_537)), "PropertyValueTooLarge");
  });

  it("l: an entity with 17 binaries of 64,000 bytes is too large", async () => {
    const value = Buffer.alloc(64_000).toString("base64");
    const members = (count: number) =>
      Object.fromEntries(
        Array.from({ length: count }, (_, i) => [
          [`x${i}@odata.type`, "Edm.Binary"],
          [`x${i}`, value],
        ]).flat(),
      );
    assert.equal((await insert({ ...fresh(), ...members(16) })).status, 201);
    refused(await insert({ ...fresh(), ...members(17) }), "EntityTooLarge");
  });

  it("m: a body has at most 4 MiB", async () => {
    const body = (length: number) => Buffer.from(JSON.stringify(fresh()).padEnd(length));
    assert.equal((await insert(body(4 * 1024 * 1024))).status, 201);
    assertRefused(await insert(body(4 * 1024 * 1024 + 1)), {
      status: 413,
      code: "RequestBodyTooLarge",
    });
  });

  it("n: rows are in the order of UTF-16 code units", async () => {
    const own = await target.table();
    for (const RowKey of ["a", "B", "b", "bB", "é", "𝒳"])
      await target.insert(own, { PartitionKey: "p", RowKey });
    const list = await wire.send("GET", `/${own}`);
    assert.deepEqual(
      list.items().map(({ RowKey }) => RowKey),
      ["B", "a", "b", "bB", "é", "𝒳"],
    );
  });

  it("o: a missing property matches no comparison, and `not` negates that", async () => {
    const own = await target.tableOf(
      { PartitionKey: "p", RowKey: "1st", Foo: "hi" },
      { PartitionKey: "p", RowKey: "2nd" },
    );
    for (const [filter, expected] of [
      ["Foo ne ''", ["1st"]],
      ["Foo gt ''", ["1st"]],
      ["Foo lt ''", []],
      ["not (Foo gt '')", ["2nd"]],
    ] as const) {
      const answer = await wire.send("GET", `/${own}?$filter=${encodeURIComponent(filter)}`);
      assert.deepEqual(
        answer.items().map(({ RowKey }) => RowKey),
        expected,
      );
    }
  });

  it("p: a text alone is no condition", async () => {
    const filter = encodeURIComponent("(PartitionKey ) and (RowKey ge '1')");
    assertRefused(await wire.send("GET", `/${table}?$filter=${filter}`), {
      status: 400,
      code: "InvalidInput",
      message: /^A binary operator with incompatible types was detected\./,
    });
  });

  it("q: operands and negations may be swapped; an Int32 is not greater than an Int64", async () => {
    const own = await target.tableOf({ PartitionKey: "p", RowKey: "r", Age: 6 });
    for (const [filter, matches] of [
      ["5 lt Age", 1],
      ["not (Age le 5)", 1],
      ["Age gt 5L", 0],
    ] as const) {
      const answer = await wire.send("GET", `/${own}?$filter=${encodeURIComponent(filter)}`);
      assert.equal(answer.items().length, matches);
    }
  });

  it("r: $top is 0 to 1000", async () => {
    const top = (n: number) => wire.send("GET", `/${table}?$top=${n}`);
    assert.equal((await top(1000)).status, 200);
    refused(await top(1001), "InvalidInput");
    const none = await top(0);
    assert.deepEqual(none.items(), []);
    assert.equal(none.header("x-ms-continuation-nextpartitionkey"), undefined);
    refused(await top(-1), "InvalidInput");
  });

  it("s: an empty NextRowKey is the start of the partition", async () => {
    const own = await target.tableOf(
      { PartitionKey: "p0", RowKey: "r" },
      { PartitionKey: "p1", RowKey: "r" },
    );
    const answer = await wire.send("GET", `/${own}?NextPartitionKey=1!4!cDE-&NextRowKey=`);
    assert.deepEqual(
      answer.items().map(({ PartitionKey }) => PartitionKey),
      ["p1"],
    );
  });

  it("t: PUT without If-Match inserts, and with * needs an existing entity", async () => {
    const keys = fresh();
    assert.equal((await wire.send("PUT", at(keys), { body: {} })).status, 204);
    assertRefused(await wire.send("PUT", at(fresh()), { body: {}, headers: ANY }), {
      status: 404,
      code: "ResourceNotFound",
    });
  });

  it("u: DELETE without If-Match is refused", async () => {
    const keys = fresh();
    await insert(keys);
    refused(await wire.send("DELETE", at(keys)), "MissingRequiredHeader");
    refused(
      await wire.send("DELETE", at(keys), { headers: { "If-Match": "" } }),
      "MissingRequiredHeader",
    );
    assert.equal((await read(keys)).status, 200);
  });

  it("v: POST may be a MERGE, and GET may not", async () => {
    const keys = fresh();
    await insert(keys);
    const headers = { "X-HTTP-Method": "MERGE" };
    assert.equal((await wire.send("POST", at(keys), { body: {}, headers })).status, 204);
    refused(await wire.send("GET", at(keys), { headers }), "XMethodNotUsingPost");
  });

  it("w: a batch has at most 100 operations", async () => {
    const inserts = Array.from({ length: 101 }, () => ({
      method: "POST",
      path: `/${table}`,
      body: fresh(),
    }));
    const [part, ...others] = readBatch(await sendChangeset(wire, inserts));
    assert.deepEqual(others, []);
    assert.equal(part!.code, "InvalidInput");
    assert.equal(
      part!.message,
      "99:The batch request operation exceeds the maximum 100 changes per change set.",
    );
  });

  it("x: a batch stays within one partition", async () => {
    const [part] = readBatch(
      await sendChangeset(wire, [
        { method: "POST", path: `/${table}`, body: fresh() },
        { method: "POST", path: `/${table}`, body: { PartitionKey: "other", RowKey: "r" } },
      ]),
    );
    assert.equal(part!.status, 400);
    assert.equal(part!.code, "CommandsInBatchActOnDifferentPartitions");
    assert.equal(part!.message, "1:All commands in a batch must operate on same entity group.");
  });

  it("y: a batch may have LF, no final hyphens and relative addresses", async () => {
    const body = [
      "--batch_1",
      "Content-Type: multipart/mixed; boundary=changeset_1",
      "",
      ...[fresh(), fresh()].flatMap((keys) => [
        "--changeset_1",
        "Content-Type: application/http",
        "",
        `POST /${table} HTTP/1.1`,
        "",
        JSON.stringify(keys),
      ]),
      "--changeset_1--",
      "--batch_1",
    ].join("\n");
    const parts = readBatch(await sendBatch(wire, body));
    assert.deepEqual(
      parts.map(({ status }) => status),
      [201, 201],
    );
  });

  it("z: a merge of nothing is a write", async () => {
    const keys = fresh();
    await insert(keys);
    const first = (await read(keys)).header("etag")!;
    await wire.send("MERGE", at(keys), { body: {} });
    const second = (await read(keys)).header("etag")!;
    assert.notEqual(second, first);
  });

  it("aa: an account SAS permits nothing that it does not grant", async () => {
    const create = (fields: Record<string, string>) =>
      wire.send("POST", "/Tables", {
        body: { TableName: target.name() },
        ...sas(accountSas(target, fields)),
      });
    assertRefused(await create({ sp: "d" }), {
      status: 403,
      code: "AuthorizationPermissionMismatch",
    });
    assertRefused(await create({ srt: "s" }), {
      status: 403,
      code: "AuthorizationResourceTypeMismatch",
    });
  });

  it("ab: a table SAS shows nothing outside its range", async () => {
    const own = await target.table();
    for (const PartitionKey of ["a", "b", "c", "d"])
      await target.insert(own, { PartitionKey, RowKey: "r" });
    const as = sas(tableSas(target, own, { spk: "b", epk: "c" }));
    assertRefused(await wire.send("GET", `/${own}(PartitionKey='a',RowKey='r')`, as), {
      status: 404,
      code: "ResourceNotFound",
    });
    const list = await wire.send("GET", `/${own}?$filter=PartitionKey%20gt%20'b'`, as);
    assert.deepEqual(
      list.items().map(({ PartitionKey }) => PartitionKey),
      ["c"],
    );
  });

  it("ac: an upsert is refused with only add or only update", async () => {
    for (const sp of ["a", "u"]) {
      const as = sas(tableSas(target, table, { sp }));
      assertRefused(await wire.send("PUT", at(fresh()), { body: {}, ...as }), {
        status: 403,
        code: "AuthorizationPermissionMismatch",
      });
    }
  });

  it("ad: with a rule for another origin, an answer to a request without one has Vary: Origin", async () => {
    const properties = "/?restype=service&comp=properties";
    const rule =
      "<CorsRule><AllowedMethods>GET</AllowedMethods><AllowedOrigins>http://other</AllowedOrigins>" +
      "<AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule>";
    const cors = (rules: string) =>
      `<StorageServiceProperties><Cors>${rules}</Cors></StorageServiceProperties>`;
    await wire.send("PUT", properties, { body: cors(rule) });
    const answer = await wire.send("GET", `/${table}`);
    await wire.send("PUT", properties, { body: cors("") });
    assert.equal(answer.header("vary"), "Origin");
    assert.equal(answer.header("access-control-allow-origin"), undefined);
  });

  it("ae: an acknowledged write survives kill -9", async () => {
    await withFolder(async (folder) => {
      const server = await startRowhouse(folder, ["--silent"]);
      const options = { allowInsecureConnection: true };
      const before = TableClient.fromConnectionString(server.connectionString, "Kept", options);
      await before.createTable();
      await before.createEntity({ partitionKey: "p", rowKey: "r" });
      await server.kill();
      const again = await startRowhouse(folder, ["--silent"]);
      const after = TableClient.fromConnectionString(again.connectionString, "Kept", options);
      assert.equal((await after.getEntity("p", "r")).rowKey, "r");
      await again.stop();
    });
  });
});

function at({ PartitionKey, RowKey }: { PartitionKey: string; RowKey: string }): string {
  return `/${table}(PartitionKey='${PartitionKey}',RowKey='${RowKey}')`;
}

function insert(body: string | Uint8Array | object): Promise<HttpAnswer> {
  return wire.send("POST", `/${table}`, { body });
}

function read(keys: { PartitionKey: string; RowKey: string }): Promise<HttpAnswer> {
  return wire.send("GET", at(keys));
}

function sas(token: string): Call {
  return { as: { kind: "sas", token } };
}

function refused(answer: HttpAnswer, code: string): void {
  assertRefused(answer, { status: 400, code });
}
