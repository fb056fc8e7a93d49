import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import type { BearerVerifier } from "@rowhouse/server/auth/bearer";
import { HttpServer } from "@rowhouse/server/http/http-server";
import { STALLED_MS_MAX } from "@rowhouse/server/http/lane-limits";
import { OpenConnections } from "@rowhouse/server/http/open-connections";
import { selfSignedCertificate } from "../support/certificate.ts";
import { HttpConnection } from "./http-connection.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { assertRefused } from "./refusals.ts";
import { StorageWire } from "./storage-wire.ts";
import { accountSas, tableSas } from "./table-sas.ts";
import { TableWire } from "./table-wire.ts";
import { until } from "./turns.ts";

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const GET = (target: string) => `GET ${target} HTTP/1.1\r\nHost: h\r\n\r\n`;

describe("Over TLS", () => {
  const certificate = selfSignedCertificate(new Date());
  let server: LocalServer;
  let target: { url: string; account: string; key: string };
  let wire: TableWire;
  const bearer: BearerVerifier = {
    challenge: "Bearer",
    allowHttp: false,
    verify: async () => ({ kind: "bearer", role: "contributor", subject: "ann" }),
  };
  before(async () => {
    const any = { host: "127.0.0.1", port: 0 };
    server = await startLocalServer({
      tls: certificate,
      bearer,
      listen: { table: any, blob: any },
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

  it("a new connection takes the place of an idle one, never of one whose request is in work", async () => {
    const open = new OpenConnections({ max: 2 });
    let finish = () => {};
    const finished = new Promise<void>((resolve) => (finish = resolve));
    let inWork = 0;
    const crowded = await HttpServer.listen(
      { host: "127.0.0.1", port: 0, lane: "fast", tls: certificate, open, onError: () => {} },
      async ({ target }) => {
        if (target === "/work") {
          inWork++;
          await finished;
        }
        return { status: 200, headers: [], body: target };
      },
    );
    const connect = () => HttpConnection.open(new URL(crowded.url), certificate.cert);
    const working = await connect();
    working.write(GET("/work"));
    await until(() => inWork === 1);
    const idle = await connect();
    idle.write(GET("/idle"));
    assert.equal((await idle.answer()).text, "/idle");
    const alsoWorking = await connect();
    await assert.rejects(idle.answer(), /The connection ended/);
    alsoWorking.write(GET("/work"));
    await until(() => inWork === 2);
    await assert.rejects(connect());
    assert.deepEqual(open.counts, { closedIdle: 1, refused: 1 });
    finish();
    for (const connection of [working, alsoWorking]) {
      assert.equal((await connection.answer()).text, "/work");
      connection.destroy();
    }
    await crowded.close();
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

  for (const lane of ["node", "fast"] as const) {
    it(`a bearer token is refused unread over plain HTTP, whatever the target says (${lane})`, async (t) => {
      const unread = { ...bearer, verify: () => assert.fail("the token was verified") };
      const other = await startLocalServer({ lane, bearer: unread });
      const plain = new TableWire({ ...target, url: `${other.url}/devstoreaccount1` });
      t.after(async () => {
        plain.close();
        await other.close();
      });
      const request = plain.bytes("GET", "/Tables", { as: { kind: "bearer", token: "good" } });
      const absolute = request.toString("latin1").replace("GET /", "GET https://127.0.0.1/");
      for (const answer of await plain.pipeline([request, Buffer.from(absolute, "latin1")])) {
        assertRefused(answer, { status: 403, code: "AuthenticationFailed" });
      }
    });
  }

  it("plain HTTP is not answered, and does not disturb HTTPS", async () => {
    const plain = await HttpConnection.open(new URL(server.url.replace("https:", "http:")));
    plain.write("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
    assert.doesNotMatch((await plain.rest()).toString("latin1"), /200 OK/);
    plain.destroy();
    assert.equal((await wire.send("GET", "/Tables")).status, 200);
  });

  it("a client that stops reading is cut after the time limit, in the middle of its answer", async (t) => {
    const url = server.urls.blob ?? "";
    const blobs = new StorageWire(url, "");
    const connection = await HttpConnection.open(new URL(url), certificate.cert);
    t.after(() => connection.destroy());
    const headers = { "x-ms-blob-type": "BlockBlob" };
    // Far more than two sockets and a server together buffer of an unread answer.
    const body = Buffer.alloc(24 << 20);
    for (const [path, call] of [
      ["/unread?restype=container", {}],
      ["/unread/blob", { headers, body }],
    ] as const) {
      connection.write(blobs.bytes("PUT", path, call));
      assert.equal((await connection.answer()).status, 201);
    }
    let socket: Socket | undefined;
    const note = (message: unknown) => {
      assert.ok(message instanceof Object && "socket" in message);
      assert.ok(message.socket instanceof Socket);
      socket = message.socket;
    };
    subscribe("http.server.request.start", note);
    connection.socket.pause();
    connection.write(blobs.bytes("GET", "/unread/blob", {}));
    await until(() => socket?.writableNeedDrain === true);
    unsubscribe("http.server.request.start", note);
    assert.equal(socket?.timeout, STALLED_MS_MAX);
    socket?.emit("timeout");
    assert.equal(socket?.destroyed, true);
    connection.socket.resume();
    assert.ok((await connection.rest()).length < body.length);
    assert.equal((await wire.send("GET", "/Tables")).status, 200);
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
