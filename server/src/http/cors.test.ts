import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { CorsRule } from "../xml/cors-rules.ts";
import { corsHeaders, preflightResponse } from "./cors.ts";

const CONTOSO = "http://www.contoso.com";
const ANSWERED = ["x-ms-request-id", "1", "ETag", "2", "Content-Type", "3"];

describe("A preflight request", () => {
  const contoso = rule({
    allowedOrigins: [CONTOSO],
    allowedMethods: ["PUT"],
    allowedHeaders: ["Content-Type", "accept", "x-ms-meta-*"],
  });
  const asked = { origin: CONTOSO, "access-control-request-method": "PUT" };

  it("is answered with the method and headers that it requested, as in the worked example", () => {
    const requested = { "access-control-request-headers": "content-type,accept" };
    assert.deepEqual(preflight([contoso], { ...asked, ...requested }), {
      status: 200,
      headers: [
        "Access-Control-Allow-Origin",
        CONTOSO,
        "Access-Control-Allow-Methods",
        "PUT",
        "Access-Control-Allow-Headers",
        "content-type,accept",
        "Access-Control-Max-Age",
        "60",
        "Access-Control-Allow-Credentials",
        "true",
      ],
    });
  });

  it("need not request headers", () => {
    assert.doesNotMatch(String(preflight([contoso], asked).headers), /Allow-Headers/);
  });

  it("may request headers allowed by a prefix, in any case", () => {
    for (const headers of ["X-MS-META-A, Accept", "x-ms-meta-", "ACCEPT"]) {
      preflight([contoso], { ...asked, "access-control-request-headers": headers });
    }
  });

  it("is answered * by a rule for all origins, with credentials only if the service allows them", () => {
    const star = rule({ allowedOrigins: [CONTOSO, "*"] });
    const head = { origin: CONTOSO, "access-control-request-method": "GET" };
    const start = ["Access-Control-Allow-Origin", "*", "Access-Control-Allow-Methods", "GET"];
    const age = ["Access-Control-Max-Age", "60"];
    assert.deepEqual(preflight([star], head).headers, [...start, ...age]);
    assert.deepEqual(preflight([star], head, true).headers, [
      ...start,
      ...age,
      "Access-Control-Allow-Credentials",
      "true",
    ]);
  });

  it("is refused without origin or method", () => {
    for (const head of [{}, { origin: CONTOSO }, { "access-control-request-method": "PUT" }]) {
      assert.throws(() => preflight([contoso], head), {
        code: "InvalidHeaderValue",
        status: 400,
        message: "A required CORS header is not present.",
      });
    }
  });

  it("is allowed under a wildcard label for any deeper host of its scheme and port", () => {
    const wildcard = (origin: string) =>
      rule({ allowedOrigins: [origin], allowedMethods: ["PUT"] });
    for (const origin of ["http://foo.contoso.com", "http://a.b.contoso.com"]) {
      const { headers } = preflight([wildcard("http://*.contoso.com")], { ...asked, origin });
      assert.deepEqual(headers.slice(0, 2), ["Access-Control-Allow-Origin", origin]);
    }
    const port = [wildcard("https://*.contoso.com:8080")];
    preflight(port, { ...asked, origin: "https://foo.contoso.com:8080" });
    for (const origin of [
      "http://contoso.com",
      "http://.contoso.com",
      "https://foo.contoso.com",
      "http://foo.contoso.com:80",
      "http://foo.contoso.com.evil.org",
      "http://foocontoso.com",
      "http://evil.org/.contoso.com",
      "http://*.contoso.org",
    ]) {
      assertPreflightFails([wildcard("http://*.contoso.com")], { ...asked, origin });
    }
  });

  it("is refused if no rule allows it", () => {
    const heads = [
      { ...asked, origin: "http://www.Contoso.com" },
      { ...asked, origin: `${CONTOSO}:80` },
      { ...asked, "access-control-request-method": "GET" },
      { ...asked, "access-control-request-headers": "accept,x-other" },
    ];
    for (const head of heads) assertPreflightFails([contoso], head);
    assertPreflightFails([], asked);
  });

  it("is refused by the first rule for its origin and method, even if a later one would allow it", () => {
    const strict = rule({ allowedOrigins: [CONTOSO], allowedMethods: ["PUT"], allowedHeaders: [] });
    const head = { ...asked, "access-control-request-headers": "accept" };
    assertPreflightFails([strict, contoso], head);
    preflight([contoso, strict], head);
  });

  function assertPreflightFails(rules: CorsRule[], head: Record<string, string>): void {
    assert.throws(() => preflight(rules, head), {
      code: "CorsPreflightFailure",
      status: 403,
      message: "CORS not enabled or no matching rule found for this request.",
    });
  }
});

describe("An actual request", () => {
  const exact = rule({ allowedOrigins: [CONTOSO], exposedHeaders: ["etag"] });
  const star = rule({ allowedOrigins: ["*"], exposedHeaders: ["*"] });
  const VARY = ["Vary", "Origin"];
  const ALL = ["Access-Control-Expose-Headers", "x-ms-request-id,ETag,Content-Type"];
  const FOR_ALL = ["Access-Control-Allow-Origin", "*", ...ALL];
  const FOR_CONTOSO = [
    "Access-Control-Allow-Origin",
    CONTOSO,
    "Access-Control-Expose-Headers",
    "ETag",
    "Access-Control-Allow-Credentials",
    "true",
  ];

  it("that reads is answered as the table for reads says", () => {
    for (const method of ["GET", "HEAD"]) {
      assert.deepEqual(cors([], method, undefined), []);
      assert.deepEqual(cors([exact], method, undefined), VARY);
      assert.deepEqual(cors([star], method, undefined), FOR_ALL);
      assert.deepEqual(cors([], method, CONTOSO), []);
      assert.deepEqual(cors([exact], method, CONTOSO), [...VARY, ...FOR_CONTOSO]);
      assert.deepEqual(cors([exact], method, "http://other"), VARY);
      assert.deepEqual(cors([star], method, CONTOSO), FOR_ALL);
    }
  });

  it("that writes is never answered with Vary", () => {
    assert.deepEqual(cors([exact], "PUT", undefined), []);
    assert.deepEqual(cors([star], "PUT", undefined), []);
    assert.deepEqual(cors([exact], "PUT", CONTOSO), FOR_CONTOSO);
    assert.deepEqual(cors([exact], "PUT", "http://other"), []);
    assert.deepEqual(cors([star], "PUT", CONTOSO), FOR_ALL);
  });

  it("is matched only against rules for its method", () => {
    const writes = rule({ allowedOrigins: ["*"], allowedMethods: ["PUT"] });
    assert.deepEqual(cors([writes], "GET", CONTOSO), VARY);
    assert.deepEqual(cors([writes], "GET", undefined), VARY);
    assert.deepEqual(cors([writes, exact], "GET", CONTOSO), [...VARY, ...FOR_CONTOSO]);
  });

  it("is answered by the first rule that allows it", () => {
    assert.deepEqual(cors([star, exact], "GET", CONTOSO), FOR_ALL);
    assert.deepEqual(cors([exact, star], "GET", CONTOSO), [...VARY, ...FOR_CONTOSO]);
    assert.deepEqual(cors([exact, star], "GET", "http://other"), FOR_ALL);
  });

  it("is answered with the list of headers that the rule exposes, each once", () => {
    const exposing = (...exposedHeaders: string[]) =>
      cors([rule({ allowedOrigins: ["*"], exposedHeaders })], "GET", CONTOSO).slice(2);
    assert.deepEqual(exposing(), []);
    assert.deepEqual(exposing("x-other", "y*"), []);
    assert.deepEqual(exposing("X-MS-*"), ["Access-Control-Expose-Headers", "x-ms-request-id"]);
    assert.deepEqual(exposing("content-type", "c*", "etag"), [
      "Access-Control-Expose-Headers",
      "ETag,Content-Type",
    ]);
  });

  it("is answered like a plain implementation of the two tables, for random rules", () => {
    const origins = ["http://a", "http://b", "*"];
    const methods = ["GET", "HEAD", "PUT"];
    const anyRule = fc
      .record({
        allowedOrigins: fc.subarray(origins, { minLength: 1 }),
        allowedMethods: fc.subarray(methods, { minLength: 1 }),
        exposedHeaders: fc.subarray(["*", "etag", "x-ms-*"]),
      })
      .map(rule);
    fc.assert(
      fc.property(
        fc.array(anyRule, { maxLength: 5 }),
        fc.constantFrom(...methods),
        fc.constantFrom(undefined, "http://a", "http://b", "http://c"),
        (rules, method, origin) => {
          assert.deepEqual(
            namesAndValues(cors(rules, method, origin)),
            plain(rules, method, origin),
          );
        },
      ),
      { numRuns: 2000 },
    );
  });

  /** The same rules written out plainly, with no shared code and no shortcuts. */
  function plain(rules: CorsRule[], method: string, origin: string | undefined): object {
    const answer: Record<string, string> = {};
    const isRead = method !== "PUT";
    const forMethod = rules.filter((one) => one.allowedMethods.includes(method));
    let first: CorsRule | undefined;
    for (const one of forMethod) {
      const isStar = one.allowedOrigins.includes("*");
      const isFor =
        origin === undefined ? isStar && isRead : isStar || one.allowedOrigins.includes(origin);
      if (isFor && first === undefined) first = one;
    }
    const answersAll = first?.allowedOrigins.includes("*") === true;
    if (isRead && rules.length > 0 && !answersAll) answer.Vary = "Origin";
    if (first === undefined) return answer;
    answer["Access-Control-Allow-Origin"] = answersAll ? "*" : String(origin);
    if (!answersAll) answer["Access-Control-Allow-Credentials"] = "true";
    const exposed: string[] = [];
    for (const name of ["x-ms-request-id", "ETag", "Content-Type"]) {
      const isAll = first.exposedHeaders.includes("*");
      const isNamed = name === "ETag" && first.exposedHeaders.includes("etag");
      const isPrefixed = name === "x-ms-request-id" && first.exposedHeaders.includes("x-ms-*");
      if (isAll || isNamed || isPrefixed) exposed.push(name);
    }
    if (exposed.length > 0) answer["Access-Control-Expose-Headers"] = exposed.join(",");
    return answer;
  }
});

function rule(given: Partial<CorsRule>): CorsRule {
  return {
    allowedOrigins: ["*"],
    allowedMethods: ["GET", "HEAD", "PUT"],
    allowedHeaders: ["*"],
    exposedHeaders: [],
    maxAgeSeconds: 60,
    ...given,
  };
}

function preflight(rules: CorsRule[], headers: Record<string, string>, starCredentials = false) {
  const head = { header: (name: string) => headers[name] };
  return preflightResponse(rules, head, { starCredentials });
}

function cors(rules: CorsRule[], method: string, origin: string | undefined): readonly string[] {
  return corsHeaders(rules, { method, origin }, ANSWERED);
}

function namesAndValues(flat: readonly string[]): object {
  const pairs: Record<string, string> = {};
  for (let index = 0; index < flat.length; index += 2) pairs[flat[index]!] = flat[index + 1]!;
  return pairs;
}
