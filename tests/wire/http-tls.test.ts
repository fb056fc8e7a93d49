import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { Server } from "node:https";
import { after, before, describe, it } from "node:test";
import { STALLED_MS_MAX } from "@rowhouse/server/http/both-lanes";
import { selfSignedCertificate } from "../support/certificate.ts";
import { HttpConnection } from "./http-connection.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { assertRefused } from "./refusals.ts";
import { accountSas, tableSas } from "./table-sas.ts";
import { TableWire } from "./table-wire.ts";

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

describe("Over TLS", () => {
  const certificate = selfSignedCertificate(new Date());
  let server: LocalServer;
  let target: { url: string; account: string; key: string };
  let wire: TableWire;
  before(async () => {
    server = await startLocalServer({
      tls: certificate,
      bearer: {
        challenge: "Bearer",
        allowHttp: false,
        verify: async () => ({ kind: "bearer", role: "contributor", subject: "ann" }),
      },
    });
    target = { url: `${server.url}/devstoreaccount1`, account: "devstoreaccount1", key: KEY };
    wire = new TableWire(target, certificate.cert);
    await wire.send("POST", "/Tables", { body: { TableName: "People" } });
  });
  after(async () => {
    wire.close();
    await server.close();
  });

  it("the tests' certificate is valid", () => {
    const read = new X509Certificate(certificate.cert);
    assert.equal(read.subjectAltName, "DNS:localhost, IP Address:127.0.0.1");
    assert.equal(read.verify(read.publicKey), true);
  });

  it("requests are served, and addresses begin with https", async () => {
    assert.match(server.url, /^https:\/\/127\.0\.0\.1:\d+$/);
    const answer = await wire.send("POST", "/People", { body: { PartitionKey: "p", RowKey: "r" } });
    assert.equal(answer.status, 201);
    assert.equal(answer.header("location"), `${target.url}/People(PartitionKey='p',RowKey='r')`);
    const read = await wire.send("GET", "/People(PartitionKey='p',RowKey='r')");
    assert.match(read.text, /"odata\.metadata":"https:/);
  });

  it("signatures that require HTTPS are accepted", async () => {
    for (const token of [
      tableSas(target, "People", { spr: "https" }),
      accountSas(target, { spr: "https" }),
    ]) {
      assert.equal((await wire.send("GET", "/People", { as: { kind: "sas", token } })).status, 200);
    }
  });

  it("bearer tokens are accepted, and requests without credentials are refused", async () => {
    const as = { kind: "bearer", token: "good" } as const;
    assert.equal((await wire.send("GET", "/Tables", { as })).status, 200);
    const answer = await wire.send("GET", "/Tables", { as: { kind: "none" } });
    assertRefused(answer, { status: 403, code: "AuthenticationFailed" });
  });

  it("plain HTTP is not answered, and does not disturb HTTPS", async () => {
    const plain = await HttpConnection.open(new URL(server.url.replace("https:", "http:")));
    plain.write("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
    assert.doesNotMatch((await plain.rest()).toString("latin1"), /200 OK/);
    plain.destroy();
    assert.equal((await wire.send("GET", "/Tables")).status, 200);
  });

  it("the server has a socket timeout for clients that stop reading", async () => {
    const limits: number[] = [];
    const note = (message: unknown) => {
      assert.ok(message instanceof Object && "server" in message);
      assert.ok(message.server instanceof Server);
      limits.push(message.server.timeout);
    };
    subscribe("http.server.request.start", note);
    await wire.send("GET", "/Tables");
    unsubscribe("http.server.request.start", note);
    assert.deepEqual(limits, [STALLED_MS_MAX]);
  });

  it("a server closes although clients are silent or idle", async () => {
    const other = await startLocalServer({ tls: certificate });
    const url = new URL(other.url);
    const silent = await HttpConnection.open(url, certificate.cert);
    const idle = await HttpConnection.open(url, certificate.cert);
    idle.write("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
    assert.equal((await idle.answer()).status, 200);
    await other.close();
    for (const connection of [silent, idle]) {
      assert.equal((await connection.rest()).length, 0);
      connection.destroy();
    }
  });
});
