import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { assertRefused, type Refusal } from "./refusals.ts";
import { ANY, EntityRequests, NOMETADATA, timestampOf } from "./table-entity-requests.ts";
import { WireTarget } from "./table-target.ts";

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;
const table = await target.table();
const requests = new EntityRequests(wire, table);

describe("Get Entity", () => {
  it("returns selected properties in the requested order, null for those that the entity lacks", async () => {
    const keys = requests.fresh();
    await requests.insert({ ...keys, age: 7, sex: "f", "big@odata.type": "Edm.Int64", big: "9" });
    const path = `${requests.at(keys)}?$select=big,%20age,xyz,PartitionKey,age`;
    const answer = await wire.send("GET", path);
    const tag = JSON.stringify(answer.header("etag"));
    assert.equal(
      answer.text,
      `{"odata.metadata":"${target.url}/$metadata#${table}/@Element&$select=big,age,xyz,PartitionKey","odata.etag":${tag},` +
        '"big@odata.type":"Edm.Int64","big":"9","age":7,"xyz":null,"PartitionKey":"p"}',
    );
    const bare = await wire.send("GET", path, { headers: NOMETADATA });
    assert.equal(bare.text, '{"big":"9","age":7,"xyz":null,"PartitionKey":"p"}');
    const all = await wire.send("GET", `${requests.at(keys)}?$select=*`, { headers: NOMETADATA });
    assert.equal((all.json() as { sex: string }).sex, "f");
  });

  it("accepts keys in any spelling of the address", async () => {
    const keys = { PartitionKey: "O'Brien a+b", RowKey: "50% é" };
    await requests.insert(keys);
    for (const address of [
      "(PartitionKey='O''Brien%20a+b',RowKey='50%25%20%C3%A9')",
      "(PartitionKey='O''Brien%20a%2Bb', RowKey='50%25%20%C3%A9')".replace(", ", ",%20"),
      "(RowKey='50%25%20%C3%A9',PartitionKey='O''Brien%20a%2Bb')",
      "%28PartitionKey%3D%27O%27%27Brien%20a%2Bb%27%2CRowKey%3D%2750%25%20%C3%A9%27%29",
    ]) {
      const answer = await wire.send("GET", `/${table}${address}`, { headers: NOMETADATA });
      assert.equal(answer.status, 200, `${address} ${answer}`);
    }
  });

  it("answers ResourceNotFound, or TableNotFound if the table is missing", async () => {
    const missing = {
      status: 404,
      code: "ResourceNotFound",
      message: "The specified resource does not exist.",
    };
    assertRefused(await wire.send("GET", `/${table}(PartitionKey='p',RowKey='none')`), missing);
    assertRefused(await wire.send("GET", "/Nobody(PartitionKey='p',RowKey='r')"), {
      status: 404,
      code: "TableNotFound",
      message: "The table specified does not exist.",
    });
  });

  it("ignores conditions and a filter", async () => {
    const keys = requests.fresh();
    await requests.insert(keys);
    const answer = await wire.send("GET", `${requests.at(keys)}?$filter=RowKey%20eq%20'x'`, {
      headers: { "If-Match": `W/"datetime'2012-06-15T22%3A51%3A44Z'"`, "If-None-Match": "*" },
    });
    assert.equal(answer.status, 200);
  });

  const syntax: Refusal = {
    status: 400,
    code: "InvalidInput",
    message: "Bad Request - Error in query syntax.",
  };
  const range: Refusal = {
    status: 400,
    code: "OutOfRangeInput",
    message: "One of the request inputs is out of range.",
  };
  const addresses: readonly (readonly [string, Refusal])[] = [
    ["(PartitionKey='a%2Fb',RowKey='r')", syntax],
    ["(PartitionKey='a',RowKey='r%5Cr')", syntax],
    ["(PartitionKey='a%23b',RowKey='r')", range],
    ["(PartitionKey='a%3Fb',RowKey='r')", range],
    ["(PartitionKey='a%0Ab',RowKey='r')", range],
    ["(PartitionKey='a%C2%85b',RowKey='r')", range],
    ["(PartitionKey='a')", syntax],
    ["(PartitionKey='a',RowKey='b',Other='c')", syntax],
    ["(PartitionKey='a',PartitionKey='b')", syntax],
    ["(PartitionKey=a,RowKey=b)", syntax],
    ["(PartitionKey='a,RowKey='b')", syntax],
    ["(PartitionKey='a',RowKey='b'", syntax],
    ["(PartitionKey='a',RowKey='b')c", syntax],
    [
      `(PartitionKey='${"k".repeat(1025)}',RowKey='b')`,
      { status: 400, code: "PropertyValueTooLarge" },
    ],
    ["(PartitionKey='%ED%A0%80',RowKey='b')", { status: 400, code: "RequestUrlFailedToParse" }],
    ["(PartitionKey='%FF',RowKey='b')", { status: 400, code: "RequestUrlFailedToParse" }],
  ];
  for (const method of ["GET", "PUT", "MERGE", "DELETE"]) {
    it(`and the entity writes refuse invalid keys (${method})`, async () => {
      for (const [address, refusal] of addresses) {
        const answer = await wire.send(method, `/${table}${address}`, {
          body: method === "GET" || method === "DELETE" ? undefined : {},
          headers: method === "DELETE" ? ANY : {},
        });
        assertRefused(answer, refusal, "json");
      }
    });
  }
});

describe("Updates and merges", () => {
  it("answer 204 with the new ETag, and no body", async () => {
    const keys = requests.fresh();
    for (const [method, headers] of [
      ["PUT", {}],
      ["PUT", ANY],
      ["MERGE", {}],
      ["MERGE", ANY],
      ["PATCH", { Prefer: "return-content" }],
    ] as const) {
      const answer = await wire.send(method, requests.at(keys), {
        body: { ...keys, a: 1 },
        headers,
      });
      assert.equal(answer.status, 204);
      assert.equal(answer.header("preference-applied"), undefined);
      assert.equal(answer.header("location"), undefined);
      const read = await wire.send("GET", requests.at(keys));
      assert.equal(read.header("etag"), answer.header("etag"));
    }
  });

  it("send no Preference-Applied when refused, even through POST", async () => {
    const path = requests.at(requests.fresh());
    for (const [tunnelled, target, status] of [
      ["MERGE", path, 404],
      ["MERGE", `${path}?timeout=soon`, 400],
      ["NONE", path, 400],
    ] as const) {
      const headers = { ...ANY, Prefer: "return-no-content", "X-HTTP-Method": tunnelled };
      const answer = await wire.send("POST", target, { headers, body: {} });
      assert.equal(answer.status, status);
      assert.equal(answer.header("preference-applied"), undefined);
    }
  });

  it("differ: replace drops unmentioned properties, and merge keeps them", async () => {
    const keys = requests.fresh();
    await requests.insert({ ...keys, a: 1, b: 2 });
    await wire.send("MERGE", requests.at(keys), { body: { b: "two", c: 3, a: null } });
    assert.deepEqual(await requests.custom(keys), { a: 1, b: "two", c: 3 });
    await wire.send("PUT", requests.at(keys), { body: { b: null, d: 4 } });
    assert.deepEqual(await requests.custom(keys), { d: 4 });
  });

  it("increase the Timestamp on every write, even one that changes nothing", async () => {
    const keys = requests.fresh();
    await requests.insert({ ...keys, a: 1 });
    let before = timestampOf((await wire.send("GET", requests.at(keys))).header("etag")!);
    for (let i = 0; i < 20; i++) {
      const answer = await wire.send("MERGE", requests.at(keys), { body: {} });
      const now = timestampOf(answer.header("etag")!);
      assert.ok(sortable(now) > sortable(before), `${now} after ${before}`);
      before = now;
    }
  });

  it("may be tunneled through POST", async () => {
    const keys = requests.fresh();
    const tunnel = (method: string, body?: object, headers = {}) =>
      wire.send("POST", requests.at(keys), {
        body,
        headers: { "X-HTTP-Method": method, ...headers },
      });
    assert.equal((await tunnel("PUT", { a: 1 })).status, 204);
    assert.equal((await tunnel("MERGE", { b: 2 })).status, 204);
    assert.equal((await tunnel("patch", { c: 3 })).status, 204);
    assert.deepEqual(await requests.custom(keys), { a: 1, b: 2, c: 3 });
    assert.equal((await tunnel("DELETE", undefined, ANY)).status, 204);
    assertRefused(await tunnel("GET"), {
      status: 400,
      code: "XMethodIncorrectValue",
      message: "The specified X-HTTP-Method is invalid.",
    });
    for (const method of ["GET", "PUT", "DELETE"]) {
      assertRefused(
        await wire.send(method, requests.at(keys), { headers: { "X-HTTP-Method": "MERGE" } }),
        {
          status: 400,
          code: "XMethodNotUsingPost",
        },
      );
    }
  });

  it("check the limits of the merged entity", async () => {
    const keys = requests.fresh();
    const names = (from: number, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${from + i}`, i]));
    await requests.insert({ ...keys, ...names(0, 200) });
    assertRefused(await wire.send("MERGE", requests.at(keys), { body: names(200, 53) }), {
      status: 400,
      code: "TooManyProperties",
    });
    assert.equal(
      (await wire.send("MERGE", requests.at(keys), { body: names(200, 52) })).status,
      204,
    );
    const texts = (prefix: string) =>
      Object.fromEntries(
        Array.from({ length: 9 }, (_, i) => [`${prefix}${i}`, "x".repeat(32_000)]),
      );
    const big = requests.fresh();
    await requests.insert({ ...big, ...texts("a") });
    assertRefused(await wire.send("MERGE", requests.at(big), { body: texts("b") }), {
      status: 400,
      code: "EntityTooLarge",
    });
    assert.deepEqual(Object.keys(await requests.custom(big)).length, 9);
  });

  it("on a missing table answer TableNotFound", async () => {
    for (const method of ["PUT", "MERGE", "PATCH", "DELETE"]) {
      const answer = await wire.send(method, "/Nobody(PartitionKey='p',RowKey='r')", {
        body: method === "DELETE" ? undefined : {},
        headers: ANY,
      });
      assertRefused(answer, { status: 404, code: "TableNotFound" });
    }
  });
});

describe("Tables", () => {
  it("are found in any case of their name", async () => {
    const keys = requests.fresh();
    const other = `/${table.toUpperCase()}`;
    assert.equal((await wire.send("POST", other, { body: keys })).status, 201);
    assert.equal((await wire.send("GET", requests.at(keys))).status, 200);
  });

  it("distinguish property names by case, and accept letters of any script", async () => {
    const keys = requests.fresh();
    const body = { ...keys, Birthday: 1, birthday: 2, 啊齄丂狛狜: "x", _a1: true, ÄÖ: 1.5 };
    await requests.insert(body);
    assert.deepEqual(await requests.custom(keys), {
      Birthday: 1,
      birthday: 2,
      啊齄丂狛狜: "x",
      _a1: true,
      ÄÖ: 1.5,
    });
  });
});

/** With the fraction's missing zeros filled in and without its point, texts of times sort like times. */
function sortable(timestamp: string): string {
  const [seconds = "", fraction = ""] = timestamp.slice(0, -1).split(".");
  return seconds + fraction.padEnd(7, "0");
}
