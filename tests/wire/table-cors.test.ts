import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { HttpAnswer } from "./http-answer.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { assertRefused } from "./refusals.ts";
import { TableWire } from "./table-wire.ts";

/* On a separate server, because rules apply to the whole account. */

interface Rule {
  readonly origins: string;
  readonly methods: string;
  readonly headers?: string;
  readonly exposed?: string;
  readonly maxAge?: number;
}

const ONE: Rule = {
  origins: "http://one",
  methods: "GET,PUT,MERGE",
  headers: "x-ms-*,accept",
  exposed: "etag,x-ms-*",
  maxAge: 60,
};
const STAR: Rule = { origins: "*", methods: "GET", headers: "*", exposed: "*" };

let server: LocalServer;
let wire: TableWire;
before(async () => {
  server = await startLocalServer();
  wire = new TableWire({
    url: `${server.url}/devstoreaccount1`,
    account: "devstoreaccount1",
    key: "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
  });
  await wire.send("POST", "/Tables", { body: { TableName: "People" } });
  await wire.send("POST", "/People", { body: { PartitionKey: "p", RowKey: "r" } });
});
after(async () => {
  wire.close();
  await server.close();
});

async function rules(...list: readonly Rule[]): Promise<void> {
  const printed = list.map(
    ({ origins, methods, headers = "", exposed = "", maxAge = 0 }) =>
      `<CorsRule><AllowedOrigins>${origins}</AllowedOrigins><AllowedMethods>${methods}</AllowedMethods>` +
      `<AllowedHeaders>${headers}</AllowedHeaders><ExposedHeaders>${exposed}</ExposedHeaders><MaxAgeInSeconds>${maxAge}</MaxAgeInSeconds></CorsRule>`,
  );
  const answer = await wire.send("PUT", "/?restype=service&comp=properties", {
    body: `<StorageServiceProperties><Cors>${printed.join("")}</Cors></StorageServiceProperties>`,
  });
  assert.equal(answer.status, 202);
}

function preflight(path: string, headers: Record<string, string>): Promise<HttpAnswer> {
  const bare = { "x-ms-version": undefined, "x-ms-date": undefined, Accept: undefined };
  return wire.send("OPTIONS", path, { as: { kind: "none" }, headers: { ...bare, ...headers } });
}

function read(origin: string | undefined, path = "/People"): Promise<HttpAnswer> {
  return wire.send("GET", path, { headers: { Origin: origin } });
}

/** The CORS headers of an answer. */
function corsOf(answer: HttpAnswer) {
  return {
    vary: answer.header("vary"),
    origin: answer.header("access-control-allow-origin"),
    expose: answer.header("access-control-expose-headers"),
    credentials: answer.header("access-control-allow-credentials"),
  };
}
const NONE = { vary: undefined, origin: undefined, expose: undefined, credentials: undefined };

describe("A preflight", () => {
  it("is answered with the matching rule, for any path, without credentials", async () => {
    await rules(ONE);
    for (const path of [
      "/People",
      "/Nobody(PartitionKey='p',RowKey='r')",
      "",
      "/Tables('x')?a=b",
    ]) {
      const answer = await preflight(path, {
        Origin: "http://one",
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "X-MS-Date, accept",
      });
      assert.equal(answer.status, 200);
      assert.equal(answer.header("content-length"), "0");
      assert.equal(answer.header("access-control-allow-origin"), "http://one");
      assert.equal(answer.header("access-control-allow-methods"), "PUT");
      assert.equal(answer.header("access-control-allow-headers"), "X-MS-Date, accept");
      assert.equal(answer.header("access-control-max-age"), "60");
      assert.equal(answer.header("access-control-allow-credentials"), "true");
      assert.equal(answer.header("vary"), undefined);
    }
  });

  it("under a rule for all origins is answered with *, without Allow-Credentials", async () => {
    await rules(STAR);
    const answer = await preflight("/People", {
      Origin: "http://any",
      "Access-Control-Request-Method": "GET",
    });
    assert.equal(answer.header("access-control-allow-origin"), "*");
    assert.equal(answer.header("access-control-allow-credentials"), undefined);
  });

  it("is refused without rules, or if origin, method or a header does not match", async () => {
    const refusal = {
      status: 403,
      code: "CorsPreflightFailure",
      message: "CORS not enabled or no matching rule found for this request.",
    };
    const asked = { Origin: "http://one", "Access-Control-Request-Method": "PUT" };
    await rules();
    assertRefused(await preflight("/People", asked), refusal);
    await rules(ONE);
    assertRefused(await preflight("/People", { ...asked, Origin: "http://One" }), refusal);
    assertRefused(
      await preflight("/People", { ...asked, "Access-Control-Request-Method": "DELETE" }),
      refusal,
    );
    assertRefused(
      await preflight("/People", { ...asked, "Access-Control-Request-Headers": "accept,cookie" }),
      refusal,
    );
  });

  it("uses the first rule for its origin and method, whatever the next rule would allow", async () => {
    await rules({ ...ONE, headers: "accept" }, { ...ONE, headers: "*" });
    const asked = { Origin: "http://one", "Access-Control-Request-Method": "PUT" };
    const answer = await preflight("/People", {
      ...asked,
      "Access-Control-Request-Headers": "cookie",
    });
    assert.equal(answer.status, 403);
  });

  it("without an origin or a method is refused", async () => {
    for (const headers of [
      { Origin: "http://one" },
      { "Access-Control-Request-Method": "GET" },
      {},
    ]) {
      assertRefused(await preflight("/People", headers), {
        status: 400,
        code: "InvalidHeaderValue",
        message: "A required CORS header is not present.",
      });
    }
  });
});

describe("The answer to a GET", () => {
  it("has no CORS headers without rules", async () => {
    await rules();
    assert.deepEqual(corsOf(await read(undefined)), NONE);
    assert.deepEqual(corsOf(await read("http://one")), NONE);
  });

  it("has Vary: Origin if the rules name origins", async () => {
    await rules(ONE);
    assert.deepEqual(corsOf(await read(undefined)), { ...NONE, vary: "Origin" });
    assert.deepEqual(corsOf(await read("http://two")), { ...NONE, vary: "Origin" });
    assert.deepEqual(corsOf(await read("http://one", "/People(PartitionKey='p',RowKey='r')")), {
      vary: "Origin",
      origin: "http://one",
      expose: "ETag,x-ms-request-id,x-ms-version",
      credentials: "true",
    });
  });

  it("allows every origin if a rule does", async () => {
    for (const list of [[STAR], [ONE, STAR].toReversed()]) {
      await rules(...list);
      for (const origin of [undefined, "http://two"]) {
        const found = corsOf(await read(origin));
        assert.equal(found.origin, "*");
        assert.equal(found.vary, undefined);
        assert.equal(found.credentials, undefined);
        assert.match(found.expose!, /x-ms-request-id/);
        assert.match(found.expose!, /Content-Type/);
      }
    }
  });

  it("has the same CORS headers if it is a refusal, even for missing credentials", async () => {
    await rules(ONE);
    for (const path of ["/Nobody", "/People?$filter=%20("]) {
      assert.equal(corsOf(await read("http://one", path)).origin, "http://one");
      assert.equal(corsOf(await read(undefined, path)).vary, "Origin");
    }
    const refused = await wire.send("GET", "/People", {
      as: { kind: "none" },
      headers: { Origin: "http://one" },
    });
    assert.equal(refused.status, 403);
    assert.equal(corsOf(refused).origin, "http://one");
  });
});

describe("The answer to a write", () => {
  const write = (method: string, origin: string | undefined) =>
    wire.send(method, "/People(PartitionKey='p',RowKey='w')", {
      body: {},
      headers: { Origin: origin },
    });

  it("never has Vary, and the write is executed whether or not a rule matches", async () => {
    await rules(ONE);
    const matching = await write("PUT", "http://one");
    assert.equal(matching.status, 204);
    assert.deepEqual(
      { ...corsOf(matching), expose: "" },
      { vary: undefined, origin: "http://one", expose: "", credentials: "true" },
    );
    for (const origin of [undefined, "http://two"]) {
      const other = await write("PUT", origin);
      assert.equal(other.status, 204);
      assert.deepEqual(corsOf(other), NONE);
    }
  });

  it("follows the rule for the browser's own verb", async () => {
    await rules({ ...ONE, methods: "MERGE" });
    assert.equal(corsOf(await write("MERGE", "http://one")).origin, "http://one");
    assert.equal(corsOf(await write("PUT", "http://one")).origin, undefined);
  });
});
