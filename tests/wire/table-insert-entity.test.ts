import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { assertRefused, type Refusal } from "./refusals.ts";
import {
  ANY,
  EntityRequests,
  metadata,
  NO_CONTENT,
  NOMETADATA,
  timestampOf,
} from "./table-entity-requests.ts";
import { WireTarget } from "./table-target.ts";

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;
const table = await target.table();
const requests = new EntityRequests(wire, table);

const BAD_BODY = "An error occurred while processing this request.";

const EVERY_TYPE =
  '"s":"a\\u00e9\\n","i":5,"l@odata.type":"Edm.Int64","l":"4294967296","d":3.0,"e":1.5e300,' +
  '"n@odata.type":"Edm.Double","n":"NaN","b":true,"t@odata.type":"Edm.DateTime","t":"2012-11-10T03:04:05.2Z",' +
  '"g@odata.type":"Edm.Guid","g":"c9da6455-213d-42c9-9a79-3e9149a57833","x@odata.type":"Edm.Binary","x":"AQID"';

describe("Insert Entity", () => {
  it("answers 201 with the entity, its address and its ETag, at every metadata level", async () => {
    for (const name of ["nometadata", "minimalmetadata", "fullmetadata"]) {
      const keys = requests.fresh();
      const answer = await requests.insertText(`{${textOf(keys)},${EVERY_TYPE}}`, metadata(name));
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
    if (name === "nometadata") return `{${textOf(keys)},"Timestamp":"${timestamp}",${bare}}`;
    if (name === "minimalmetadata") {
      return `{${head},${tag},${textOf(keys)},"Timestamp":"${timestamp}",${types}}`;
    }
    return (
      `{${head},"odata.type":"${target.account}.${table}","odata.id":"${target.url}/${address}",${tag},` +
      `"odata.editLink":"${address}",${textOf(keys)},"Timestamp@odata.type":"Edm.DateTime","Timestamp":"${timestamp}",${types}}`
    );
  }

  it("answers 204 with addresses if Prefer asks for no content", async () => {
    const keys = requests.fresh();
    const answer = await requests.insert(keys, NO_CONTENT);
    assert.equal(answer.status, 204);
    const url = `${target.url}${requests.at(keys)}`;
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
    const answer = await requests.insert(keys, NO_CONTENT);
    assert.equal(
      answer.header("location"),
      `${target.url}/${table}(PartitionKey='partition1-%C3%B4-%20-''-%22-%2520-%2527-pk',RowKey='%F0%9D%92%B3')`,
    );
    const path = answer.header("location")!.slice(target.url.length);
    const read = await wire.send("GET", path, { headers: NOMETADATA });
    assert.equal(read.status, 200);
    assert.equal((read.json() as { PartitionKey: string }).PartitionKey, keys.PartitionKey);
  });

  it("ignores Timestamp, control information and null properties", async () => {
    const keys = requests.fresh();
    const answer = await requests.insertText(
      `\ufeff{"odata.etag":"x","odata.type":"a.b","odata.id":"c","odata.editLink":"d","odata.metadata":"e",${textOf(keys)},` +
        '"Timestamp":"1999-01-01T00:00:00Z","Timestamp@odata.type":"Edm.DateTime","n":null,"m@odata.type":"Edm.Int64","m":null,' +
        '"lonely@odata.type":"Edm.Guid","timestamp":"kept","etag":"kept"}',
      NOMETADATA,
    );
    assert.equal(answer.status, 201);
    const { Timestamp, ...rest } = answer.json() as Record<string, unknown>;
    assert.deepEqual(rest, { ...keys, timestamp: "kept", etag: "kept" });
    assert.notEqual(Timestamp, "1999-01-01T00:00:00Z");
  });

  it("decodes escaped property names, as some clients write all that is not ASCII", async () => {
    const keys = requests.fresh();
    const answer = await requests.insertText(
      `{"caf\\u00e9":"a","\\u0050artitionKey":"p","RowKey":"${keys.RowKey}","b\\u00fc\\u0040odata.type":"Edm.Int64","b\\u00fc":"7","n":1}`,
    );
    assert.equal(answer.status, 201, String(answer));
    assert.deepEqual(await requests.custom(keys), { café: "a", bü: "7", n: 1 });
  });

  it("ignores If-Match", async () => {
    assert.equal((await requests.insert(requests.fresh(), ANY)).status, 201);
  });

  it("accepts /table and /table()", async () => {
    const answer = await wire.send("POST", `/${table}()`, { body: requests.fresh() });
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
    "a key annotated as another type than string": [
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
    "a C1 control character in a key": [
      '{"PartitionKey":"p","RowKey":"\\u0085"}',
      { status: 400, code: "OutOfRangeInput" },
    ],
    "an unpaired surrogate in a key": [
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
    "an invalid date": [`{${KEYS},"t@odata.type":"Edm.DateTime","t":"soon"}`, input()],
    "an empty date": [`{${KEYS},"t@odata.type":"Edm.DateTime","t":""}`, input()],
    "an invalid guid": [`{${KEYS},"g@odata.type":"Edm.Guid","g":"{c9da6455}"}`, input()],
    "a binary that is not base64": [`{${KEYS},"x@odata.type":"Edm.Binary","x":"A"}`, input()],
    "an Int64 beyond its range": [
      `{${KEYS},"l@odata.type":"Edm.Int64","l":"9223372036854775808"}`,
      input(),
    ],
    "an Int32 beyond its range": [`{${KEYS},"i@odata.type":"Edm.Int32","i":2147483648}`, input()],
    "an integer beyond Int32 without annotation": [`{${KEYS},"i":2147483648}`, input()],
    "a Double beyond its range": [`{${KEYS},"d":1e999}`, input()],
    "an unknown type": [`{${KEYS},"a@odata.type":"Edm.Decimal","a":"1"}`, input()],
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
    "an array instead of an object": ["[1]", input()],
    "text that is not JSON": ["PartitionKey=p", input()],
    "JSON cut off": [`{${KEYS}`, input()],
    "text after the object": [`{${KEYS}} true`, input()],
    "deep nesting": [`{${KEYS},"a":${"[".repeat(100_000)}`, input()],
    nothing: ["", input()],
  };
  for (const [what, [body, refusal]] of Object.entries(refusals)) {
    it(`refuses a body with ${what}`, async () => {
      assertRefused(await requests.insertText(body), refusal, "json");
    });
  }

  it("refuses a body that is not UTF-8", async () => {
    const body = Buffer.concat([Buffer.from(`{${KEYS},"a":"`), Buffer.of(0xff), Buffer.from('"}')]);
    assertRefused(await wire.send("POST", `/${table}`, { body }), input());
  });

  it("refuses keys that exist", async () => {
    const keys = requests.fresh();
    await requests.insert(keys);
    assertRefused(await requests.insert(keys, NO_CONTENT), {
      status: 409,
      code: "EntityAlreadyExists",
      message: "The specified entity already exists.",
    });
  });

  it("refuses other content types, and reads a body without one as JSON", async () => {
    for (const [type, code] of [
      ["text/plain", "MediaTypeNotSupported"],
      ["application/atom+xml", "AtomFormatNotSupported"],
    ] as const) {
      assertRefused(await requests.insert(requests.fresh(), { "Content-Type": type }), {
        status: 415,
        code,
      });
    }
    assert.equal(
      (await requests.insert(requests.fresh(), { "Content-Type": undefined })).status,
      201,
    );
    const type = "application/json; odata=fullmetadata; charset=utf-8";
    assert.equal((await requests.insert(requests.fresh(), { "Content-Type": type })).status, 201);
  });

  it("accepts a chunked body", async () => {
    const keys = requests.fresh();
    const body = JSON.stringify(keys);
    const answer = await wire.send("POST", `/${table}`, {
      body: `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
      headers: { "Content-Length": undefined, "Transfer-Encoding": "chunked" },
    });
    assert.equal(answer.status, 201);
  });
});

/** The members of an object, as JSON. */
function textOf(keys: object): string {
  return JSON.stringify(keys).slice(1, -1);
}
