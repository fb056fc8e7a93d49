import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import { accountSasString, parseSas } from "@rowhouse/protocol/sas";
import type { Awaitable } from "../awaitable.ts";
import type { Identity } from "../wire/identity.ts";
import { DEVELOPMENT_ACCOUNT } from "./accounts.ts";
import type { PolicyAddress } from "./auth-context.ts";
import { type AuthDialect, blobAuth, queueAuth, tableAuth } from "./dialect.ts";
import {
  authenticate,
  contextAt,
  type RequestSketch,
  refusalOf,
  sign,
  sketchRequest,
  type TestContext,
} from "./test-request.ts";

const NOW = "2021-01-06T12:00:00Z";
const LATER = "2021-01-07";
const AUTHENTICATION_FAILED =
  "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.";

type Fields = Readonly<Record<string, string>>;

describe("an account SAS", () => {
  const fields = { sv: "2019-02-02", ss: "tq", srt: "so", sp: "rl", se: LATER };

  it("grants the services, resource types and permissions it lists", () => {
    assert.deepEqual(accept(tableAuth, fields), {
      kind: "account-sas",
      services: "tq",
      resourceTypes: "so",
      permissions: "rl",
    });
  });

  for (const name of ["sv", "sp", "se"]) {
    it(`is refused when ${name} is absent or empty`, () => {
      const rest = without(fields, name);
      assert.equal(detailOf(rest), `${name} is mandatory. Cannot be empty`);
      assert.equal(detailOf({ ...rest, [name]: "" }), `${name} is mandatory. Cannot be empty`);
    });
  }

  it("is refused with a version that is malformed or older than 2015-04-05", () => {
    assert.ok(accept(tableAuth, { ...fields, sv: "2015-04-05" }));
    for (const sv of ["2015-02-21", "2019-2-2", "2019-02-30", "latest", "20190202"]) {
      assert.match(detailOf({ ...fields, sv }), /^sv must be a version from 2015-04-05 on$/);
    }
  });

  it("may have an encryption scope from version 2020-12-06 on, which blobs answer with NotImplemented", () => {
    const scoped = { ...fields, sv: "2020-12-06", ses: "scope", ss: "bqt" };
    assert.ok(accept(tableAuth, scoped));
    assert.ok(accept(queueAuth, scoped));
    assert.equal(refusalOf(() => accept(blobAuth, scoped)).code, "NotImplemented");
  });
});

describe("the validity period of a SAS", () => {
  const fields = { sv: "2019-02-02", ss: "q", srt: "s", sp: "r" };
  const frame = { ...fields, st: "2021-01-06T11:00:00Z", se: "2021-01-06T13:00Z" };

  it("includes its start and excludes its expiry", () => {
    for (const now of ["2021-01-06T11:00:00Z", "2021-01-06T12:59:59.999Z"]) {
      assert.ok(accept(queueAuth, frame, {}, contextAt(now)));
    }
    for (const now of ["2021-01-06T10:59:59.999Z", "2021-01-06T13:00:00Z"]) {
      assert.throws(() => accept(queueAuth, frame, {}, contextAt(now)));
    }
  });

  it("is checked again on every use of a SAS", () => {
    const line = lineOf(frame, accountSasText(frame));
    const at = (now: string) => authenticate(sketchRequest(line), queueAuth, contextAt(now));
    assert.ok(at(NOW));
    assert.equal(refusalOf(() => at("2021-01-06T13:00:00Z")).code, "AuthenticationFailed");
    assert.ok(at(NOW));
  });

  it("is shown to a queue client outside it", () => {
    assert.equal(
      detailOf(frame, contextAt("2021-01-06T13:00:01Z")),
      "Signature not valid in the specified time frame: Start [Wed, 06 Jan 2021 11:00:00 GMT] - Expiry [Wed, 06 Jan 2021 13:00:00 GMT] - Current [Wed, 06 Jan 2021 13:00:01 GMT]",
    );
    assert.equal(
      detailOf({ ...fields, se: "2021-01-06" }),
      "Signed expiry time [Wed, 06 Jan 2021 00:00:00 GMT] must be after signed start time [Wed, 06 Jan 2021 12:00:00 GMT]",
    );
  });

  for (const time of [
    "tomorrow",
    "2021-02-30",
    "2021-01-07T25:00Z",
    "2021-01-07T00:00:00",
    "2021-01-07 00:00Z",
    "1609977600",
  ]) {
    it(`is refused when one of its ends is ${time}`, () => {
      assert.match(detailOf({ ...fields, se: time }), /^se is not a time/);
      assert.match(detailOf({ ...fields, se: LATER, st: time }), /^st is not a time/);
    });
  }
});

describe("the IP range and protocols of a SAS", () => {
  const fields = { sv: "2019-02-02", ss: "q", srt: "s", sp: "r", se: LATER };

  it("let through exactly the addresses in the range", () => {
    const from = (remoteAddress: string, sip: string) => () =>
      accept(queueAuth, { ...fields, sip }, { remoteAddress });
    for (const address of ["10.0.0.1", "10.0.0.9", "10.0.0.5", "::ffff:10.0.0.5"]) {
      assert.ok(from(address, "10.0.0.1-10.0.0.9")());
    }
    assert.ok(from("10.0.0.1", "10.0.0.1")());
    for (const [address, sip] of [
      ["10.0.0.0", "10.0.0.1-10.0.0.9"],
      ["10.0.0.10", "10.0.0.1-10.0.0.9"],
      ["10.0.0.2", "10.0.0.1"],
      ["::1", "127.0.0.1"],
      ["9.255.255.255", "10.0.0.0"],
    ] as const) {
      const error = refusalOf(from(address, sip));
      assert.equal(error.code, "AuthorizationSourceIPMismatch");
      assert.equal(error.status, 403);
      assert.equal(error.stage, undefined);
      assert.equal(
        error.message,
        `This request is not authorized to perform this operation using this source IP ${address}.`,
      );
    }
  });

  for (const sip of [
    "localhost",
    "10.0.0.256",
    "10.0.0",
    "10.0.0.9-10.0.0.1",
    "10.0.0.1-",
    "1-2-3",
  ]) {
    it(`are refused when sip is ${sip}`, () => {
      assert.match(detailOf({ ...fields, sip }), /^sip must be/);
    });
  }

  it("let through exactly the protocols listed", () => {
    const over = (secure: boolean, spr: string) => () =>
      accept(queueAuth, { ...fields, spr }, { secure });
    for (const spr of ["https", "https,http", "http,https"]) assert.ok(over(true, spr)());
    assert.ok(over(false, "https,http")());
    const error = refusalOf(over(false, "https"));
    assert.equal(error.code, "AuthorizationProtocolMismatch");
    assert.equal(error.status, 403);
    assert.equal(error.stage, undefined);
    for (const spr of ["http", "ftp", "https,", "HTTPS"]) {
      assert.equal(refusalOf(over(true, spr)).code, "AuthenticationFailed");
    }
  });

  it("are ignored before version 2015-04-05, which does not sign them", () => {
    const old = { sv: "2014-02-14", sp: "r", se: LATER, tn: "people" };
    const text = `r\n\n${LATER}\n/devstoreaccount1/people\n\n2014-02-14\n\n\n\n`;
    const line = lineOf({ ...old, sip: "1.1.1.1", spr: "https" }, text);
    assert.ok(authenticate(sketchRequest(line), tableAuth, contextAt(NOW)));
  });

  it("are enforced from version 2015-04-05 on", () => {
    const first = { ...fields, sv: "2015-04-05" };
    const from = (more: Fields) => () =>
      accept(queueAuth, { ...first, ...more }, { remoteAddress: "10.0.0.2", secure: false });
    assert.equal(refusalOf(from({ sip: "10.0.0.1" })).code, "AuthorizationSourceIPMismatch");
    assert.equal(refusalOf(from({ spr: "https" })).code, "AuthorizationProtocolMismatch");
  });
});

describe("a stored access policy", () => {
  const text = (fields: Fields) =>
    [
      fields.sp,
      fields.st,
      fields.se,
      "/queue/devstoreaccount1/orders",
      "id",
      "",
      "",
      "2019-02-02",
    ].join("\n");
  const ask = (fields: Fields, policy: Awaitable<AccessPolicy | undefined>) => {
    const line = lineOf({ sv: "2019-02-02", si: "id", ...fields }, text(fields));
    const head = sketchRequest(line, { location: { resource: "queue", name: "orders" } });
    return authenticate(head, queueAuth, contextAt(NOW, { storedPolicy: () => policy }));
  };
  const whole = {
    id: "id",
    start: "2021-01-06",
    expiry: "2021-01-07T00:00:00.0000000Z",
    permission: "ra",
  };
  const granted = {
    kind: "service-sas",
    permissions: "ra",
    table: undefined,
    keyRange: undefined,
    responseHeaders: [],
  };

  it("supplies the fields that the SAS leaves out", () => {
    assert.deepEqual(ask({}, whole), granted);
    assert.deepEqual(ask({ sp: "ra" }, { id: "id", expiry: LATER }), granted);
    assert.deepEqual(ask({ se: LATER }, { id: "id", permission: "ra" }), granted);
    assert.deepEqual(ask({ sp: "ra", se: LATER }, { id: "id" }), granted);
  });

  it("may be loaded asynchronously", async () => {
    assert.deepEqual(await ask({}, Promise.resolve(whole)), granted);
    await assert.rejects(async () => ask({}, Promise.resolve(undefined)), {
      code: "AuthenticationFailed",
      stage: "authentication",
    });
  });

  const refusals: [string, Fields, AccessPolicy | undefined, RegExp][] = [
    ["must exist", {}, undefined, /does not exist/],
    [
      "cannot be combined with a SAS that also has its permissions",
      { sp: "r" },
      whole,
      /but not both$/,
    ],
    [
      "cannot be combined with a SAS that also has its expiry",
      { se: LATER },
      whole,
      /but not both$/,
    ],
    [
      "cannot be combined with a SAS that also has its start",
      { st: "2021-01-01" },
      whole,
      /but not both$/,
    ],
    ["without an expiry requires one in the SAS", { sp: "r" }, { id: "id" }, /^se is mandatory/],
    [
      "without permissions requires them in the SAS",
      { se: LATER },
      { id: "id" },
      /^sp is mandatory/,
    ],
    [
      "refuses the SAS after the policy has expired",
      {},
      { ...whole, expiry: "2021-01-06" },
      /specified time frame/,
    ],
    [
      "refuses the SAS before the policy starts",
      {},
      { ...whole, start: "2021-01-06T12:00:01Z" },
      /specified time frame/,
    ],
  ];
  for (const [title, fields, policy, detail] of refusals) {
    it(title, () => {
      const error = refusalOf(() => ask(fields, policy));
      assert.equal(error.code, "AuthenticationFailed");
      assert.match(error.details[0]![1], detail);
    });
  }

  it("is not loaded when the signature is wrong", () => {
    const head = sketchRequest(lineOf({ sv: "2019-02-02", si: "id" }, "another text"));
    const storedPolicy = () => assert.fail("The policy was read.");
    assert.ok(refusalOf(() => authenticate(head, queueAuth, contextAt(NOW, { storedPolicy }))));
  });

  it("is loaded again for every request", () => {
    assert.deepEqual(ask({}, whole), granted);
    assert.throws(() => ask({}, undefined));
  });

  it("is looked up by the table named in the SAS, since a batch's path names none", () => {
    const line = lineOf(
      { sv: "2019-02-02", si: "id", tn: "People" },
      "\n\n\n/table/devstoreaccount1/people\nid\n\n\n2019-02-02\n\n\n\n",
    );
    const asked: PolicyAddress[] = [];
    const storedPolicy = (address: PolicyAddress) => {
      asked.push(address);
      return whole;
    };
    assert.ok(authenticate(sketchRequest(line), tableAuth, contextAt(NOW, { storedPolicy })));
    assert.deepEqual(asked, [{ account: DEVELOPMENT_ACCOUNT, name: "people", id: "id" }]);
  });
});

describe("a table SAS", () => {
  const accepted = (range: Fields) => {
    const { spk = "", srk = "", epk = "", erk = "" } = range;
    const text = `r\n\n${LATER}\n/table/devstoreaccount1/people\n\n\n\n2019-02-02\n${spk}\n${srk}\n${epk}\n${erk}`;
    const line = lineOf({ sv: "2019-02-02", sp: "r", se: LATER, tn: "People", ...range }, text);
    const identity = authenticate(sketchRequest(line), tableAuth, contextAt(NOW));
    assert.ok(!(identity instanceof Promise) && identity.kind === "service-sas");
    return identity;
  };

  it("identifies its table by the name in lower case", () => {
    assert.equal(accepted({}).table, "people");
  });

  it("grants the key range in spk, srk, epk and erk", () => {
    assert.deepEqual(accepted({ spk: "a", srk: "1", epk: "b", erk: "9" }).keyRange, {
      startPartitionKey: "a",
      startRowKey: "1",
      endPartitionKey: "b",
      endRowKey: "9",
    });
    assert.equal(accepted({}).keyRange, undefined);
  });

  it("is unbounded where a key is empty, since its signature is the same without that key", () => {
    assert.equal(accepted({ spk: "", epk: "" }).keyRange, undefined);
    assert.equal(accepted({ spk: "a", srk: "" }).keyRange?.startRowKey, undefined);
  });

  it("needs a partition key, possibly empty, wherever it has a row key", () => {
    assert.equal(accepted({ spk: "", srk: "1" }).keyRange?.startPartitionKey, "");
    assert.equal(accepted({ epk: "", erk: "1" }).keyRange?.endPartitionKey, "");
    for (const range of [{ srk: "1" }, { erk: "1" }] as Fields[]) {
      assert.equal(refusalOf(() => accepted(range)).code, "AuthenticationFailed");
    }
  });

  it("needs tn", () => {
    const text = `r\n\n${LATER}\n/table/devstoreaccount1/\n\n\n\n2019-02-02\n\n\n\n`;
    const line = lineOf({ sv: "2019-02-02", sp: "r", se: LATER }, text);
    assert.ok(refusalOf(() => authenticate(sketchRequest(line), tableAuth, contextAt(NOW))));
  });

  it("is refused without details", () => {
    const line = lineOf({ sv: "2019-02-02", sp: "r", se: "2021-01-06", tn: "t" }, "wrong");
    const error = refusalOf(() => authenticate(sketchRequest(line), tableAuth, contextAt(NOW)));
    assert.deepEqual(
      [error.code, error.message, error.details],
      ["AuthenticationFailed", AUTHENTICATION_FAILED, []],
    );
  });
});

describe("a queue SAS", () => {
  it("with a wrong signature is refused with the string that the server signed", () => {
    const line = lineOf({ sv: "2019-02-02", sp: "r", se: LATER }, "wrong");
    const head = sketchRequest(line, { location: { resource: "queue", name: "orders" } });
    assert.deepEqual(
      refusalOf(() => authenticate(head, queueAuth, contextAt(NOW))).details[0]![1],
      `Signature did not match. String to sign used was r\n\n${LATER}\n/queue/devstoreaccount1/orders\n\n\n\n2019-02-02`,
    );
  });

  it("is accepted for its own queue only", () => {
    const text = `r\n\n${LATER}\n/queue/devstoreaccount1/orders\n\n\n\n2019-02-02`;
    const line = lineOf({ sv: "2019-02-02", sp: "r", se: LATER }, text);
    const at = (name: string) =>
      authenticate(
        sketchRequest(line, { location: { resource: "queue", name } }),
        queueAuth,
        contextAt(NOW),
      );
    assert.ok(at("orders"));
    assert.equal(refusalOf(() => at("others")).code, "AuthenticationFailed");
  });
});

describe("a blob SAS", () => {
  const ask = (fields: Fields, location: RequestSketch["location"], resource: string) => {
    const { sr = "", ses, rscc = "", rsce = "" } = fields;
    const sv = ses === undefined ? "2019-12-12" : "2020-12-06";
    const scope = ses === undefined ? "" : `${ses}\n`;
    const text = `r\n\n${LATER}\n/blob/devstoreaccount1/${resource}\n\n\n\n${sv}\n${sr}\n\n${scope}${rscc}\n\n${rsce}\n\n`;
    const line = lineOf({ sv, sp: "r", se: LATER, ...fields }, text);
    return authenticate(sketchRequest(line, location && { location }), blobAuth, contextAt(NOW));
  };
  const blob = { resource: "blob", name: "docs", item: "a/b c" };
  const container = { resource: "container", name: "docs" };

  it("for a blob grants that blob alone, and overrides the response headers it names", () => {
    const granted = ask({ sr: "b", rscc: "no-cache", rsce: "gzip" }, blob, "docs/a/b c");
    assert.deepEqual(granted, {
      kind: "service-sas",
      permissions: "r",
      table: undefined,
      keyRange: undefined,
      responseHeaders: ["Cache-Control", "no-cache", "Content-Encoding", "gzip"],
    });
    assert.throws(() => ask({ sr: "b" }, { ...blob, item: "a" }, "docs/a/b c"));
    assert.throws(() => ask({ sr: "b" }, container, "docs"));
    assert.throws(() => ask({ sr: "b" }, container, "docs/undefined"));
  });

  it("for a container grants the container and its blobs, and no other container", () => {
    assert.ok(ask({ sr: "c" }, blob, "docs"));
    assert.ok(ask({ sr: "c" }, container, "docs"));
    assert.throws(() => ask({ sr: "c" }, { ...container, name: "other" }, "docs"));
  });

  for (const sr of ["", "bs", "bv", "d", "B"]) {
    it(`is refused with the resource "${sr}"`, () => {
      const error = refusalOf(() => ask({ sr }, blob, "docs/a/b c"));
      assert.deepEqual(
        [error.code, error.details[0]![1]],
        ["AuthenticationFailed", "sr must be b or c"],
      );
    });
  }

  it("with an encryption scope is answered with NotImplemented", () => {
    assert.equal(
      refusalOf(() => ask({ sr: "b", ses: "x" }, blob, "docs/a/b c")).code,
      "NotImplemented",
    );
  });
});

describe("a SAS that is neither a whole account SAS nor a service SAS", () => {
  for (const name of ["skoid", "sktid", "ske"]) {
    it(`is refused with ${name}, which only a user delegation SAS has`, () => {
      const line = lineOf({ sv: "2020-12-06", sp: "r", se: LATER, [name]: "x" }, "any");
      const error = refusalOf(() => authenticate(sketchRequest(line), blobAuth, contextAt(NOW)));
      assert.deepEqual([error.code, error.status], ["AuthenticationFailed", 403]);
    });
  }

  it("is read as a service SAS when it has ss but not srt", () => {
    assert.equal(
      refusalOf(() => accept(blobAuth, { sv: "2019-02-02", sp: "r", se: LATER, ss: "b" }))
        .details[0]![1],
      "sr must be b or c",
    );
  });
});

describe("the query string that carries a SAS", () => {
  it("is refused when it contains a malformed escape", () => {
    const head = sketchRequest("GET /devstoreaccount1/x?sig=%E0%A4%A&sv=2019-02-02");
    const error = refusalOf(() => authenticate(head, tableAuth, contextAt(NOW)));
    assert.deepEqual([error.code, error.status], ["RequestUrlFailedToParse", 400]);
  });

  it("may contain other parameters, and the SAS's own in any order and case", () => {
    const fields = { sv: "2019-02-02", ss: "t", srt: "s", sp: "r", se: LATER };
    const signature = encodeURIComponent(sign(accountSasText(fields)));
    const line = `GET /devstoreaccount1/?SIG=${signature}&$top=1&Se=${LATER}&sp=r&comp=x&srt=s&ss=t&sv=2019-02-02`;
    assert.ok(authenticate(sketchRequest(line), tableAuth, contextAt(NOW)));
  });

  it("is refused when it has a parameter of the SAS twice, in any case and even if one is empty", () => {
    const fields = { sv: "2019-02-02", ss: "t", srt: "s", sp: "r", se: LATER };
    const line = lineOf(fields, accountSasText(fields));
    const refuses = (twice: string, detail: string) => {
      const error = refusalOf(() => authenticate(sketchRequest(twice), queueAuth, contextAt(NOW)));
      assert.deepEqual(error.details, [["AuthenticationErrorDetail", detail]]);
    };
    refuses(`${line}&sp=r`, "sp is given more than once");
    refuses(`${line}&SE=`, "se is given more than once");
    refuses(line.replace("?", "?sig=x&"), "sig is given more than once");
    assert.ok(authenticate(sketchRequest(`${line}&comp=x&comp=y`), tableAuth, contextAt(NOW)));
  });
});

/** The request line with these parameters and the signature of this text. */
function lineOf(fields: Fields, text: string): string {
  const pairs = Object.entries({ ...fields, sig: sign(text) });
  const query = pairs.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  return `GET /devstoreaccount1/x?${query}`;
}

function accountSasText(fields: Fields): string {
  return accountSasString(DEVELOPMENT_ACCOUNT.name, parseSas(Object.entries(fields)));
}

/** Authenticates a correctly signed account SAS with these parameters. */
function accept(
  dialect: AuthDialect,
  fields: Fields,
  sketch: RequestSketch = {},
  context: TestContext = contextAt(NOW),
): Awaitable<Identity> {
  const line = lineOf(fields, accountSasText(fields));
  return authenticate(sketchRequest(line, sketch), dialect, context);
}

/** The detail of the error with which a queue refuses an account SAS. */
function detailOf(fields: Fields, context = contextAt(NOW)): string {
  const error = refusalOf(() => accept(queueAuth, fields, {}, context));
  assert.deepEqual(
    [error.code, error.status, error.stage],
    ["AuthenticationFailed", 403, "authentication"],
  );
  assert.equal(error.message, AUTHENTICATION_FAILED);
  return error.details[0]![1];
}

function without(fields: Fields, name: string): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([other]) => other !== name));
}
