import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { assertRefused, type Refusal } from "./refusals.ts";
import { WireTarget } from "./table-target.ts";

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;

const ACCEPT = (level: string) => ({ Accept: `application/json;odata=${level}` });
const NO_CONTENT = { Prefer: "return-no-content" };

describe("Create Table", () => {
  it("answers 201 with the table, at every metadata level", async () => {
    for (const [level, body] of [
      ["nometadata", (name: string) => ({ TableName: name })],
      [
        "minimalmetadata",
        (name: string) => ({
          "odata.metadata": `${target.url}/$metadata#Tables/@Element`,
          TableName: name,
        }),
      ],
      [
        "fullmetadata",
        (name: string) => ({
          "odata.metadata": `${target.url}/$metadata#Tables/@Element`,
          "odata.type": `${target.account}.Tables`,
          "odata.id": `${target.url}/Tables('${name}')`,
          "odata.editLink": `Tables('${name}')`,
          TableName: name,
        }),
      ],
    ] as const) {
      const name = target.name();
      const answer = await create(name, ACCEPT(level));
      assert.equal(answer.status, 201);
      assert.equal(answer.text, JSON.stringify(body(name)));
      assert.equal(
        answer.header("content-type"),
        `application/json;odata=${level};streaming=true;charset=utf-8`,
      );
      assert.equal(answer.header("location"), `${target.url}/Tables('${name}')`);
      assert.equal(answer.header("preference-applied"), undefined);
      assert.equal(answer.header("cache-control"), "no-cache");
      assert.equal(answer.header("x-content-type-options"), "nosniff");
      assert.equal(answer.header("etag"), undefined);
    }
  });

  it("answers 204 with addresses if Prefer asks for no content", async () => {
    const name = target.name();
    const answer = await create(name, NO_CONTENT);
    assert.equal(answer.status, 204);
    assert.equal(answer.header("preference-applied"), "return-no-content");
    assert.equal(answer.header("location"), `${target.url}/Tables('${name}')`);
    assert.equal(answer.header("dataserviceid"), `${target.url}/Tables('${name}')`);
    assert.equal(answer.header("content-type"), undefined);
  });

  it("returns the preference that it followed, even on refusals", async () => {
    const name = target.name();
    const content = await create(name, { Prefer: "return-content" });
    assert.equal(content.status, 201);
    assert.equal(content.header("preference-applied"), "return-content");
    const refused = await create(name, NO_CONTENT);
    assert.equal(refused.status, 409);
    assert.equal(refused.header("preference-applied"), "return-no-content");
  });

  it("refuses a name that exists in any case", async () => {
    const name = await target.table();
    assertRefused(await create(name.toLowerCase()), {
      status: 409,
      code: "TableAlreadyExists",
      message: "The table specified already exists.",
    });
  });

  const characters: Refusal = {
    status: 400,
    code: "InvalidResourceName",
    message: "The specifed resource name contains invalid characters.",
  };
  const length: Refusal = {
    status: 400,
    code: "OutOfRangeInput",
    message: "The specified resource name length is not within the permissible limits.",
  };
  const input: Refusal = {
    status: 400,
    code: "InvalidInput",
    message: "One of the request inputs is not valid.",
  };
  const refusals: readonly (readonly [string, Refusal])[] = [
    ["1abc", characters],
    ["abc-def", characters],
    ["äbc", characters],
    ["abc_def", characters],
    ["ab", length],
    ["1", length],
    ["a".repeat(64), length],
    ["tables", input],
    ["Tables", input],
    ["", input],
  ];
  for (const [name, refusal] of refusals) {
    it(`refuses the name "${name}"`, async () => {
      assertRefused(await create(name), refusal, "json");
    });
  }

  it("accepts names of 3 and of 63 characters", async () => {
    for (const name of [`A${Date.now() % 90}9`.slice(0, 3), `T${"x".repeat(62)}`]) {
      const answer = await create(name);
      assert.equal(answer.status, 201, name);
      assert.equal((await wire.send("DELETE", `/Tables('${name}')`)).status, 204);
    }
  });

  it("refuses a body without a name", async () => {
    for (const body of ["{}", '{"TableName":null}', '{"TableName":7}', "[]", "", "{"]) {
      assertRefused(
        await wire.send("POST", "/Tables", {
          body,
          headers: { "Content-Type": "application/json" },
        }),
        {
          status: 400,
          code: "InvalidInput",
        },
      );
    }
  });

  it("refuses If-Match", async () => {
    assertRefused(await create(target.name(), { "If-Match": "*" }), {
      status: 400,
      code: "InvalidInput",
      message:
        "If-Match or If-None-Match headers cannot be specified if the target type does not have etag properties defined.",
    });
  });
});

describe("Query Tables", () => {
  it("lists names in the order of their lower case, at every metadata level", async () => {
    const names = [target.name(), target.name(), target.name()].map((name, i) => `Z${i}${name}`);
    for (const name of [names[2]!, names[0]!.toUpperCase(), names[1]!]) await create(name);
    const filter = encodeURIComponent("TableName ge 'Z0' and TableName lt 'Z{'");
    const bare = await wire.send("GET", `/Tables?$filter=${filter}`, {
      headers: ACCEPT("nometadata"),
    });
    assert.equal(bare.status, 200);
    const found = bare.items().map(({ TableName }) => String(TableName));
    assert.deepEqual(found, [names[0]!.toUpperCase(), names[1], names[2]]);

    const minimal = await wire.send("GET", "/Tables()");
    assert.match(
      minimal.text,
      /^\{"odata.metadata":"http[^"]+\/\$metadata#Tables","value":\[\{"TableName":/,
    );
    const full = await wire.send("GET", `/Tables?$filter=TableName%20eq%20'${names[1]}'`, {
      headers: ACCEPT("fullmetadata"),
    });
    assert.deepEqual(full.items(), [
      {
        "odata.type": `${target.account}.Tables`,
        "odata.id": `${target.url}/Tables('${names[1]}')`,
        "odata.editLink": `Tables('${names[1]}')`,
        TableName: names[1],
      },
    ]);
    for (const { TableName } of bare.items()) await wire.send("DELETE", `/Tables('${TableName}')`);
  });

  it("pages by $top, even if the next table was deleted in between", async () => {
    const prefix = target.name();
    const names = ["a", "b", "c", "d", "e"].map((letter) => prefix + letter);
    for (const name of names) await create(name);
    const filter = encodeURIComponent(`TableName gt '${prefix}' and TableName lt '${prefix}z'`);
    const path = `/Tables?$filter=${filter}&$top=2`;
    const first = await wire.send("GET", path);
    assert.deepEqual(
      first.items().map(({ TableName }) => TableName),
      names.slice(0, 2),
    );
    const token = first.header("x-ms-continuation-nexttablename")!;
    assert.match(token, /^1!\d+![A-Za-z0-9*_-]+$/);
    await wire.send("DELETE", `/Tables('${names[2]}')`);
    const second = await wire.send("GET", `${path}&NextTableName=${token}`);
    assert.deepEqual(
      second.items().map(({ TableName }) => TableName),
      names.slice(3),
    );
    assert.equal(second.header("x-ms-continuation-nexttablename"), undefined);
    for (const name of names) await wire.send("DELETE", `/Tables('${name}')`);
  });

  it("accepts $top from 0 to 1000", async () => {
    await target.table();
    const none = await wire.send("GET", "/Tables?$top=0");
    assert.deepEqual(none.items(), []);
    assert.equal(none.header("x-ms-continuation-nexttablename"), undefined);
    assert.equal((await wire.send("GET", "/Tables?$top=1000")).status, 200);
    for (const top of ["1001", "-1", "x", "1.5"]) {
      assertRefused(await wire.send("GET", `/Tables?$top=${top}`), {
        status: 400,
        code: "InvalidInput",
      });
    }
  });

  it("accepts a continuation token of the cloud, with its creation stamp", async () => {
    const answer = await wire.send(
      "GET",
      "/Tables?NextTableName=1!40!dGFibGUzNTg2MTlkMgEwMWQzNTljZGFiMWI3OTg1",
    );
    assert.equal(answer.status, 200);
    assertRefused(await wire.send("GET", "/Tables?NextTableName=nonsense"), {
      status: 400,
      code: "InvalidInput",
    });
  });
});

describe("Get Table", () => {
  it("returns the table with its name as created, found in any case", async () => {
    const name = await target.table();
    const answer = await wire.send("GET", `/Tables('${name.toLowerCase()}')`);
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.json(), {
      "odata.metadata": `${target.url}/$metadata#Tables/@Element`,
      TableName: name,
    });
    const bare = await wire.send("GET", `/Tables('${name}')`, { headers: ACCEPT("nometadata") });
    assert.equal(bare.text, `{"TableName":"${name}"}`);
  });

  it("answers ResourceNotFound for a missing table", async () => {
    assertRefused(await wire.send("GET", "/Tables('Nobody')"), {
      status: 404,
      code: "ResourceNotFound",
      message: "The specified resource does not exist.",
    });
  });
});

describe("Delete Table", () => {
  it("removes the entities and the policies too, and frees the name", async () => {
    const name = await target.tableOf({ PartitionKey: "p", RowKey: "r" });
    const policy =
      "<SignedIdentifiers><SignedIdentifier><Id>a</Id></SignedIdentifier></SignedIdentifiers>";
    await wire.sendXml("PUT", `/${name}?comp=acl`, policy);
    const deleted = await wire.send("DELETE", `/Tables('${name}')`, {
      headers: { DataServiceVersion: undefined },
    });
    assert.equal(deleted.status, 204);
    assert.equal(deleted.header("cache-control"), "no-cache");
    assertRefused(await wire.send("GET", `/${name}`), { status: 404, code: "TableNotFound" });
    assert.equal((await create(name)).status, 201);
    assert.deepEqual((await wire.send("GET", `/${name}`)).items(), []);
    assert.match((await wire.sendXml("GET", `/${name}?comp=acl`)).text, /<SignedIdentifiers \/>$/);
  });

  it("answers ResourceNotFound for a missing table", async () => {
    assertRefused(await wire.send("DELETE", "/Tables('Nobody')"), {
      status: 404,
      code: "ResourceNotFound",
    });
  });

  it("refuses If-Match, and then deletes nothing", async () => {
    const name = await target.table();
    assertRefused(
      await wire.send("DELETE", `/Tables('${name}')`, { headers: { "If-Match": "*" } }),
      {
        status: 400,
        code: "InvalidInput",
      },
    );
    assert.equal((await wire.send("GET", `/Tables('${name}')`)).status, 200);
  });
});

function create(name: string, headers: Record<string, string> = {}) {
  return wire.send("POST", "/Tables", { body: { TableName: name }, headers });
}

describe("$metadata", () => {
  it("declares the three properties that every entity has, in the account's namespace", async () => {
    const answer = await wire.send("GET", "/$metadata");
    assert.equal(answer.status, 200);
    assert.equal(answer.header("content-type"), "application/xml");
    assert.match(
      answer.text,
      /^<\?xml version="1.0" encoding="utf-8"\?><edmx:Edmx .*<\/edmx:Edmx>$/,
    );
    assert.doesNotMatch(answer.text, />[^<]+</, "nothing stands between its elements");
    assert.match(answer.text, new RegExp(`<Schema Namespace="${target.account}" `));
    assert.deepEqual(
      [...answer.text.matchAll(/<Property Name="(\w+)" Type="([\w.]+)"/g)].map(
        ([, ...both]) => both,
      ),
      [
        ["PartitionKey", "Edm.String"],
        ["RowKey", "Edm.String"],
        ["Timestamp", "Edm.DateTime"],
      ],
    );
  });
});
