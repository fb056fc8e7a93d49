import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import type { HttpAnswer } from "./http-answer.ts";
import { assertRefused, type Refusal } from "./refusals.ts";
import { WireTarget } from "./table-target.ts";

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;
const table = await target.table();

let rows = 0;
/** Keys nobody used before. */
const fresh = () => ({ PartitionKey: "p", RowKey: `row${rows++}` });
const at = ({ PartitionKey, RowKey }: { PartitionKey: string; RowKey: string }) =>
  `/${table}(PartitionKey='${PartitionKey}',RowKey='${RowKey}')`;
const level = (name: string) => ({ Accept: `application/json;odata=${name}` });
const NOMETADATA = level("nometadata");
const NO_CONTENT = { Prefer: "return-no-content" };
const ANY = { "If-Match": "*" };
const BAD_BODY = "An error occurred while processing this request.";

const EVERY_TYPE =
  '"s":"a\\u00e9\\n","i":5,"l@odata.type":"Edm.Int64","l":"4294967296","d":3.0,"e":1.5e300,' +
  '"n@odata.type":"Edm.Double","n":"NaN","b":true,"t@odata.type":"Edm.DateTime","t":"2012-11-10T03:04:05.2Z",' +
  '"g@odata.type":"Edm.Guid","g":"c9da6455-213d-42c9-9a79-3e9149a57833","x@odata.type":"Edm.Binary","x":"AQID"';

describe("Insert Entity", () => {
  it("answers 201 with the entity, its address and its ETag, at every metadata level", async () => {
    for (const name of ["nometadata", "minimalmetadata", "fullmetadata"]) {
      const keys = fresh();
      const answer = await insertText(`{${text(keys)},${EVERY_TYPE}}`, level(name));
      assert.equal(answer.status, 201);
      const etag = answer.header("etag")!;
      const timestamp = timestampOf(etag);
      const address = `${table}(PartitionKey='p',RowKey='${keys.RowKey}')`;
      assert.equal(answer.header("location"), `${target.url}/${address}`);
      assert.equal(answer.header("dataserviceid"), undefined);
      assert.equal(answer.header("preference-applied"), undefined);
      assert.deepEqual(answer.json(), JSON.parse(expected(name, keys, etag, timestamp, address)));
      assert.equal(
        answer.text.replaceAll("é", "\\u00e9"),
        expected(name, keys, etag, timestamp, address),
      );
    }
  });

  function expected(
    name: string,
    keys: { PartitionKey: string; RowKey: string },
    etag: string,
    timestamp: string,
    address: string,
  ): string {
    const types = EVERY_TYPE.replace('"e":1.5e300', '"e":1.5E+300');
    const bare = types.replace(/"\w+@odata.type":"[^"]+",/g, "");
    const head = `"odata.metadata":"${target.url}/$metadata#${table}/@Element"`;
    const tag = `"odata.etag":${JSON.stringify(etag)}`;
    if (name === "nometadata") return `{${text(keys)},"Timestamp":"${timestamp}",${bare}}`;
    if (name === "minimalmetadata") {
      return `{${head},${tag},${text(keys)},"Timestamp":"${timestamp}",${types}}`;
    }
    return (
      `{${head},"odata.type":"${target.account}.${table}","odata.id":"${target.url}/${address}",${tag},` +
      `"odata.editLink":"${address}",${text(keys)},"Timestamp@odata.type":"Edm.DateTime","Timestamp":"${timestamp}",${types}}`
    );
  }

  it("answers 204 with addresses, if that is preferred", async () => {
    const keys = fresh();
    const answer = await insert(keys, NO_CONTENT);
    assert.equal(answer.status, 204);
    const url = `${target.url}${at(keys)}`;
    assert.equal(answer.header("location"), url);
    assert.equal(answer.header("dataserviceid"), url);
    assert.equal(answer.header("preference-applied"), "return-no-content");
    assert.match(
      answer.header("etag")!,
      /^W\/"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d(\.\d{0,6}[1-9])?Z'"$/,
    );
    assert.equal(answer.header("content-type"), undefined);
  });

  it("escapes keys in addresses as the service does", async () => {
    const keys = { PartitionKey: "partition1-ô- -'-\"-%20-%27-pk", RowKey: "𝒳" };
    const answer = await insert(keys, NO_CONTENT);
    assert.equal(
      answer.header("location"),
      `${target.url}/${table}(PartitionKey='partition1-%C3%B4-%20-''-%22-%2520-%2527-pk',RowKey='%F0%9D%92%B3')`,
    );
    const path = answer.header("location")!.slice(target.url.length);
    const read = await wire.send("GET", path, { headers: NOMETADATA });
    assert.equal(read.status, 200);
    assert.equal((read.json() as { PartitionKey: string }).PartitionKey, keys.PartitionKey);
  });

  it("ignores Timestamp, control information and what is null", async () => {
    const keys = fresh();
    const answer = await insertText(
      `\ufeff{"odata.etag":"x","odata.type":"a.b","odata.id":"c","odata.editLink":"d","odata.metadata":"e",${text(keys)},` +
        '"Timestamp":"1999-01-01T00:00:00Z","Timestamp@odata.type":"Edm.DateTime","n":null,"m@odata.type":"Edm.Int64","m":null,' +
        '"lonely@odata.type":"Edm.Guid","timestamp":"kept","etag":"kept"}',
      NOMETADATA,
    );
    assert.equal(answer.status, 201);
    const { Timestamp, ...rest } = answer.json() as Record<string, unknown>;
    assert.deepEqual(rest, { ...keys, timestamp: "kept", etag: "kept" });
    assert.notEqual(Timestamp, "1999-01-01T00:00:00Z");
  });

  it("reads names that are escaped, as some clients write all that is not ASCII", async () => {
    const keys = fresh();
    const answer = await insertText(
      `{"caf\\u00e9":"a","\\u0050artitionKey":"p","RowKey":"${keys.RowKey}","b\\u00fc\\u0040odata.type":"Edm.Int64","b\\u00fc":"7","n":1}`,
    );
    assert.equal(answer.status, 201, String(answer));
    assert.deepEqual(await custom(keys), { café: "a", bü: "7", n: 1 });
  });

  it("ignores a condition", async () => {
    assert.equal((await insert(fresh(), ANY)).status, 201);
  });

  it("accepts /table and /table()", async () => {
    const answer = await wire.send("POST", `/${table}()`, { body: fresh() });
    assert.equal(answer.status, 201);
  });

  const input = (message = BAD_BODY): Refusal => ({ status: 400, code: "InvalidInput", message });
  const needValue: Refusal = {
    status: 400,
    code: "PropertiesNeedValue",
    message: "The values are not specified for all properties in the entity.",
  };
  const outOfRange = (name: string, value: string): Refusal => ({
    status: 400,
    code: "OutOfRangeInput",
    message: `The '${name}' parameter of value '${value}' is out of range.`,
  });
  const tooLarge: Refusal = {
    status: 400,
    code: "PropertyValueTooLarge",
    message:
      "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.",
  };
  const entityTooLarge: Refusal = {
    status: 400,
    code: "EntityTooLarge",
    message: "The entity is larger than the maximum allowed size (1MB).",
  };
  const KEYS = '"PartitionKey":"p","RowKey":"refused"';
  const refusals: Record<string, readonly [body: string, refusal: Refusal]> = {
    "no PartitionKey": ['{"RowKey":"r"}', needValue],
    "no RowKey": ['{"PartitionKey":"p"}', needValue],
    "a key that is null": ['{"PartitionKey":"p","RowKey":null}', needValue],
    "a key that is a number": ['{"PartitionKey":1,"RowKey":"r"}', input()],
    "a key that is no string by its annotation": [
      '{"PartitionKey@odata.type":"Edm.Int32","PartitionKey":"1","RowKey":"r"}',
      input(),
    ],
    "a slash in the PartitionKey": [
      '{"PartitionKey":"a/b","RowKey":"r"}',
      outOfRange("PartitionKey", "a/b"),
    ],
    "a backslash in the RowKey": [
      '{"PartitionKey":"p","RowKey":"a\\\\b"}',
      outOfRange("RowKey", "a\\b"),
    ],
    "a number sign in a key": [
      '{"PartitionKey":"#","RowKey":"r"}',
      outOfRange("PartitionKey", "#"),
    ],
    "a question mark in a key": [
      '{"PartitionKey":"?","RowKey":"r"}',
      outOfRange("PartitionKey", "?"),
    ],
    "a tab in a key": [
      '{"PartitionKey":"p","RowKey":"\\t"}',
      { status: 400, code: "OutOfRangeInput" },
    ],
    "a control character behind DEL in a key": [
      '{"PartitionKey":"p","RowKey":"\\u0085"}',
      { status: 400, code: "OutOfRangeInput" },
    ],
    "half a surrogate pair in a key": [
      '{"PartitionKey":"p","RowKey":"\\ud800"}',
      { status: 400, code: "OutOfRangeInput" },
    ],
    "a key of 1,025 units": [`{"PartitionKey":"${"k".repeat(1025)}","RowKey":"r"}`, tooLarge],
    "a key of 40,000 units": [`{"PartitionKey":"p","RowKey":"${"k".repeat(40_000)}"}`, tooLarge],
    "a name with a hyphen": [
      `{${KEYS},"a-b":1}`,
      { status: 400, code: "PropertyNameInvalid", message: "The property name is invalid." },
    ],
    "a name that begins with a digit": [
      `{${KEYS},"1a":1}`,
      { status: 400, code: "PropertyNameInvalid" },
    ],
    "an empty name": [`{${KEYS},"":1}`, { status: 400, code: "PropertyNameInvalid" }],
    "a binary of 65,537 bytes": [
      `{${KEYS},"x@odata.type":"Edm.Binary","x":"${Buffer.alloc(65_537).toString("base64")}"}`,
      tooLarge,
    ],
    "one binary of 1 MiB": [
      `{${KEYS},"x@odata.type":"Edm.Binary","x":"${Buffer.alloc(1024 * 1024).toString("base64")}"}`,
      entityTooLarge,
    ],
    "a date before 1601": [
      `{${KEYS},"t@odata.type":"Edm.DateTime","t":"0001-01-01T00:00:00Z"}`,
      outOfRange("t", "01/01/0001 00:00:00"),
    ],
    "a date that is none": [`{${KEYS},"t@odata.type":"Edm.DateTime","t":"soon"}`, input()],
    "an empty date": [`{${KEYS},"t@odata.type":"Edm.DateTime","t":""}`, input()],
    "a guid that is none": [`{${KEYS},"g@odata.type":"Edm.Guid","g":"{c9da6455}"}`, input()],
    "a binary that is no base64": [`{${KEYS},"x@odata.type":"Edm.Binary","x":"A"}`, input()],
    "an Int64 beyond its range": [
      `{${KEYS},"l@odata.type":"Edm.Int64","l":"9223372036854775808"}`,
      input(),
    ],
    "an Int32 beyond its range": [`{${KEYS},"i@odata.type":"Edm.Int32","i":2147483648}`, input()],
    "an integer beyond Int32 without annotation": [`{${KEYS},"i":2147483648}`, input()],
    "a Double beyond its range": [`{${KEYS},"d":1e999}`, input()],
    "a type that is none": [`{${KEYS},"a@odata.type":"Edm.Decimal","a":"1"}`, input()],
    "an object as value": [`{${KEYS},"a":{}}`, input()],
    "an array as value": [`{${KEYS},"a":[1]}`, input()],
    "a name given twice": [
      `{${KEYS},"a":1,"a":2}`,
      {
        status: 400,
        code: "DuplicatePropertiesSpecified",
        message: "A property is specified more than one time.",
      },
    ],
    "a key given twice": [
      `{${KEYS},"RowKey":"x"}`,
      { status: 400, code: "DuplicatePropertiesSpecified" },
    ],
    "no object": ["[1]", input()],
    "no JSON": ["PartitionKey=p", input()],
    "JSON cut off": [`{${KEYS}`, input()],
    "something behind the object": [`{${KEYS}} true`, input()],
    "deep nesting": [`{${KEYS},"a":${"[".repeat(100_000)}`, input()],
    nothing: ["", input()],
  };
  for (const [what, [body, refusal]] of Object.entries(refusals)) {
    it(`is refused ${what}`, async () => {
      assertRefused(await insertText(body), refusal, "json");
    });
  }

  it("is refused a body that is no UTF-8", async () => {
    const body = Buffer.concat([Buffer.from(`{${KEYS},"a":"`), Buffer.of(0xff), Buffer.from('"}')]);
    assertRefused(await wire.send("POST", `/${table}`, { body }), input());
  });

  it("is refused keys that are taken", async () => {
    const keys = fresh();
    await insert(keys);
    assertRefused(await insert(keys, NO_CONTENT), {
      status: 409,
      code: "EntityAlreadyExists",
      message: "The specified entity already exists.",
    });
  });

  it("is refused another content type, and reads a body without one as JSON", async () => {
    for (const [type, code] of [
      ["text/plain", "MediaTypeNotSupported"],
      ["application/atom+xml", "AtomFormatNotSupported"],
    ] as const) {
      assertRefused(await insert(fresh(), { "Content-Type": type }), { status: 415, code });
    }
    assert.equal((await insert(fresh(), { "Content-Type": undefined })).status, 201);
    const type = "application/json; odata=fullmetadata; charset=utf-8";
    assert.equal((await insert(fresh(), { "Content-Type": type })).status, 201);
  });

  it("takes a chunked body", async () => {
    const keys = fresh();
    const body = JSON.stringify(keys);
    const answer = await wire.send("POST", `/${table}`, {
      body: `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
      headers: { "Content-Length": undefined, "Transfer-Encoding": "chunked" },
    });
    assert.equal(answer.status, 201);
  });
});

describe("Get Entity", () => {
  it("answers selected properties in the order asked for, null for those it lacks", async () => {
    const keys = fresh();
    await insertText(`{${text(keys)},"age":7,"sex":"f","big@odata.type":"Edm.Int64","big":"9"}`);
    const path = `${at(keys)}?$select=big,%20age,xyz,PartitionKey,age`;
    const answer = await wire.send("GET", path);
    const tag = JSON.stringify(answer.header("etag"));
    assert.equal(
      answer.text,
      `{"odata.metadata":"${target.url}/$metadata#${table}/@Element&$select=big,age,xyz,PartitionKey","odata.etag":${tag},` +
        '"big@odata.type":"Edm.Int64","big":"9","age":7,"xyz":null,"PartitionKey":"p"}',
    );
    const bare = await wire.send("GET", path, { headers: NOMETADATA });
    assert.equal(bare.text, '{"big":"9","age":7,"xyz":null,"PartitionKey":"p"}');
    const all = await wire.send("GET", `${at(keys)}?$select=*`, { headers: NOMETADATA });
    assert.equal((all.json() as { sex: string }).sex, "f");
  });

  it("reads keys from any spelling of the address", async () => {
    const keys = { PartitionKey: "O'Brien a+b", RowKey: "50% é" };
    await insert(keys);
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

  it("answers ResourceNotFound, or TableNotFound where the table is missing", async () => {
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
    const keys = fresh();
    await insert(keys);
    const answer = await wire.send("GET", `${at(keys)}?$filter=RowKey%20eq%20'x'`, {
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
    it(`and its neighbours refuse keys that cannot be (${method})`, async () => {
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

describe("Accept", () => {
  const levels: Record<string, string | undefined> = {
    "application/json": "minimalmetadata",
    "application/json; odata=nometadata": "nometadata",
    'application/json;odata="fullmetadata"': "fullmetadata",
    "Application/JSON;OData=FullMetadata": "fullmetadata",
    "application/json;odata=minimalmetadata, */*;q=0.1": "minimalmetadata",
    "application/atom+xml,application/json;odata=nometadata": "nometadata",
    "*/*": "minimalmetadata",
  };
  for (const [accept, expected] of Object.entries(levels)) {
    it(`"${accept}" is answered ${expected}`, async () => {
      const answer = await wire.send("GET", `/${table}`, { headers: { Accept: accept } });
      assert.equal(answer.status, 200);
      assert.match(answer.header("content-type")!, new RegExp(`;odata=${expected};`));
    });
  }

  it("gives way to $format", async () => {
    const format = "$format=application%2Fjson%3Bodata%3Dnometadata";
    const answer = await wire.send("GET", `/${table}?${format}`);
    assert.match(answer.header("content-type")!, /odata=nometadata/);
    const keys = fresh();
    const inserted = await wire.send(
      "POST",
      `/${table}?%24format=application%2Fjson%3Bodata%3Dfullmetadata`,
      { body: keys },
    );
    assert.match(inserted.text, /"odata.editLink"/);
  });

  it("may be absent, and Atom is refused in XML", async () => {
    assert.equal(
      (await wire.send("GET", `/${table}`, { headers: { Accept: undefined } })).status,
      200,
    );
    assertRefused(
      await wire.send("GET", `/${table}`, { headers: { Accept: "application/atom+xml" } }),
      { status: 415, code: "AtomFormatNotSupported", message: "Atom format is not supported." },
      "xml",
    );
  });

  it("decides before anything is written", async () => {
    const keys = fresh();
    assertRefused(await insert(keys, { Accept: "text/html" }), {
      status: 415,
      code: "MediaTypeNotSupported",
      message: "None of the provided media types are supported",
    });
    assert.equal((await wire.send("GET", at(keys))).status, 404);
  });

  it("does not matter where no body is answered", async () => {
    const keys = fresh();
    for (const Accept of [undefined, "*/*", "application/atom+xml"]) {
      assert.equal(
        (await wire.send("PUT", at(keys), { body: {}, headers: { Accept } })).status,
        204,
      );
      assert.equal(
        (await wire.send("DELETE", at(keys), { headers: { Accept, ...ANY } })).status,
        204,
      );
    }
  });

  it("names JSON only from data service version 3.0 and protocol version 2013-08-15 on", async () => {
    const refusal = { status: 415, code: "JsonFormatNotSupported" };
    for (const headers of [
      { DataServiceVersion: "2.0" },
      { DataServiceVersion: "3.0", MaxDataServiceVersion: "1.0" },
      { "x-ms-version": "2012-02-12" },
      { "x-ms-version": undefined },
    ]) {
      assertRefused(await wire.send("GET", `/${table}`, { headers }), refusal);
    }
    for (const headers of [
      { DataServiceVersion: "1.0", MaxDataServiceVersion: "3.0;NetFx" },
      { DataServiceVersion: undefined },
      { DataServiceVersion: "3.0;" },
    ]) {
      assert.equal((await wire.send("GET", `/${table}`, { headers })).status, 200);
    }
  });
});

describe("Updates and merges", () => {
  it("answer 204 with the new ETag, and nothing else", async () => {
    const keys = fresh();
    for (const [method, headers] of [
      ["PUT", {}],
      ["PUT", ANY],
      ["MERGE", {}],
      ["MERGE", ANY],
      ["PATCH", { Prefer: "return-content" }],
    ] as const) {
      const answer = await wire.send(method, at(keys), { body: { ...keys, a: 1 }, headers });
      assert.equal(answer.status, 204);
      assert.equal(answer.header("preference-applied"), undefined);
      assert.equal(answer.header("location"), undefined);
      const read = await wire.send("GET", at(keys));
      assert.equal(read.header("etag"), answer.header("etag"));
    }
  });

  it("follow no preference when they are refused, sent by POST too", async () => {
    const path = at(fresh());
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

  it("replace drops what is not mentioned, merge keeps it", async () => {
    const keys = fresh();
    await insert({ ...keys, a: 1, b: 2 });
    await wire.send("MERGE", at(keys), { body: { b: "two", c: 3, a: null } });
    assert.deepEqual(await custom(keys), { a: 1, b: "two", c: 3 });
    await wire.send("PUT", at(keys), { body: { b: null, d: 4 } });
    assert.deepEqual(await custom(keys), { d: 4 });
  });

  it("put a strictly larger Timestamp on every write, whatever it changes", async () => {
    const keys = fresh();
    await insert({ ...keys, a: 1 });
    let before = timestampOf((await wire.send("GET", at(keys))).header("etag")!);
    for (let i = 0; i < 20; i++) {
      const answer = await wire.send("MERGE", at(keys), { body: {} });
      const now = timestampOf(answer.header("etag")!);
      assert.ok(sortable(now) > sortable(before), `${now} after ${before}`);
      before = now;
    }
  });

  it("may be tunnelled through POST", async () => {
    const keys = fresh();
    const tunnel = (method: string, body?: object, headers = {}) =>
      wire.send("POST", at(keys), { body, headers: { "X-HTTP-Method": method, ...headers } });
    assert.equal((await tunnel("PUT", { a: 1 })).status, 204);
    assert.equal((await tunnel("MERGE", { b: 2 })).status, 204);
    assert.equal((await tunnel("patch", { c: 3 })).status, 204);
    assert.deepEqual(await custom(keys), { a: 1, b: 2, c: 3 });
    assert.equal((await tunnel("DELETE", undefined, ANY)).status, 204);
    assertRefused(await tunnel("GET"), {
      status: 400,
      code: "XMethodIncorrectValue",
      message: "The specified X-HTTP-Method is invalid.",
    });
    for (const method of ["GET", "PUT", "DELETE"]) {
      assertRefused(await wire.send(method, at(keys), { headers: { "X-HTTP-Method": "MERGE" } }), {
        status: 400,
        code: "XMethodNotUsingPost",
      });
    }
  });

  it("go by the keys of the address; others in the body are refused", async () => {
    const keys = fresh();
    assert.equal((await wire.send("PUT", at(keys), { body: { a: 1 } })).status, 204);
    for (const other of [{ PartitionKey: "q" }, { RowKey: "q" }]) {
      assertRefused(await wire.send("PUT", at(keys), { body: other }), {
        status: 400,
        code: "InvalidInput",
      });
      assertRefused(await wire.send("MERGE", at(keys), { body: other }), {
        status: 400,
        code: "InvalidInput",
      });
    }
  });

  it("are bound by the limits of the merged whole", async () => {
    const keys = fresh();
    const names = (from: number, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${from + i}`, i]));
    await insert({ ...keys, ...names(0, 200) });
    assertRefused(await wire.send("MERGE", at(keys), { body: names(200, 53) }), {
      status: 400,
      code: "TooManyProperties",
    });
    assert.equal((await wire.send("MERGE", at(keys), { body: names(200, 52) })).status, 204);
    const texts = (prefix: string) =>
      Object.fromEntries(
        Array.from({ length: 9 }, (_, i) => [`${prefix}${i}`, "x".repeat(32_000)]),
      );
    const big = fresh();
    await insert({ ...big, ...texts("a") });
    assertRefused(await wire.send("MERGE", at(big), { body: texts("b") }), {
      status: 400,
      code: "EntityTooLarge",
    });
    assert.deepEqual(Object.keys(await custom(big)).length, 9);
  });

  it("of a missing table answer TableNotFound, also when the entity should be there", async () => {
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
  it("are found whatever the case of their name", async () => {
    const keys = fresh();
    const other = `/${table.toUpperCase()}`;
    assert.equal((await wire.send("POST", other, { body: keys })).status, 201);
    assert.equal((await wire.send("GET", at(keys))).status, 200);
  });

  it("keep properties apart by the case of their names, and take letters of any script", async () => {
    const keys = fresh();
    const body = { ...keys, Birthday: 1, birthday: 2, 啊齄丂狛狜: "x", _a1: true, ÄÖ: 1.5 };
    await insert(body);
    assert.deepEqual(await custom(keys), {
      Birthday: 1,
      birthday: 2,
      啊齄丂狛狜: "x",
      _a1: true,
      ÄÖ: 1.5,
    });
  });
});

function text(keys: object): string {
  return JSON.stringify(keys).slice(1, -1);
}

function insert(
  body: object,
  headers: Record<string, string | undefined> = {},
): Promise<HttpAnswer> {
  return wire.send("POST", `/${table}`, { body, headers });
}

function insertText(body: string, headers: Record<string, string> = {}): Promise<HttpAnswer> {
  return wire.send("POST", `/${table}`, {
    body,
    headers: { "Content-Type": "application/json", ...headers },
  });
}

/** The custom properties of an entity. */
async function custom(keys: {
  PartitionKey: string;
  RowKey: string;
}): Promise<Record<string, unknown>> {
  const answer = await wire.send("GET", at(keys), { headers: NOMETADATA });
  const {
    PartitionKey: _,
    RowKey: __,
    Timestamp: ___,
    ...rest
  } = answer.json() as Record<string, unknown>;
  return rest;
}

function timestampOf(etag: string): string {
  return decodeURIComponent(/datetime'([^']+)'/.exec(etag)![1]!);
}

/** Without the fraction's missing zeros, texts of times sort as times do. */
function sortable(timestamp: string): string {
  const [seconds = "", fraction = ""] = timestamp.slice(0, -1).split(".");
  return seconds + fraction.padEnd(7, "0");
}
