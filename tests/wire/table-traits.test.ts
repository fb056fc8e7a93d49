import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { TABLE_OPERATIONS } from "@rowhouse/server/table/table-service";
import type { Gate } from "@rowhouse/server/wire/gate";
import type { RequestRecord } from "@rowhouse/server/wire/observer";
import { FaultyEngine } from "../support/faulty-engine.ts";
import type { HttpAnswer } from "./http-answer.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { assertRefused, readRefusal } from "./refusals.ts";
import { batchedQuery, readBatch, sendBatch, sendChangeset } from "./table-batch.ts";
import { draw, SAMPLES, type Sample, WITHOUT_SAMPLE } from "./table-samples.ts";
import { accountSas, tableSas } from "./table-sas.ts";
import { type Call, type Credentials, TableWire } from "./table-wire.ts";

const KEY = Buffer.from(DEVELOPMENT_ACCOUNT.keys[0]!).toString("base64");
const ROLES = ["reader", "contributor", "none"] as const;

/** The table service with one table, every kind of credential, and an engine that fails on demand. */
class Lab {
  readonly engine = new FaultyEngine();
  readonly records: RequestRecord[] = [];
  server!: LocalServer;
  primary!: TableWire;
  secondary!: TableWire;

  async open(): Promise<void> {
    this.server = await startLocalServer({
      engine: this.engine,
      accounts: new Accounts([DEVELOPMENT_ACCOUNT]),
      observer: { finished: (record) => this.records.push(record) },
      bearer: {
        challenge: "Bearer authorization_uri=https://issuer.example resource_id=tables",
        allowHttp: true,
        async verify(token) {
          const role = ROLES.find((each) => each === token);
          return role && { kind: "bearer", role, subject: token };
        },
      },
    });
    this.primary = this.#wire("devstoreaccount1");
    this.secondary = this.#wire("devstoreaccount1-secondary");
    await this.primary.send("POST", "/Tables", { body: { TableName: "People" } });
  }

  get target() {
    return { url: `${this.server.url}/devstoreaccount1`, account: "devstoreaccount1", key: KEY };
  }

  wireOf(sample: Sample): TableWire {
    return sample.secondary ? this.secondary : this.primary;
  }

  /** Sends a sample with the given credentials and headers. */
  async send(sample: Sample, call: Call = {}, path = (own: string) => own): Promise<HttpAnswer> {
    const drawn = draw(sample);
    await drawn.prepare(this.primary);
    return this.wireOf(sample).send(drawn.method, path(drawn.path), {
      ...drawn.call,
      ...call,
      headers: { ...drawn.call.headers, ...call.headers },
    });
  }

  async close(): Promise<void> {
    this.primary.close();
    this.secondary.close();
    await this.server.close();
  }

  #wire(segment: string): TableWire {
    const url = `${this.server.url}/${segment}`;
    return new TableWire({ url, account: "devstoreaccount1", key: KEY });
  }
}

const lab = new Lab();
before(() => lab.open());
after(() => lab.close());

it("Every operation of the Table service has a sample, and every sample an operation", () => {
  const names = new Set(TABLE_OPERATIONS.map(({ name }) => name));
  assert.deepEqual([...Object.keys(SAMPLES), ...WITHOUT_SAMPLE].sort(), [...names].sort());
});

it("A client request id is logged as it is echoed, and never if it could control a terminal", async () => {
  for (const [id, known] of [
    ["mine", "mine"],
    ["\u009b31m", undefined],
    ["x".repeat(1025), undefined],
  ] as const) {
    const headers = { "x-ms-client-request-id": id };
    const answer = await lab.primary.send("GET", "/Tables", { headers });
    assert.equal(answer.header("x-ms-client-request-id"), known);
    assert.equal(lab.records.at(-1)!.clientRequestId, known);
  }
});

for (const [name, sample] of Object.entries(SAMPLES)) {
  describe(name, () => {
    it("succeeds for a holder of the key, and is logged with its name and request id", async () => {
      const answer = await lab.send(sample);
      assertSucceeded(answer);
      const record = lab.records.at(-1)!;
      assert.equal(record.operation, name);
      assert.equal(record.requestId, answer.header("x-ms-request-id"));
      assert.equal(record.status, answer.status);
    });

    it("echoes the version and the client request id", async () => {
      const headers = { "x-ms-version": "2031-12-25", "x-ms-client-request-id": "mine, not yours" };
      const answer = await lab.send(sample, { headers });
      assertSucceeded(answer);
      assert.equal(answer.header("x-ms-version"), "2031-12-25");
      assert.equal(answer.header("x-ms-client-request-id"), "mine, not yours");
    });

    it("uses one request id in header, log and error body", async () => {
      const answer = await lab.send(sample, {}, (path) => withQuery(path, "timeout=soon"));
      assertRefused(answer, { status: 400, code: "InvalidQueryParameterValue" });
      const record = lab.records.at(-1)!;
      assert.equal(record.requestId, answer.header("x-ms-request-id"));
      assert.equal(record.errorCode, "InvalidQueryParameterValue");
    });

    it("is refused without credentials, with a wrong signature, and with an old one", async () => {
      const failed = { status: 403, code: "AuthenticationFailed" };
      const none: Credentials = { kind: "none" };
      assertRefused(await lab.send(sample, { as: none }), failed, "json");
      assertRefused(
        await lab.send(sample, { as: none, headers: { Accept: undefined } }),
        failed,
        "xml",
      );
      const wrong: Credentials = { kind: "shared-key", key: "AAAA" };
      const refused = await lab.send(sample, { as: wrong });
      assertRefused(refused, failed);
      assert.equal(refused.header("x-ms-version"), undefined);
      const old = new Date(Date.now() - 16 * 60_000).toUTCString();
      assertRefused(await lab.send(sample, { headers: { "x-ms-date": old } }), failed);
    });

    it("in a newer version without credentials is challenged", async () => {
      const answer = await lab.send(sample, {
        as: { kind: "none" },
        headers: { "x-ms-version": "2020-12-06" },
      });
      assertRefused(answer, { status: 401, code: "InvalidAuthenticationInfo" });
      assert.match(answer.header("www-authenticate")!, /^Bearer authorization_uri=/);
    });

    it("is refused with a malformed version or a malformed query", async () => {
      assertRefused(await lab.send(sample, { headers: { "x-ms-version": "2019-2-2" } }), {
        status: 400,
        code: "InvalidHeaderValue",
      });
      const answer = await lab.send(sample, {}, (path) => withQuery(path, "x=%f"));
      assertRefused(answer, { status: 400, code: "RequestUrlFailedToParse" });
    });

    it("answers 503 or 500 on a failing engine, and works afterwards", async () => {
      for (const [fault, status, code] of FAULTS) {
        const drawn = draw(sample);
        await drawn.prepare(lab.primary);
        lab.engine.readFault = fault;
        lab.engine.commitFault = fault;
        const answer = await lab.wireOf(sample).send(drawn.method, drawn.path, drawn.call);
        lab.engine.readFault = undefined;
        lab.engine.commitFault = undefined;
        // Not every operation uses the engine.
        if (answer.status >= 500) assertRefused(answer, { status, code });
        else assertSucceeded(answer, fault);
        assertSucceeded(await lab.send(sample), `after ${fault}`);
      }
    });

    it("refuses a body of more than 4 MiB, or ignores the body", async () => {
      const body = Buffer.alloc(4 * 1024 * 1024 + 1, " ");
      const answer = await lab.send(sample, { body });
      if (sample.body !== undefined)
        assertRefused(answer, { status: 413, code: "RequestBodyTooLarge" });
      else assertSucceeded(answer);
    });

    it("is refused at the secondary if it writes", async () => {
      const drawn = draw(sample);
      await drawn.prepare(lab.primary);
      const answer = await lab.secondary.send(drawn.method, drawn.path, drawn.call);
      if (!sample.writes) return assertSucceeded(answer);
      assertRefused(answer, {
        status: 403,
        code: "InsufficientAccountPermissions",
        message: "Write operations are not allowed.",
      });
    });

    if (sample.withoutTable) {
      it(`answers ${sample.withoutTable} if the table does not exist`, async () => {
        const code = sample.withoutTable!;
        const answer = await lab.send(sample, {}, (path) => path.replace("People", "Nobody"));
        assertRefused(answer, { status: 404, code });
      });
    }

    it("is permitted by an account SAS only with its permissions, resource type and service", async () => {
      const { account } = sample.rights;
      const as = (fields: Record<string, string>): Call => ({
        as: { kind: "sas", token: accountSas(lab.target, fields) },
      });
      if (account === undefined) {
        assertRefused(await lab.send(sample, as({})), {
          status: 403,
          code: "AuthorizationFailure",
        });
        return;
      }
      const { types, permissions, alternative = "" } = account;
      assertSucceeded(await lab.send(sample, as({ srt: types, sp: permissions })));
      if (alternative) assertSucceeded(await lab.send(sample, as({ srt: types, sp: alternative })));
      for (const sp of lacking(permissions, "rwdlacu".replace(alternative, ""))) {
        const answer = await lab.send(sample, as({ srt: types, sp }));
        assertDenied(answer, "AuthorizationPermissionMismatch");
      }
      // Lists of tables are permitted at service and container level.
      const isList = types === "c" && !sample.writes;
      if (isList) assertSucceeded(await lab.send(sample, as({ srt: "s", sp: permissions })));
      const others = isList ? "o" : "sco".replace(types, "");
      assertRefused(await lab.send(sample, as({ srt: others, sp: "rwdlacu" })), {
        status: 403,
        code: "AuthorizationResourceTypeMismatch",
      });
      assertRefused(await lab.send(sample, as({ ss: "bqf", sp: "rwdlacu" })), {
        status: 403,
        code: "AuthorizationServiceMismatch",
      });
    });

    it("is permitted by a table SAS only with its permissions", async () => {
      const { table } = sample.rights;
      const as = (fields: Record<string, string>): Call => ({
        as: { kind: "sas", token: tableSas(lab.target, "PEOPLE", fields) },
      });
      if (table === undefined) {
        const answer = await lab.send(sample, as({}));
        assert.equal(answer.status, 403);
        assert.match(readRefusal(answer).code, /^(AuthorizationFailure|AuthenticationFailed)$/);
        return;
      }
      assertSucceeded(await lab.send(sample, as({ sp: table })));
      for (const sp of lacking(table, "raud")) {
        assertDenied(await lab.send(sample, as({ sp })), "AuthorizationPermissionMismatch");
      }
    });

    it("is permitted to a bearer only by its role", async () => {
      const { bearer } = sample.rights;
      for (const role of ROLES) {
        const answer = await lab.send(sample, { as: { kind: "bearer", token: role } });
        const may = role === "contributor" || (role === "reader" && bearer === "reader");
        if (bearer === "hidden") assertRefused(answer, { status: 404, code: "ResourceNotFound" });
        else if (may) assertSucceeded(answer, role);
        else assertDenied(answer, "AuthorizationPermissionMismatch");
      }
      const answer = await lab.send(sample, { as: { kind: "bearer", token: "forged" } });
      assertRefused(answer, { status: 401, code: "InvalidAuthenticationInfo" });
    });

    it("finishes while the server closes, and the connection ends with the answer", async () => {
      let begin = () => {};
      const begun = new Promise<void>((resolve) => {
        begin = resolve;
      });
      let open = () => {};
      let held: Promise<void> | undefined;
      const gate: Gate = {
        enter() {
          if (held !== undefined) begin();
          return held;
        },
      };
      const server = await startLocalServer({ gate });
      const url = `${server.url}/devstoreaccount1${sample.secondary ? "-secondary" : ""}`;
      const wire = new TableWire({ url, account: "devstoreaccount1", key: KEY });
      const primary = new TableWire({ ...lab.target, url: `${server.url}/devstoreaccount1` });
      await primary.send("POST", "/Tables", { body: { TableName: "People" } });
      const drawn = draw(sample);
      await drawn.prepare(primary);
      primary.close();

      held = new Promise((resolve) => {
        open = resolve;
      });
      const answered = wire.send(drawn.method, drawn.path, drawn.call);
      await begun;
      const closed = server.close();
      open();
      assertSucceeded(await answered);
      await closed;
      await assert.rejects(wire.send(drawn.method, drawn.path, drawn.call));
    });
  });
}

it("A batch with a refused operation is logged with that operation and its error", async () => {
  const write = { method: "MERGE", path: "/People(PartitionKey='p',RowKey='none')", body: {} };
  await sendChangeset(lab.primary, [{ ...write, headers: { "If-Match": "*" } }]);
  const { status, refusedInside } = lab.records.at(-1)!;
  assert.deepEqual(
    [status, refusedInside?.error.code, refusedInside?.verb, refusedInside?.path],
    [202, "ResourceNotFound", write.method, write.path],
  );
  await sendChangeset(lab.primary, [{ ...write, path: "/People(PartitionKey='p',RowKey='new')" }]);
  assert.equal(lab.records.at(-1)!.refusedInside, undefined);
});

it("A reader's batch may contain a query, but no write", async () => {
  const as: Credentials = { kind: "bearer", token: "reader" };
  const read = await sendBatch(lab.primary, batchedQuery("/People()"), { as });
  assert.equal(readBatch(read)[0]!.status, 200);
  const body = { PartitionKey: "p", RowKey: "reader" };
  const write = { method: "POST", path: "/People", body };
  assertDenied(
    await sendChangeset(lab.primary, [write], { as }),
    "AuthorizationPermissionMismatch",
  );
});

it("A SAS of a table permits neither Get Table nor Delete Table", async () => {
  const as: Credentials = { kind: "sas", token: tableSas(lab.target, "People", {}) };
  for (const method of ["GET", "DELETE"]) {
    const answer = await lab.primary.send(method, "/Tables('People')", { as });
    assertRefused(answer, { status: 403, code: "AuthorizationFailure" });
  }
});

const FAULTS = [
  ["Unavailable", 503, "ServerBusy"],
  ["Unknown", 500, "OperationTimedOut"],
  ["Corrupt", 500, "StoredDataDamaged"],
  ["Closed", 503, "ServerBusy"],
] as const;

/** Each grant that lacks one of the needed letters. */
function lacking(needed: string, all: string): string[] {
  return [...needed].map((letter) => all.replace(letter, ""));
}

/** A batch that could be parsed is answered with 202, whatever its parts say. */
function assertSucceeded(answer: HttpAnswer, when = ""): void {
  assert.ok(answer.status < 300, `${when} ${answer}`);
  if (answer.status === 202 && answer.body.length > 0) {
    for (const part of readBatch(answer)) assert.ok(part.status < 300, `${when} ${part.body}`);
  }
}

/** Refused as a whole, or inside the batch answer. */
function assertDenied(answer: HttpAnswer, code: string): void {
  if (answer.status !== 202) {
    assertRefused(answer, { status: 403, code });
    return;
  }
  assert.deepEqual(
    readBatch(answer).map((part) => [part.status, part.code]),
    [[403, code]],
  );
}

function withQuery(path: string, query: string): string {
  return `${path}${path.includes("?") ? "&" : "?"}${query}`;
}
