import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { ERRORS, type ErrorCode } from "@rowhouse/protocol/errors";
import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import type { EngineErrorCode } from "@rowhouse/server/engine/engine";
import { FaultyEngine } from "../support/faulty-engine.ts";
import type { HttpAnswer } from "./http-answer.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { readRefusal } from "./refusals.ts";
import { readBatch, sendChangeset } from "./table-batch.ts";
import { accountSas, tableSas } from "./table-sas.ts";
import { TableWire } from "./table-wire.ts";

/** The environment of a case: a server over an engine that fails on demand, and a table with entity (p, r). */
interface Lab {
  readonly server: LocalServer;
  readonly wire: TableWire;
  readonly target: { url: string; account: string; key: string };
  /** A disabled account of the same server. */
  readonly disabled: TableWire;
  readonly engine: FaultyEngine;
}

/** For each code, a request that is refused with it. */
const CASES: Partial<Record<ErrorCode, (lab: Lab) => Promise<HttpAnswer | string>>> = {
  AccountIsDisabled: ({ disabled }) => disabled.send("GET", "/Tables"),
  AtomFormatNotSupported: ({ wire }) =>
    wire.send("GET", "/People", { headers: { Accept: "application/atom+xml" } }),
  AuthenticationFailed: ({ wire }) =>
    wire.send("GET", "/People", { as: { kind: "shared-key", key: "AAAA" } }),
  AuthorizationFailure: ({ wire, target }) =>
    wire.send("POST", "/People", {
      as: { kind: "sas", token: tableSas(target, "People", { spk: "a", epk: "b" }) },
      body: { PartitionKey: "z", RowKey: "1" },
    }),
  AuthorizationPermissionMismatch: (lab) => asAccountSas(lab, { sp: "w" }),
  AuthorizationProtocolMismatch: (lab) => asAccountSas(lab, { spr: "https" }),
  AuthorizationResourceTypeMismatch: (lab) => asAccountSas(lab, { srt: "s" }),
  AuthorizationServiceMismatch: (lab) => asAccountSas(lab, { ss: "b" }),
  AuthorizationSourceIPMismatch: (lab) => asAccountSas(lab, { sip: "10.0.0.1-10.0.0.9" }),
  CommandsInBatchActOnDifferentPartitions: async ({ wire }) =>
    onlyCode(await sendChangeset(wire, [insertion("q", "1"), insertion("other", "1")])),
  CorsPreflightFailure: ({ wire }) =>
    wire.send("OPTIONS", "/People", {
      as: { kind: "none" },
      headers: { Origin: "http://a", "Access-Control-Request-Method": "GET" },
    }),
  DuplicatePropertiesSpecified: (lab) =>
    insert(lab, '{"PartitionKey":"p","RowKey":"d","a":1,"a":2}'),
  EntityAlreadyExists: (lab) => insert(lab, { PartitionKey: "p", RowKey: "r" }),
  EntityTooLarge: (lab) => {
    const big = Array.from({ length: 20 }, (_, i) => [`b${i}`, "x".repeat(30_000)]);
    return insert(lab, { PartitionKey: "p", RowKey: "big", ...Object.fromEntries(big) });
  },
  HostInformationNotPresent: ({ wire }) => wire.send("GET", "/Tables", { headers: { Host: "" } }),
  InsufficientAccountPermissions: ({ server, target }) =>
    atSecondary(server, target, (wire) => wire.send("DELETE", "/Tables('People')")),
  InternalError: (lab) => failing(lab, "Bug"),
  InvalidAuthenticationInfo: ({ wire }) =>
    wire.send("GET", "/People", { headers: { Authorization: "Nonsense" } }),
  InvalidDuplicateRow: async ({ wire }) =>
    onlyCode(await sendChangeset(wire, [insertion("q", "1"), insertion("q", "1")])),
  InvalidHeaderValue: ({ wire }) =>
    wire.send("GET", "/People", { headers: { "x-ms-version": "yesterday" } }),
  InvalidHttpVerb: ({ wire }) => wire.send("PROPFIND", "/People"),
  InvalidInput: (lab) => insert(lab, "[]"),
  InvalidQueryParameterValue: ({ wire }) => wire.send("GET", "/People?timeout=soon"),
  InvalidResourceName: (lab) => create(lab, "1st"),
  InvalidUri: ({ wire }) => wire.send("GET", "/People/too/deep"),
  InvalidXmlDocument: ({ wire }) => setProperties(wire, "<StorageServiceProperties>"),
  InvalidXmlNodeValue: ({ wire }) => setProperties(wire, corsRule("FLY")),
  JsonFormatNotSupported: ({ wire }) =>
    wire.send("GET", "/People", { headers: { DataServiceVersion: "1.0" } }),
  JsonVerboseFormatNotSupported: ({ wire }) =>
    wire.send("GET", "/People", { headers: { Accept: "application/json;odata=verbose" } }),
  MediaTypeNotSupported: ({ wire }) =>
    wire.send("GET", "/People", { headers: { Accept: "text/plain" } }),
  MethodNotAllowed: ({ wire }) => wire.send("PUT", "/People", { body: {} }),
  MissingRequiredHeader: ({ wire }) => wire.send("DELETE", "/People(PartitionKey='p',RowKey='r')"),
  NotImplemented: ({ wire }) => wire.send("GET", "/People?$orderby=RowKey"),
  OperationTimedOut: (lab) => failing(lab, "Unknown"),
  OutOfRangeInput: (lab) => insert(lab, { PartitionKey: "a/b", RowKey: "r" }),
  PropertiesNeedValue: (lab) => insert(lab, { PartitionKey: "p" }),
  PropertyNameInvalid: (lab) => insert(lab, { PartitionKey: "p", RowKey: "n", "a-b": 1 }),
  PropertyNameTooLong: (lab) =>
    insert(lab, { PartitionKey: "p", RowKey: "n", ["n".repeat(256)]: 1 }),
  PropertyValueTooLarge: (lab) =>
    insert(lab, { PartitionKey: "p", RowKey: "v", v: "x".repeat(32_769) }),
  RequestBodyTooLarge: (lab) => insert(lab, Buffer.alloc(4 * 1024 * 1024 + 1, " ")),
  RequestUrlFailedToParse: ({ wire }) => wire.send("GET", "/People?$filter=%zz"),
  ResourceNotFound: ({ wire }) => wire.send("GET", "/People(PartitionKey='p',RowKey='none')"),
  ServerBusy: (lab) => failing(lab, "Unavailable"),
  StoredDataDamaged: (lab) => failing(lab, "Corrupt"),
  TableAlreadyExists: (lab) => create(lab, "people"),
  TableNotFound: ({ wire }) => wire.send("GET", "/Nobody"),
  TooManyProperties: (lab) => {
    const many = Array.from({ length: 253 }, (_, i) => [`p${i}`, i]);
    return insert(lab, { PartitionKey: "p", RowKey: "m", ...Object.fromEntries(many) });
  },
  UpdateConditionNotSatisfied: ({ wire }) =>
    wire.send("PUT", "/People(PartitionKey='p',RowKey='r')", {
      body: {},
      headers: { "If-Match": `W/"datetime'2012-06-15T22%3A51%3A44.9662825Z'"` },
    }),
  XMethodIncorrectCount: ({ wire }) =>
    wire.send("POST", "/People(PartitionKey='p',RowKey='r')", {
      headers: { "X-HTTP-Method": "MERGE", "x-http-method": "MERGE" },
      body: {},
    }),
  XMethodIncorrectValue: ({ wire }) =>
    wire.send("POST", "/People(PartitionKey='p',RowKey='r')", {
      headers: { "X-HTTP-Method": "JUMP" },
      body: {},
    }),
  XMethodNotUsingPost: ({ wire }) =>
    wire.send("GET", "/People(PartitionKey='p',RowKey='r')", {
      headers: { "X-HTTP-Method": "MERGE" },
    }),
};

/** Codes that the sources below use for other services. */
const OF_OTHERS: readonly ErrorCode[] = [
  "BlockListTooLong",
  "Crc64Mismatch",
  "NoAuthenticationInformation",
  "MissingRequiredXmlNode",
  "UnsupportedXmlNode",
];

/** The sources from which the Table service takes its codes. */
const SOURCES =
  /^(protocol\/src\/(?!errors)|server\/src\/(table|auth|xml)\/|server\/src\/http\/(error-response|address|front|version|cors)\.ts$)/;

describe("Every error code of the Table service", () => {
  let lab: Lab;

  before(async () => {
    const engine = new FaultyEngine();
    const key = Buffer.from(DEVELOPMENT_ACCOUNT.keys[0]!).toString("base64");
    const off = { name: "switchedoff", keys: DEVELOPMENT_ACCOUNT.keys, disabled: true };
    const server = await startLocalServer({
      engine,
      accounts: new Accounts([DEVELOPMENT_ACCOUNT, off]),
    });
    const target = { url: `${server.url}/devstoreaccount1`, account: "devstoreaccount1", key };
    lab = {
      server,
      target,
      wire: new TableWire(target),
      disabled: new TableWire({ url: `${server.url}/${off.name}`, account: off.name, key }),
      engine,
    };
    await create(lab, "People");
    await insert(lab, { PartitionKey: "p", RowKey: "r" });
  });

  after(async () => {
    lab.wire.close();
    lab.disabled.close();
    await lab.server.close();
  });

  for (const [code, request] of Object.entries(CASES)) {
    it(`${code} is returned to a request of this list`, async () => {
      const answer = await request(lab);
      if (typeof answer === "string") return assert.equal(answer, code);
      const refusal = readRefusal(answer);
      assert.equal(refusal.code, code);
      assert.equal(answer.header("x-ms-error-code"), code);
      assert.equal(answer.status, ERRORS[code as ErrorCode][0]);
    });
  }

  it("InvalidHttpVerb cannot be reached by verbs that the parser of node:http refuses", async () => {
    const { status, headers, body } = await lab.wire.send("BREW", "/People");
    assert.equal(status, 400);
    assert.deepEqual(headers, [["Connection", "close"]]);
    assert.equal(body.length, 0);
  });

  it("is in this list", () => {
    const missing = namedCodes().filter((code) => !CASES[code] && !OF_OTHERS.includes(code));
    assert.deepEqual(missing, []);
  });
});

/** The codes that appear as strings in one of the sources. */
function namedCodes(): ErrorCode[] {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const files = ["protocol/src", "server/src"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((name) =>
      join(folder, name),
    ),
  );
  const text = files
    .filter((file) => SOURCES.test(file) && file.endsWith(".ts") && !file.endsWith(".test.ts"))
    .map((file) => readFileSync(join(root, file), "utf8"))
    .join("\n");
  const codes = Object.keys(ERRORS) as ErrorCode[];
  return codes.filter((code) => text.includes(`"${code}"`));
}

function create({ wire }: Lab, name: string): Promise<HttpAnswer> {
  return wire.send("POST", "/Tables", { body: { TableName: name } });
}

function insert({ wire }: Lab, body: string | Uint8Array | object): Promise<HttpAnswer> {
  return wire.send("POST", "/People", { body });
}

function insertion(partitionKey: string, rowKey: string) {
  return {
    method: "POST",
    path: "/People",
    body: { PartitionKey: partitionKey, RowKey: rowKey },
  };
}

function asAccountSas({ wire, target }: Lab, fields: Record<string, string>): Promise<HttpAnswer> {
  return wire.send("GET", "/People", { as: { kind: "sas", token: accountSas(target, fields) } });
}

function setProperties(wire: TableWire, body: string): Promise<HttpAnswer> {
  return wire.send("PUT", "/?restype=service&comp=properties", { body });
}

function corsRule(method: string): string {
  return (
    "<StorageServiceProperties><Cors><CorsRule><AllowedMethods>" +
    `${method}</AllowedMethods><AllowedOrigins>*</AllowedOrigins><AllowedHeaders /><ExposedHeaders />` +
    "<MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>"
  );
}

async function onlyCode(answer: HttpAnswer): Promise<string> {
  const parts = readBatch(answer);
  assert.equal(parts.length, 1);
  return parts[0]!.code ?? "";
}

async function failing(lab: Lab, code: EngineErrorCode | "Bug"): Promise<HttpAnswer> {
  lab.engine.commitFault = code;
  try {
    return await insert(lab, { PartitionKey: "p", RowKey: "fault" });
  } finally {
    lab.engine.commitFault = undefined;
  }
}

async function atSecondary(
  server: LocalServer,
  { account, key }: Lab["target"],
  work: (wire: TableWire) => Promise<HttpAnswer>,
): Promise<HttpAnswer> {
  const wire = new TableWire({ url: `${server.url}/${account}-secondary`, account, key });
  try {
    return await work(wire);
  } finally {
    wire.close();
  }
}
