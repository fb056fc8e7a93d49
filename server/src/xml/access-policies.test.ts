import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import { parseAccessPolicies, printAccessPolicies } from "./access-policies.ts";
import {
  BLOB_DOCUMENTS,
  type DocumentRules,
  QUEUE_DOCUMENTS,
  TABLE_DOCUMENTS,
} from "./document-rules.ts";

const DECLARATION = '<?xml version="1.0" encoding="utf-8"?>';
const SERVICES = [TABLE_DOCUMENTS, QUEUE_DOCUMENTS, BLOB_DOCUMENTS];

describe("Access policies", () => {
  it("of tables are returned with seven fraction digits and a byte order mark", () => {
    const sent =
      `${DECLARATION}<SignedIdentifiers><SignedIdentifier><Id>testid</Id><AccessPolicy>` +
      "<Start>2011-10-11</Start><Expiry>2011-10-12</Expiry><Permission>r</Permission>" +
      "</AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    assert.equal(sent.length, 236);
    assert.equal(
      printAccessPolicies(parse(sent, TABLE_DOCUMENTS)),
      `\ufeff${DECLARATION}<SignedIdentifiers><SignedIdentifier><Id>testid</Id><AccessPolicy>` +
        "<Start>2011-10-11T00:00:00.0000000Z</Start><Expiry>2011-10-12T00:00:00.0000000Z</Expiry>" +
        "<Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>",
    );
  });

  it("of queues are returned as they were sent", () => {
    const policies =
      "<SignedIdentifiers><SignedIdentifier><Id>reader</Id><AccessPolicy>" +
      "<Start>2026-07-01T00:00:00.0000000Z</Start><Expiry>2027-01-01T00:00:00.0000000Z</Expiry>" +
      "<Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    const sent = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>${policies}`;
    assert.equal(sent.length, 289);
    const printed = printAccessPolicies(parse(sent, QUEUE_DOCUMENTS));
    assert.equal(printed, `\ufeff${DECLARATION}${policies}`);
    assert.equal(printed.length, 273);
    const [short] = parse(list(policy("a", "<Start>2026-07-01</Start>")), QUEUE_DOCUMENTS);
    assert.equal(short?.start, "2026-07-01");
  });

  it("of containers may omit any field of the policy", () => {
    const sent =
      '<?xml version="1.0" encoding="UTF-8" standalone="yes"?><SignedIdentifiers>' +
      "<SignedIdentifier><Id>readers</Id><AccessPolicy><Expiry>2027-01-01T00:00:00.0000000Z</Expiry>" +
      "<Permission>rl</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    assert.equal(sent.length, 248);
    assert.deepEqual(parse(sent, BLOB_DOCUMENTS), [
      { id: "readers", expiry: "2027-01-01T00:00:00.0000000Z", permission: "rl" },
    ]);
  });

  it("with only an id are printed without AccessPolicy", () => {
    const empty = "<Start /><Expiry></Expiry><Permission />";
    for (const sent of ["", "<AccessPolicy />", `<AccessPolicy>${empty}</AccessPolicy>`]) {
      const document = list(`<SignedIdentifier>${sent}<Id>empty</Id></SignedIdentifier>`);
      assert.deepEqual(parse(document), [{ id: "empty" }]);
    }
    assert.equal(
      printAccessPolicies([{ id: "empty" }]),
      `\ufeff${DECLARATION}<SignedIdentifiers><SignedIdentifier><Id>empty</Id></SignedIdentifier></SignedIdentifiers>`,
    );
  });

  it("are an empty list when the body or its list is empty", () => {
    for (const rules of SERVICES) {
      for (const sent of [
        "",
        "<SignedIdentifiers />",
        "<SignedIdentifiers> </SignedIdentifiers>",
      ]) {
        assert.deepEqual(parse(sent, rules), []);
      }
    }
    assert.equal(printAccessPolicies([]), `\ufeff${DECLARATION}<SignedIdentifiers />`);
  });

  it("keep their permissions in the order sent, and their id with special characters", () => {
    const [read] = parse(list(policy("a&amp;b", "<Permission>dar</Permission>")));
    assert.deepEqual(read, { id: "a&b", permission: "dar" });
    assert.match(printAccessPolicies([{ id: "a&b" }]), /<Id>a&amp;b<\/Id>/);
  });
});

describe("Access policies are refused", () => {
  it("when there are more than five", () => {
    const policies = ["a", "b", "c", "d", "e", "f"].map((id) => policy(id, ""));
    for (const rules of SERVICES) {
      assert.equal(parse(list(...policies.slice(1)), rules).length, 5);
      assertRefused(list(...policies), rules, "InvalidXmlDocument");
    }
  });

  it("when an id is missing, too long or given twice", () => {
    assert.equal(parse(list(policy("x".repeat(64), ""))).length, 1);
    for (const document of [
      list("<SignedIdentifier />"),
      list(policy("", "")),
      list(policy("x".repeat(65), "")),
      list(policy("a", ""), policy("a", "")),
    ]) {
      for (const rules of SERVICES) assertRefused(document, rules, "InvalidXmlDocument");
    }
    assert.equal(parse(list(policy("a", ""), policy("A", ""))).length, 2);
  });

  it("when a permission is unknown to the service", () => {
    const letters = (text: string) => list(policy("a", `<Permission>${text}</Permission>`));
    assert.equal(parse(letters("raud"), TABLE_DOCUMENTS).length, 1);
    assert.equal(parse(letters("raup"), QUEUE_DOCUMENTS).length, 1);
    assert.equal(parse(letters("racwdxltmeiyf"), BLOB_DOCUMENTS).length, 1);
    assertRefused(letters("rp"), TABLE_DOCUMENTS, "InvalidXmlNodeValue");
    for (const [wrong, rules] of [
      ["rd", QUEUE_DOCUMENTS],
      ["ru", BLOB_DOCUMENTS],
    ] as const) {
      assert.throws(() => parse(letters(wrong), rules), {
        code: "InvalidXmlDocument",
        details: [
          ["LineNumber", "0"],
          ["LinePosition", "0"],
          ["Reason", ""],
        ],
      });
    }
  });

  it("when a time is invalid, with the service's own error code", () => {
    for (const time of ["2011-02-30", "tomorrow", "2011-10-11T10:00:00"]) {
      const document = list(policy("a", `<Expiry>${time}</Expiry>`));
      assertRefused(document, TABLE_DOCUMENTS, "InvalidXmlDocument");
      assertRefused(document, QUEUE_DOCUMENTS, "InvalidXmlNodeValue");
    }
  });

  it("when the document has another root or other elements, or is not XML", () => {
    for (const document of [
      "<SignedIdentifier />",
      "<SignedIdentifiers>x</SignedIdentifiers>",
      "<SignedIdentifiers><Id>a</Id></SignedIdentifiers>",
      "not xml",
    ]) {
      assertRefused(document, TABLE_DOCUMENTS, "InvalidXmlDocument");
    }
  });
});

function list(...policies: readonly string[]): string {
  return `<SignedIdentifiers>${policies.join("")}</SignedIdentifiers>`;
}

function policy(id: string, parts: string): string {
  return `<SignedIdentifier><Id>${id}</Id><AccessPolicy>${parts}</AccessPolicy></SignedIdentifier>`;
}

function parse(document: string, rules: DocumentRules = TABLE_DOCUMENTS): AccessPolicy[] {
  return parseAccessPolicies(new TextEncoder().encode(document), rules);
}

function assertRefused(document: string, rules: DocumentRules, code: string): void {
  assert.throws(() => parse(document, rules), { name: "ServiceError", code }, document);
}
