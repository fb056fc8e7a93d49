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

  it("answers 204 with addresses instead, if that is preferred", async () => {
    const name = target.name();
    const answer = await create(name, NO_CONTENT);
    assert.equal(answer.status, 204);
    assert.equal(answer.header("preference-applied"), "return-no-content");
    assert.equal(answer.header("location"), `${target.url}/Tables('${name}')`);
    assert.equal(answer.header("dataserviceid"), `${target.url}/Tables('${name}')`);
    assert.equal(answer.header("content-type"), undefined);
  });

  it("says which preference it followed, on refusals too", async () => {
    const name = target.name();
    const content = await create(name, { Prefer: "return-content" });
    assert.equal(content.status, 201);
    assert.equal(content.header("preference-applied"), "return-content");
    const refused = await create(name, NO_CONTENT);
    assert.equal(refused.status, 409);
    assert.equal(refused.header("preference-applied"), "return-no-content");
  });

  it("is refused a name that is taken in any case", async () => {
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
    it(`is refused the name "${name}"`, async () => {
      assertRefused(await create(name), refusal, "json");
    });
  }

  it("takes names of 3 and of 63 characters", async () => {
    for (const name of [`A${Date.now() % 90}9`.slice(0, 3), `T${"x".repeat(62)}`]) {
      const answer = await create(name);
      assert.equal(answer.status, 201, name);
      assert.equal((await wire.send("DELETE", `/Tables('${name}')`)).status, 204);
    }
  });

  it("is refused a body without a name", async () => {
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

  it("is refused a condition", async () => {
    assertRefused(await create(target.name(), { "If-Match": "*" }), {
      status: 400,
      code: "InvalidInput",
      message:
        "If-Match or If-None-Match headers cannot be specified if the target type does not have etag properties defined.",
    });
  });
});

describe("Query Tables", () => {
  it("lists names in the order of their lower case, whatever the level", async () => {
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

  it("pages by $top, also when the next table is gone when it is asked for", async () => {
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

  it("takes $top from 0 to 1000", async () => {
    assert.deepEqual((await wire.send("GET", "/Tables?$top=0")).items(), []);
    assert.equal((await wire.send("GET", "/Tables?$top=1000")).status, 200);
    for (const top of ["1001", "-1", "x", "1.5"]) {
      assertRefused(await wire.send("GET", `/Tables?$top=${top}`), {
        status: 400,
        code: "InvalidInput",
      });
    }
  });

  it("reads the continuation of the cloud, creation stamp included", async () => {
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

describe("Get one table", () => {
  it("answers the table as it was created, found in any case", async () => {
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

  it("answers ResourceNotFound for one that is not there", async () => {
    assertRefused(await wire.send("GET", "/Tables('Nobody')"), {
      status: 404,
      code: "ResourceNotFound",
      message: "The specified resource does not exist.",
    });
  });
});

describe("Delete Table", () => {
  it("takes the entities and the policies along, and frees the name", async () => {
    const name = await target.tableOf({ PartitionKey: "p", RowKey: "r" });
    const policy =
      "<SignedIdentifiers><SignedIdentifier><Id>a</Id></SignedIdentifier></SignedIdentifiers>";
    await acl("PUT", name, policy);
    const deleted = await wire.send("DELETE", `/Tables('${name}')`, {
      headers: { DataServiceVersion: undefined },
    });
    assert.equal(deleted.status, 204);
    assert.equal(deleted.header("cache-control"), "no-cache");
    assertRefused(await wire.send("GET", `/${name}`), { status: 404, code: "TableNotFound" });
    assert.equal((await create(name)).status, 201);
    assert.deepEqual((await wire.send("GET", `/${name}`)).items(), []);
    assert.match((await acl("GET", name)).text, /<SignedIdentifiers \/>$/);
  });

  it("answers ResourceNotFound for one that is not there", async () => {
    assertRefused(await wire.send("DELETE", "/Tables('Nobody')"), {
      status: 404,
      code: "ResourceNotFound",
    });
  });

  it("is refused a condition, and deletes nothing then", async () => {
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

describe("Table ACL", () => {
  const identifier = (id: string, inner = "") =>
    `<SignedIdentifier><Id>${id}</Id>${inner && `<AccessPolicy>${inner}</AccessPolicy>`}</SignedIdentifier>`;
  const list = (...identifiers: string[]) =>
    `<SignedIdentifiers>${identifiers.join("")}</SignedIdentifiers>`;
  const DECLARATION = '\ufeff<?xml version="1.0" encoding="utf-8"?>';

  it("keeps up to five policies, with seven fraction digits and without what is empty", async () => {
    const name = await target.table();
    const set = await acl(
      "PUT",
      name,
      DECLARATION +
        list(
          identifier(
            "days",
            "<Start>2011-10-11</Start><Expiry>2011-10-12</Expiry><Permission>r</Permission>",
          ),
          identifier("minutes", "<Expiry>2011-10-12T03:04Z</Expiry>"),
          identifier(
            "fractions",
            "<Start>2011-10-11T01:02:03.123456Z</Start><Permission>raud</Permission>",
          ),
          identifier("empty"),
          identifier("hollow", "<Start /><Expiry></Expiry>"),
        ),
    );
    assert.equal(set.status, 204);
    assert.equal(set.header("content-length"), "0");
    assert.equal(set.header("cache-control"), undefined);
    const got = await acl("GET", name);
    assert.equal(got.status, 200);
    assert.equal(got.header("content-type"), "application/xml");
    assert.equal(
      got.text,
      DECLARATION +
        list(
          identifier(
            "days",
            "<Start>2011-10-11T00:00:00.0000000Z</Start><Expiry>2011-10-12T00:00:00.0000000Z</Expiry><Permission>r</Permission>",
          ),
          identifier("minutes", "<Expiry>2011-10-12T03:04:00.0000000Z</Expiry>"),
          identifier(
            "fractions",
            "<Start>2011-10-11T01:02:03.1234560Z</Start><Permission>raud</Permission>",
          ),
          identifier("empty"),
          identifier("hollow"),
        ),
    );
  });

  it("is cleared by an empty list and by an empty body", async () => {
    const name = await target.table();
    for (const empty of ["<SignedIdentifiers />", ""]) {
      assert.equal((await acl("PUT", name, list(identifier("a")))).status, 204);
      assert.equal((await acl("PUT", name, empty)).status, 204);
      assert.equal((await acl("GET", name)).text, `${DECLARATION}<SignedIdentifiers />`);
    }
  });

  const documents: readonly (readonly [string, string, string])[] = [
    [
      "six identifiers",
      list(...["1", "2", "3", "4", "5", "6"].map((id) => identifier(id))),
      "InvalidXmlDocument",
    ],
    ["an id twice", list(identifier("a"), identifier("a")), "InvalidXmlDocument"],
    ["an id of 65 characters", list(identifier("a".repeat(65))), "InvalidXmlDocument"],
    ["no id", list("<SignedIdentifier></SignedIdentifier>"), "InvalidXmlDocument"],
    ["another element", "<Signed />", "InvalidXmlDocument"],
    ["a bad date", list(identifier("a", "<Start>soon</Start>")), "InvalidXmlDocument"],
    ["a bad letter", list(identifier("a", "<Permission>rx</Permission>")), "InvalidXmlNodeValue"],
    ["no XML", "SignedIdentifiers", "InvalidXmlDocument"],
    ["XML cut off", "<SignedIdentifiers><SignedIdent", "InvalidXmlDocument"],
    [
      "an external entity",
      '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><SignedIdentifiers>&x;</SignedIdentifiers>',
      "InvalidXmlDocument",
    ],
  ];
  for (const [what, body, code] of documents) {
    it(`is refused ${what}, and keeps what was there`, async () => {
      const name = await target.table();
      await acl("PUT", name, list(identifier("kept")));
      assertRefused(await acl("PUT", name, body), { status: 400, code }, "xml");
      assert.match((await acl("GET", name)).text, /<Id>kept<\/Id>/);
    });
  }

  it("answers TableNotFound in XML for a table that is not there", async () => {
    for (const method of ["GET", "PUT"]) {
      assertRefused(
        await acl(method, "Nobody", method === "PUT" ? list() : undefined),
        { status: 404, code: "TableNotFound" },
        "xml",
      );
    }
  });
});

describe("Service properties", () => {
  const DEFAULTS =
    '\ufeff<?xml version="1.0" encoding="utf-8"?><StorageServiceProperties>' +
    "<Logging><Version>1.0</Version><Read>false</Read><Write>false</Write><Delete>false</Delete><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging>" +
    "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></HourMetrics>" +
    "<MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics><Cors /></StorageServiceProperties>";
  const LOGGING =
    "<Logging><RetentionPolicy><Days>5</Days><Enabled>true</Enabled></RetentionPolicy><Delete>true</Delete><Write>true</Write><Read>true</Read><Version>1.0</Version></Logging>";
  const RULE =
    "<CorsRule><AllowedMethods>GET,PUT</AllowedMethods><AllowedOrigins>http://a,http://b</AllowedOrigins><AllowedHeaders>x-ms-*</AllowedHeaders><ExposedHeaders /><MaxAgeInSeconds>9</MaxAgeInSeconds></CorsRule>";

  it("begin as a new account's and change group by group", async () => {
    assert.equal((await properties("GET")).text, DEFAULTS);
    const set = await properties("PUT", group(LOGGING));
    assert.equal(set.status, 202);
    assert.equal(set.body.length, 0);
    const logging =
      "<Logging><Version>1.0</Version><Read>true</Read><Write>true</Write><Delete>true</Delete><RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></Logging>";
    const changed = DEFAULTS.replace(/<Logging>.*<\/Logging>/, logging);
    assert.equal((await properties("GET")).text, changed);
    await properties("PUT", group(`<Cors>${RULE}</Cors>`));
    assert.equal(
      (await properties("GET")).text,
      changed.replace("<Cors />", `<Cors>${RULE}</Cors>`),
    );
    await properties("PUT", group("<Cors></Cors>"));
    assert.equal((await properties("GET")).text, changed);
  });

  const documents: readonly (readonly [string, string, string])[] = [
    ["no group", group(""), "InvalidXmlDocument"],
    ["no body", "", "InvalidXmlDocument"],
    ["an unknown group", group("<Surprise />"), "InvalidXmlDocument"],
    [
      "an incomplete group",
      group("<Logging><Version>1.0</Version></Logging>"),
      "InvalidXmlDocument",
    ],
    ["six rules", group(`<Cors>${RULE.repeat(6)}</Cors>`), "InvalidXmlDocument"],
    ["366 days", group(LOGGING.replace("<Days>5", "<Days>366")), "InvalidXmlDocument"],
    ["0 days", group(LOGGING.replace("<Days>5", "<Days>0")), "InvalidXmlDocument"],
    ["another version", group(LOGGING.replace("1.0", "2.0")), "InvalidXmlNodeValue"],
    ["65 origins", group(withOrigins(65)), "InvalidXmlNodeValue"],
    [
      "a method that is none",
      group(`<Cors>${RULE.replace("PUT", "TRACE")}</Cors>`),
      "InvalidXmlNodeValue",
    ],
    [
      "three prefixes",
      group(`<Cors>${RULE.replace("x-ms-*", "a*,b*,c*")}</Cors>`),
      "InvalidXmlNodeValue",
    ],
    [
      "a header of 257 characters",
      group(`<Cors>${RULE.replace("x-ms-*", "h".repeat(257))}</Cors>`),
      "InvalidXmlNodeValue",
    ],
    [
      "more than 2 KiB of rules",
      group(
        `<Cors>${RULE.replace("x-ms-*", Array.from({ length: 10 }, (_, i) => `${i}${"h".repeat(240)}`).join())}</Cors>`,
      ),
      "InvalidXmlDocument",
    ],
  ];
  for (const [what, body, code] of documents) {
    it(`are refused with ${what}`, async () => {
      assertRefused(await properties("PUT", body), { status: 400, code }, "xml");
    });
  }

  function withOrigins(count: number): string {
    const origins = Array.from({ length: count }, (_, i) => `h${i}`).join();
    return `<Cors>${RULE.replace("http://a,http://b", origins)}</Cors>`;
  }
});

describe("What is no operation", () => {
  const allowed: readonly (readonly [string, string, string])[] = [
    ["PUT", "/Tables", "GET, POST"],
    ["PATCH", "/Tables('People')", "GET, DELETE"],
    ["PUT", "/People", "GET, POST"],
    ["DELETE", "/People", "GET, POST"],
    ["POST", "/People(PartitionKey='p',RowKey='r')", "GET, PUT, MERGE, DELETE"],
    ["HEAD", "/People(PartitionKey='p',RowKey='r')", "GET, PUT, MERGE, DELETE"],
    ["GET", "/$batch", "POST"],
    ["DELETE", "/People?comp=acl", "GET, PUT"],
    ["POST", "/?restype=service&comp=properties", "GET, PUT"],
  ];
  for (const [method, path, methods] of allowed) {
    it(`${method} ${path} is answered 405, with the methods there are`, async () => {
      const answer = await wire.send(method, path, { body: method === "HEAD" ? undefined : "{}" });
      assert.equal(answer.status, 405);
      assert.equal(answer.header("x-ms-error-code"), "MethodNotAllowed");
      assert.deepEqual(answer.header("allow")!.split(", ").sort(), methods.split(", ").sort());
    });
  }

  const unsupported = [
    "$orderby=RowKey",
    "$skip=1",
    "$inlinecount=allpages",
    "$expand=a",
    "$skiptoken=a",
    "$count=true",
  ];
  for (const option of unsupported) {
    it(`${option} is answered 501`, async () => {
      const name = await target.table();
      assertRefused(await wire.send("GET", `/${name}?${option}`), {
        status: 501,
        code: "NotImplemented",
        message: "The requested operation is not implemented on the specified resource.",
      });
    });
  }

  it("Segments behind a table are answered 501 where OData has them, else 400", async () => {
    for (const [path, status, code] of [
      ["/People/$count", 501, "NotImplemented"],
      ["/People(PartitionKey='p',RowKey='r')/$links", 501, "NotImplemented"],
      ["/People/more", 400, "InvalidUri"],
    ] as const) {
      assertRefused(await wire.send("GET", path), { status, code }, "json");
    }
  });

  it("An unknown comp is answered 400", async () => {
    assertRefused(await wire.send("GET", "/People?comp=magic"), {
      status: 400,
      code: "InvalidQueryParameterValue",
    });
  });

  it("The service document and the metadata say what there is", async () => {
    assert.deepEqual((await wire.send("GET", "/", { headers: ACCEPT("nometadata") })).json(), {
      value: [{ name: "Tables", url: "Tables" }],
    });
    assert.match(
      (await wire.send("GET", "/$metadata")).text,
      /<PropertyRef Name="PartitionKey" \/>/,
    );
  });
});

function create(name: string, headers: Record<string, string> = {}) {
  return wire.send("POST", "/Tables", { body: { TableName: name }, headers });
}

function acl(method: string, table: string, body?: string) {
  const headers = { Accept: "application/xml", "Content-Type": "application/xml" };
  return wire.send(method, `/${table}?comp=acl`, { body, headers });
}

function group(inner: string): string {
  return `<StorageServiceProperties>${inner}</StorageServiceProperties>`;
}

function properties(method: string, body?: string) {
  const headers = { Accept: "application/xml", "Content-Type": "application/xml" };
  return wire.send(method, "/?restype=service&comp=properties", { body, headers });
}
