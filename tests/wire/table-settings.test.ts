import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { assertRefused } from "./refusals.ts";
import { WireTarget } from "./table-target.ts";

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;

describe("Table ACL", () => {
  const identifier = (id: string, inner = "") =>
    `<SignedIdentifier><Id>${id}</Id>${inner && `<AccessPolicy>${inner}</AccessPolicy>`}</SignedIdentifier>`;
  const list = (...identifiers: string[]) =>
    `<SignedIdentifiers>${identifiers.join("")}</SignedIdentifiers>`;
  const DECLARATION = '\ufeff<?xml version="1.0" encoding="utf-8"?>';

  it("stores up to five policies, with seven fraction digits and without empty fields", async () => {
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
    ["text that is not XML", "SignedIdentifiers", "InvalidXmlDocument"],
    ["XML cut off", "<SignedIdentifiers><SignedIdent", "InvalidXmlDocument"],
    [
      "an external entity",
      '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><SignedIdentifiers>&x;</SignedIdentifiers>',
      "InvalidXmlDocument",
    ],
  ];
  for (const [what, body, code] of documents) {
    it(`refuses a document with ${what}, and keeps the stored policies`, async () => {
      const name = await target.table();
      await acl("PUT", name, list(identifier("kept")));
      assertRefused(await acl("PUT", name, body), { status: 400, code }, "xml");
      assert.match((await acl("GET", name)).text, /<Id>kept<\/Id>/);
    });
  }

  it("answers TableNotFound in XML for a missing table", async () => {
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

  it("start as a new account's and change group by group", async () => {
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
      "an unknown method",
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

function acl(method: string, table: string, body?: string) {
  return wire.sendXml(method, `/${table}?comp=acl`, body);
}

function group(inner: string): string {
  return `<StorageServiceProperties>${inner}</StorageServiceProperties>`;
}

function properties(method: string, body?: string) {
  return wire.sendXml(method, "/?restype=service&comp=properties", body);
}
