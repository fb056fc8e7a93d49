import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { QUEUE_OPERATIONS } from "@rowhouse/server/queue/queue-service";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { QUEUE_SAMPLES, type QueueSample, SERVICE_SAMPLES } from "./queue-samples.ts";
import { accountSas, inHours, serviceSas, tomorrow } from "./queue-sas.ts";
import { QueueWire } from "./queue-wire.ts";
import { assertStorageRefused } from "./storage-refusals.ts";

const SAMPLES = [...SERVICE_SAMPLES, ...QUEUE_SAMPLES];

let server: LocalServer;
let wire: QueueWire;

before(async () => {
  server = await startLocalServer({ listen: { queue: { host: "127.0.0.1", port: 0 } } });
  wire = new QueueWire(server.urls.queue!);
});
after(async () => {
  wire.close();
  await server.close();
});

it("Every operation of the Queue service has a sample", () => {
  assert.deepEqual(
    SAMPLES.map(({ name }) => name).sort(),
    QUEUE_OPERATIONS.map(({ name }) => name).sort(),
  );
});

for (const sample of SAMPLES) {
  const { account, service, body } = sample;
  const send = async (sas: string) => {
    // Some samples delete it.
    await wire.send("PUT", "/orders");
    return wire.send(sample.method, sample.path, { body, sas });
  };

  describe(sample.name, () => {
    it("needs an account SAS with its permission, resource type and service", async () => {
      if (!account) {
        const answer = await send(accountSas({ sp: "rwdlacup" }));
        assertStorageRefused(answer, 403, "AuthorizationFailure");
        return;
      }
      for (const letter of "rwdlacup") {
        const answer = await send(accountSas({ sp: letter, srt: account.type }));
        if (account.letters.includes(letter)) assert.notEqual(answer.status, 403, letter);
        else assertStorageRefused(answer, 403, "AuthorizationPermissionMismatch");
      }
      const otherTypes = "sco".replace(account.type, "");
      assertStorageRefused(
        await send(accountSas({ sp: account.letters, srt: otherTypes })),
        403,
        "AuthorizationResourceTypeMismatch",
      );
      assertStorageRefused(
        await send(accountSas({ sp: account.letters, ss: "btf" })),
        403,
        "AuthorizationServiceMismatch",
      );
    });

    it("is refused without credentials", async () => {
      const answer = await send("");
      assert.equal(answer.header("www-authenticate"), "SharedKey");
      assertStorageRefused(answer, 401, "NoAuthenticationInformation");
    });
  });

  if (SERVICE_SAMPLES.includes(sample)) continue;
  describe(`${sample.name} on a queue`, () => {
    it("needs a SAS of the queue with its permission", async () => {
      const token = (sp: string) => serviceSas({ queue: "orders", sp, se: tomorrow() });
      for (const letter of "raup") {
        const answer = await send(token(letter));
        if (!service) assertStorageRefused(answer, 403, "AuthorizationFailure");
        else if (letter === service) assert.notEqual(answer.status, 403);
        else assertStorageRefused(answer, 403, "AuthorizationPermissionMismatch");
      }
      const other = serviceSas({ queue: "others", sp: "raup", se: tomorrow() });
      assertStorageRefused(await send(other), 403, "AuthenticationFailed");
    });

    it("is refused if the queue's name is invalid, and if the queue does not exist", async () => {
      const on = (name: string) =>
        wire.send(sample.method, sample.path.replace("orders", name), { body });
      assertStorageRefused(await on("Bad_Name"), 400, "InvalidResourceName");
      assertStorageRefused(await on("ab"), 400, "OutOfRangeInput");
      if (sample.name === "CreateQueue") return;
      assertStorageRefused(await on("nobodys"), 404, "QueueNotFound");
    });
  });
}

describe("Every answer of the Queue service", () => {
  it("carries the request id, version, date and server, also on errors", async () => {
    const id = "my request 1";
    const cases: [QueueSample, number][] = [
      [SERVICE_SAMPLES[0]!, 200],
      [{ ...SERVICE_SAMPLES[0]!, path: "/nobodys?comp=metadata" }, 404],
    ];
    for (const [{ method, path }, status] of cases) {
      const headers = { "x-ms-client-request-id": id, "x-ms-version": "2019-12-12" };
      const answer = await wire.send(method, path, { headers });
      assert.equal(answer.status, status);
      assert.match(answer.header("x-ms-request-id") ?? "", /^[0-9a-f-]{36}$/);
      assert.equal(answer.header("x-ms-version"), "2019-12-12");
      assert.equal(answer.header("x-ms-client-request-id"), id);
      assert.match(answer.header("date") ?? "", / GMT$/);
      assert.equal(answer.header("server"), "Rowhouse-Queue/1.0");
      assert.equal(answer.header("etag"), undefined);
    }
  });

  it("carries a version and the client request id, also without credentials", async () => {
    const headers = { "x-ms-client-request-id": "1" };
    const answer = await wire.send("GET", "/?comp=list", { sas: "", headers });
    assert.equal(answer.header("x-ms-version"), "2026-04-06");
    assert.equal(answer.header("x-ms-client-request-id"), "1");
  });

  it("omits client request ids that are too long or not ASCII", async () => {
    for (const id of ["x".repeat(1025), "caf\u00e9"]) {
      const headers = { "x-ms-client-request-id": id };
      // Sent unsigned, so that client libraries need not agree on how to sign such a header.
      const answer = await wire.send("GET", "/?comp=list", { sas: "", headers });
      assert.equal(answer.header("x-ms-client-request-id"), undefined);
    }
  });
});

describe("A caller", () => {
  it("may use any version from 2015-02-21 on, even one not published yet", async () => {
    for (const version of ["2015-02-21", "2099-12-31"]) {
      const answer = await wire.send("GET", "/?comp=list", {
        headers: { "x-ms-version": version },
      });
      assert.equal(answer.status, 200);
      assert.equal(answer.header("x-ms-version"), version);
    }
    for (const version of ["2014-02-14", "2026-13-01", "latest"]) {
      const answer = await wire.send("GET", "/?comp=list", {
        headers: { "x-ms-version": version },
      });
      const details = assertStorageRefused(answer, 400, "InvalidHeaderValue");
      assert.deepEqual(details, { HeaderName: "x-ms-version", HeaderValue: version });
    }
    const headers = { "x-ms-version": undefined };
    const details = assertStorageRefused(
      await wire.send("GET", "/?comp=list", { headers }),
      400,
      "MissingRequiredHeader",
    );
    assert.deepEqual(details, { HeaderName: "x-ms-version" });
  });

  it("whose signature is more than a quarter of an hour old, or ahead, is refused", async () => {
    const quarter = 15 * 60_000;
    for (const [offset, expected] of [
      [-quarter - 60_000, 403],
      [-quarter + 60_000, 200],
      [quarter - 60_000, 200],
      [quarter + 60_000, 403],
    ] as const) {
      const answer = await wire.send("GET", "/?comp=list", { signedAt: Date.now() + offset });
      assert.equal(answer.status, expected);
    }
  });

  it("with a wrong signature receives the text that should have been signed", async () => {
    const key = Buffer.alloc(64).toString("base64");
    const answer = await wire.send("PUT", "/orders?comp=metadata", { key });
    const { AuthenticationErrorDetail: detail = "" } = assertStorageRefused(
      answer,
      403,
      "AuthenticationFailed",
    );
    assert.match(detail, /^The MAC signature found in the HTTP request '[^']+' is not the same/);
    assert.match(detail, /\n\/devstoreaccount1\/devstoreaccount1\/orders\ncomp:metadata'\.$/);
  });

  it("may sort metadata headers for its signature in any of the four orders that clients use", async () => {
    const weight = (ignored: string) => (name: string) =>
      [...name].map((c) => (ignored.includes(c) ? "" : c === "_" ? "!" : c)).join("");
    const by = (key: (name: string) => string) => (a: string, b: string) =>
      key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0;
    const orders = [by((name) => name), by(weight("-")), by(weight("-0")), by(weight("-_"))];
    for (const order of orders) {
      const headers = {
        "x-ms-meta-ab": "1",
        "x-ms-meta-a_1": "2",
        "x-ms-meta-a1": "3",
        "x-ms-meta-a0": "4",
      };
      const answer = await wire.send("PUT", "/orders?comp=metadata", { headers, order });
      assert.equal(answer.status, 204, answer.text);
    }
  });

  it("may use a queue SAS only within its times, from its addresses and over its protocols", async () => {
    const peek = (sas: string) => wire.send("GET", "/orders/messages?peekonly=true", { sas });
    const sas = { queue: "orders", sp: "r", se: tomorrow() };
    for (const good of [
      sas,
      { ...sas, st: inHours(-1) },
      { ...sas, sip: "127.0.0.1" },
      { ...sas, sip: "127.0.0.0-127.0.0.255", spr: "https,http" },
    ]) {
      assert.equal((await peek(serviceSas(good))).status, 200);
    }
    for (const [bad, code] of [
      [{ ...sas, se: inHours(-1) }, "AuthenticationFailed"],
      [{ ...sas, st: inHours(1) }, "AuthenticationFailed"],
      [{ ...sas, sip: "10.0.0.1" }, "AuthorizationSourceIPMismatch"],
      [{ ...sas, spr: "https" }, "AuthorizationProtocolMismatch"],
      [{ ...sas, si: "nobody" }, "AuthenticationFailed"],
      [{ queue: "orders", se: tomorrow() }, "AuthenticationFailed"],
    ] as const) {
      assertStorageRefused(await peek(serviceSas(bad)), 403, code);
    }
    const tampered = serviceSas(sas).replace("sp=r", "sp=raup");
    assertStorageRefused(await peek(tampered), 403, "AuthenticationFailed");
    const delegated = await peek(`${serviceSas(sas)}&skoid=1&sktid=2&ske=3`);
    assertStorageRefused(delegated, 403, "AuthenticationFailed");
  });

  it("with a bearer token or a malformed Authorization header is refused", async () => {
    const headers = { Authorization: "Bearer abc" };
    const answer = await wire.send("GET", "/?comp=list", { headers });
    assertStorageRefused(answer, 401, "InvalidAuthenticationInfo");
    for (const Authorization of ["Basic abc", "SharedKey nothing", "SharedKey"]) {
      const other = await wire.send("GET", "/?comp=list", { headers: { Authorization } });
      assertStorageRefused(other, 400, "InvalidAuthenticationInfo");
    }
  });
});
