import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceError } from "@rowhouse/protocol/errors";
import type { BearerVerifier } from "./bearer.ts";
import { type AuthDialect, blobAuth, queueAuth, tableAuth } from "./dialect.ts";
import {
  authenticate,
  contextAt,
  type RequestSketch,
  refusalOf,
  sign,
  sketchRequest,
} from "./test-request.ts";

const DATE = "Wed, 06 Jan 2021 01:01:30 GMT";
const NOW = "2021-01-06T01:01:30Z";
const AUTHENTICATION_FAILED =
  "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.";
const CHALLENGED =
  "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.";
const WRONG = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

describe("a request without credentials", () => {
  it("is refused by tables with AuthenticationFailed before version 2020-12-06", () => {
    for (const headers of [
      {},
      { "x-ms-version": "2019-07-07" },
      { "x-ms-version": "2020-10-02" },
    ]) {
      assertRefused(refused(tableAuth, "GET /devstoreaccount1/Tables", { headers }), {
        code: "AuthenticationFailed",
        status: 403,
        message: AUTHENTICATION_FAILED,
      });
    }
  });

  it("is refused by tables with a Bearer challenge from version 2020-12-06 on", () => {
    const error = refused(tableAuth, "GET /devstoreaccount1/Tables", {
      headers: { "x-ms-version": "2020-12-06" },
    });
    assertRefused(error, {
      code: "InvalidAuthenticationInfo",
      status: 401,
      message: CHALLENGED,
      headers: [
        [
          "WWW-Authenticate",
          "Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize resource_id=https://storage.azure.com",
        ],
      ],
    });
  });

  it("is judged by the version in api-version when it has no x-ms-version", () => {
    const asked = (version: string) =>
      refused(tableAuth, `GET /devstoreaccount1/Tables?api-version=${version}`).status;
    assert.equal(asked("2020-12-06"), 401);
    assert.equal(asked("2020-10-02"), 403);
  });

  it("is refused by queues with the challenge SharedKey", () => {
    assertRefused(refused(queueAuth, "GET /devstoreaccount1/orders?comp=metadata"), {
      code: "NoAuthenticationInformation",
      status: 401,
      message: CHALLENGED,
      headers: [["WWW-Authenticate", "SharedKey"]],
    });
  });

  it("is accepted by blobs as anonymous", () => {
    const head = sketchRequest("GET /devstoreaccount1/docs/a.txt");
    assert.deepEqual(authenticate(head, blobAuth, contextAt(NOW)), { kind: "anonymous" });
  });
});

describe("an Authorization header", () => {
  for (const authorization of [
    "",
    " ",
    "SharedKeyLite",
    "SharedKey abc",
    "Basic YTpi",
    "a:b",
    "SharedKey",
  ]) {
    it(`is malformed when it is ${JSON.stringify(authorization)}`, () => {
      for (const dialect of [tableAuth, queueAuth, blobAuth]) {
        const headers = { Authorization: authorization, "x-ms-date": DATE };
        assertRefused(refused(dialect, "GET /devstoreaccount1/x", { headers }), {
          code: "InvalidAuthenticationInfo",
          status: 400,
          message:
            "Authentication information is not given in the correct format. Check the value of Authorization header.",
        });
      }
    });
  }

  it("is refused when it does not name the account in the address", () => {
    const text = `${DATE}\n/devstoreaccount1/devstoreaccount1/Tables`;
    for (const name of ["other", "", "devstoreaccount1-secondary", "DevStoreAccount1"]) {
      const headers = { Authorization: `SharedKeyLite ${name}:${sign(text)}`, "x-ms-date": DATE };
      const error = refused(tableAuth, "GET /devstoreaccount1/Tables", { headers });
      assertRefused(error, {
        code: "AuthenticationFailed",
        status: 403,
        message: AUTHENTICATION_FAILED,
      });
    }
  });

  it("may spell its scheme in any case", () => {
    const text = `${DATE}\n/devstoreaccount1/devstoreaccount1/Tables`;
    const headers = {
      authorization: `sharedkeylite devstoreaccount1:${sign(text)}`,
      "x-ms-date": DATE,
    };
    assertAccepted("GET /devstoreaccount1/Tables", { headers });
  });

  it("takes precedence over a SAS in the query", () => {
    const headers = { Authorization: `SharedKeyLite devstoreaccount1:${WRONG}`, "x-ms-date": DATE };
    const text = "devstoreaccount1\nr\nt\ns\n\n2022-01-01\n\n\n2019-02-02\n";
    const query = `sv=2019-02-02&ss=t&srt=s&sp=r&se=2022-01-01&sig=${encodeURIComponent(sign(text))}`;
    const line = `GET /devstoreaccount1/?${query}`;
    assert.ok(authenticate(sketchRequest(line), tableAuth, contextAt(NOW)));
    assert.equal(refused(tableAuth, line, { headers }).code, "AuthenticationFailed");
  });

  it("may be signed with either of the account's keys", () => {
    const account = { name: "two", keys: [Buffer.from("first"), Buffer.from("second")] };
    for (const key of [0, 1]) {
      const signature = sign(`${DATE}\n/two/two/Tables`, account, key);
      const headers = { Authorization: `SharedKeyLite two:${signature}`, "x-ms-date": DATE };
      assertAccepted("GET /two/Tables", { headers, account });
    }
  });
});

describe("the date of a signed request", () => {
  it("is x-ms-date if it was sent, otherwise Date", () => {
    const text = `${DATE}\n/devstoreaccount1/devstoreaccount1/Tables`;
    const Authorization = `SharedKeyLite devstoreaccount1:${sign(text)}`;
    const other = "Wed, 06 Jan 2021 01:01:31 GMT";
    assertAccepted("GET /devstoreaccount1/Tables", {
      headers: { Authorization, "x-ms-date": DATE, Date: other },
    });
    assertAccepted("GET /devstoreaccount1/Tables", { headers: { Authorization, Date: DATE } });
  });

  const cases: [string, headers: Record<string, string>, detail: string][] = [
    ["missing", {}, "Neither an x-ms-date nor a Date header was sent"],
    ["not a date", { "x-ms-date": "now" }, "Request date header is not a date: 'now'"],
    [
      "too old",
      { "x-ms-date": "Wed, 06 Jan 2021 00:46:29 GMT" },
      "Request date header too old: 'Wed, 06 Jan 2021 00:46:29 GMT'",
    ],
    [
      "too far ahead",
      { Date: "Wed, 06 Jan 2021 01:16:31 GMT" },
      "Request date header too far ahead: 'Wed, 06 Jan 2021 01:16:31 GMT'",
    ],
  ];
  for (const [title, dates, detail] of cases) {
    it(`is refused when it is ${title}, with a detail for queues and blobs only`, () => {
      const headers = { Authorization: `SharedKey devstoreaccount1:${WRONG}`, ...dates };
      for (const dialect of [queueAuth, blobAuth]) {
        assertRefused(refused(dialect, "GET /devstoreaccount1/x", { headers }), {
          code: "AuthenticationFailed",
          status: 403,
          message: AUTHENTICATION_FAILED,
          details: [["AuthenticationErrorDetail", detail]],
        });
      }
      assertRefused(refused(tableAuth, "GET /devstoreaccount1/x", { headers }), {
        code: "AuthenticationFailed",
        status: 403,
        message: AUTHENTICATION_FAILED,
      });
    });
  }

  it("is required even when dates are not checked", () => {
    const headers = {
      Authorization: `SharedKeyLite devstoreaccount1:${sign("\n/devstoreaccount1/x")}`,
    };
    const head = sketchRequest("GET /x", { headers });
    const context = contextAt(NOW, { checkDate: false });
    assert.equal(
      refusalOf(() => authenticate(head, tableAuth, context)).code,
      "AuthenticationFailed",
    );
  });
});

describe("a request with a wrong signature", () => {
  it("is refused by queues and blobs with the string that the server signed", () => {
    const headers = {
      Authorization: `SharedKey devstoreaccount1:${WRONG}`,
      "x-ms-date": DATE,
      "x-ms-version": "2026-04-06",
    };
    const signed = `GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:${DATE}\nx-ms-version:2026-04-06\n/devstoreaccount1/devstoreaccount1/\ncomp:list`;
    for (const dialect of [queueAuth, blobAuth]) {
      assert.deepEqual(refused(dialect, "GET /devstoreaccount1/?comp=list", { headers }).details, [
        [
          "AuthenticationErrorDetail",
          `The MAC signature found in the HTTP request '${WRONG}' is not the same as any computed signature. Server used following string to sign: '${signed}'.`,
        ],
      ]);
    }
  });

  it("is refused by tables without details", () => {
    const headers = { Authorization: `SharedKey devstoreaccount1:${WRONG}`, "x-ms-date": DATE };
    assert.deepEqual(refused(tableAuth, "GET /devstoreaccount1/Tables", { headers }).details, []);
  });
});

describe("the secondary endpoint", () => {
  const line = "GET /devstoreaccount1-secondary/People";
  const headersOver = (path: string) => ({
    Authorization: `SharedKeyLite devstoreaccount1:${sign(`${DATE}\n/devstoreaccount1${path}`)}`,
    "x-ms-date": DATE,
  });

  it("accepts a signature over the path with -secondary or without it", () => {
    for (const path of ["/devstoreaccount1-secondary/People", "/devstoreaccount1/People"]) {
      assertAccepted(line, { headers: headersOver(path), secondary: true });
    }
  });

  it("is the only endpoint to accept both", () => {
    const headers = headersOver("/devstoreaccount1/People");
    assert.equal(refused(tableAuth, line, { headers }).code, "AuthenticationFailed");
  });
});

describe("a disabled account", () => {
  it("is refused with AccountIsDisabled, with and without credentials", () => {
    const account = { name: "devstoreaccount1", keys: [], disabled: true };
    for (const headers of [{}, { Authorization: `SharedKeyLite devstoreaccount1:${WRONG}` }]) {
      assertRefused(refused(tableAuth, "GET /devstoreaccount1/Tables", { account, headers }), {
        code: "AccountIsDisabled",
        status: 403,
        message: "The specified account is disabled.",
      });
    }
  });
});

describe("a signed header sent twice", () => {
  for (const name of ["x-ms-date", "X-Ms-Meta-A", "Content-Type", "If-Match", "Date"]) {
    it(`is refused by queues and blobs: ${name}`, () => {
      const headers = {
        Authorization: `SharedKey devstoreaccount1:${WRONG}`,
        Date: DATE,
        [name]: name === "Date" ? [DATE, DATE] : [DATE, "second"],
      };
      const context = contextAt(NOW, { checkDate: false });
      for (const scheme of ["SharedKey", "SharedKeyLite"]) {
        headers.Authorization = `${scheme} devstoreaccount1:${WRONG}`;
        const head = sketchRequest("GET /devstoreaccount1/x", { headers });
        for (const dialect of [queueAuth, blobAuth]) {
          const error = refusalOf(() => authenticate(head, dialect, context));
          assert.equal(error.code, "InvalidHeaderValue");
          assert.deepEqual(error.details[0], ["HeaderName", name.toLowerCase()]);
          const once = sketchRequest("GET /devstoreaccount1/x", {
            headers: { ...headers, [name]: DATE },
          });
          const { code } = refusalOf(() => authenticate(once, dialect, context));
          assert.equal(code, "AuthenticationFailed");
        }
      }
    });
  }
});

describe("a bearer token", () => {
  const contributor = { kind: "bearer", role: "contributor", subject: "ann" } as const;
  const bearer: BearerVerifier = {
    challenge: "Bearer authorization_uri=https://login.test resource_id=https://data.test",
    allowHttp: false,
    verify: async (token) => (token === "good" ? contributor : undefined),
  };
  const context = contextAt(NOW, { bearer });
  const over = (version: string, token = "good") => ({
    headers: { Authorization: `Bearer ${token}`, "x-ms-version": version },
    secure: true,
  });
  const line = "GET /devstoreaccount1/Tables";

  it("identifies the caller and the caller's role", async () => {
    const head = sketchRequest(line, over("2017-11-09"));
    assert.deepEqual(await authenticate(head, tableAuth, context), contributor);
  });

  it("is refused before version 2017-11-09 and without a version", () => {
    const { "x-ms-version": _, ...headers } = over("").headers;
    for (const sketch of [over("2017-07-29"), { headers, secure: true }]) {
      const error = refusalOf(() => authenticate(sketchRequest(line, sketch), tableAuth, context));
      assert.deepEqual([error.code, error.status], ["AuthenticationFailed", 403]);
    }
  });

  it("is accepted over HTTP only with allowHttp", async () => {
    const head = sketchRequest(line, { ...over("2019-02-02"), secure: false });
    const error = refusalOf(() => authenticate(head, tableAuth, context));
    assert.equal(error.code, "AuthenticationFailed");
    const lenient = { ...context, bearer: { ...bearer, allowHttp: true } };
    assert.deepEqual(await authenticate(head, tableAuth, lenient), contributor);
  });

  it("is refused with a challenge when it is not valid", async () => {
    const head = sketchRequest(line, over("2019-02-02", "bad"));
    await assert.rejects(async () => authenticate(head, tableAuth, context), {
      code: "InvalidAuthenticationInfo",
      status: 401,
      message: CHALLENGED,
      stage: "authentication",
      headers: [["WWW-Authenticate", bearer.challenge]],
    });
  });

  it("is refused with a challenge when no issuer is configured", () => {
    const error = refused(tableAuth, line, over("2019-02-02"));
    assert.deepEqual([error.code, error.status], ["InvalidAuthenticationInfo", 401]);
  });

  it("is not accepted by queues and blobs, which challenge for SharedKey", () => {
    for (const dialect of [queueAuth, blobAuth]) {
      const head = sketchRequest(line, over("2026-04-06"));
      assertRefused(
        refusalOf(() => authenticate(head, dialect, context)),
        {
          code: "InvalidAuthenticationInfo",
          status: 401,
          message: CHALLENGED,
          headers: [["WWW-Authenticate", "SharedKey"]],
        },
      );
    }
  });
});

describe("a malformed escape in the query", () => {
  for (const scheme of ["SharedKey", "SharedKeyLite"]) {
    it(`is refused before the signature is checked, under ${scheme}`, () => {
      const headers = { Authorization: `${scheme} devstoreaccount1:${WRONG}`, "x-ms-date": DATE };
      for (const dialect of [tableAuth, queueAuth, blobAuth]) {
        const { code, status } = refused(dialect, "GET /devstoreaccount1/x?a=%E0%A4%A", {
          headers,
        });
        assert.deepEqual([code, status], ["RequestUrlFailedToParse", 400]);
      }
    });
  }
});

function refused(dialect: AuthDialect, line: string, sketch: RequestSketch = {}): ServiceError {
  return refusalOf(() => authenticate(sketchRequest(line, sketch), dialect, contextAt(NOW)));
}

function assertAccepted(line: string, sketch: RequestSketch): void {
  const identity = authenticate(sketchRequest(line, sketch), tableAuth, contextAt(NOW));
  assert.deepEqual(identity, { kind: "shared-key" });
}

type Facts = Pick<ServiceError, "code" | "status" | "message"> &
  Partial<Pick<ServiceError, "headers" | "details">>;

function assertRefused(error: ServiceError, expected: Facts): void {
  const { code, status, message, details, headers, stage } = error;
  assert.deepEqual(
    { code, status, message, details, headers, stage },
    { details: [], headers: [], ...expected, stage: "authentication" },
  );
}
