import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { tableAuth } from "./dialect.ts";
import { knownToken } from "./known-tokens.ts";
import { authenticate, contextAt, refusalOf, sign, sketchRequest } from "./test-request.ts";

const CONTEXT = contextAt("2021-01-06T12:00:00Z");
const TEXT = "r\n\n2021-01-07\n/table/acct/people\n\n\n\n2019-02-02\n\n\n\n";

describe("an accepted SAS", () => {
  it("is remembered; a refused one is not", () => {
    const account = newAccount("key");
    assert.throws(() => ask(account, queryOf("AAAA")));
    assert.equal(knownToken(account, queryOf("AAAA")), undefined);
    const query = queryOf(sign(TEXT, account));
    assert.ok(ask(account, query));
    assert.equal(knownToken(account, query)?.stringToSign, TEXT);
  });

  it("is refused after the account's key has changed", () => {
    const before = newAccount("key");
    const query = queryOf(sign(TEXT, before));
    assert.ok(ask(before, query));
    assert.equal(refusalOf(() => ask(newAccount("another"), query)).code, "AuthenticationFailed");
  });

  it("is refused for another account or table", () => {
    const account = newAccount("key");
    const query = queryOf(sign(TEXT, account));
    assert.ok(ask(account, query));
    assert.throws(() => ask({ ...account, name: "other" }, query));
    assert.throws(() => ask(account, query, "others"));
    assert.ok(ask(account, query));
  });

  it("is verified again when its string to sign differs", () => {
    const account = newAccount("key");
    const query = queryOf(sign(TEXT, account));
    assert.ok(ask(account, query));
    const otherName = {
      ...tableAuth,
      readServiceSas: () => ({ stringToSign: "x", name: "", scope: NO_SCOPE }),
    };
    const head = sketchRequest(`GET /acct/People?${query}`, { account });
    assert.equal(
      refusalOf(() => authenticate(head, otherName, CONTEXT)).code,
      "AuthenticationFailed",
    );
  });

  it("is forgotten after 256 newer ones", () => {
    const account = newAccount("key");
    const first = `${queryOf(sign(TEXT, account))}&n=0`;
    for (let index = 0; index <= 256; index++) {
      assert.ok(ask(account, first.replace("n=0", `n=${index}`)));
    }
    assert.equal(knownToken(account, first), undefined);
    assert.ok(knownToken(account, first.replace("n=0", "n=1")));
    assert.ok(knownToken(account, first.replace("n=0", "n=256")));
    assert.ok(ask(account, first));
  });

  it("is not remembered when the query string is long", () => {
    const account = newAccount("key");
    const query = `${queryOf(sign(TEXT, account))}&$filter=${"x".repeat(1024)}`;
    assert.ok(ask(account, query));
    assert.equal(knownToken(account, query), undefined);
  });
});

const NO_SCOPE = { table: undefined, keyRange: undefined, responseHeaders: [] };

function newAccount(key: string) {
  return { name: "acct", keys: [Buffer.from(key)] };
}

function queryOf(signature: string): string {
  return `sv=2019-02-02&tn=People&sp=r&se=2021-01-07&sig=${encodeURIComponent(signature)}`;
}

function ask(account: ReturnType<typeof newAccount>, query: string, name = "people") {
  const location = { resource: "entities", name };
  return authenticate(
    sketchRequest(`GET /acct/${name}?${query}`, { account, location }),
    tableAuth,
    CONTEXT,
  );
}
