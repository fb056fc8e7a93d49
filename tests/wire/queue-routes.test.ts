import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { HttpAnswer } from "./http-answer.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { QueueWire } from "./queue-wire.ts";
import { assertStorageRefused } from "./storage-refusals.ts";
import { accountSas } from "./storage-sas.ts";

let server: LocalServer;
let wire: QueueWire;

before(async () => {
  server = await startLocalServer({ listen: { queue: { host: "127.0.0.1", port: 0 } } });
  wire = new QueueWire(server.urls.queue!);
  await wire.send("PUT", "/orders", { headers: { "x-ms-meta-Owner": "ops" } });
});
after(async () => {
  wire.close();
  await server.close();
});

describe("A request that matches no operation", () => {
  it("is refused with 405 if the resource never supports the method", async () => {
    for (const [method, path, allowed] of [
      ["DELETE", "/", "GET"],
      ["POST", "/orders", "PUT, DELETE"],
      ["PUT", "/orders/messages", "POST, GET, DELETE"],
      ["HEAD", "/orders/messages", undefined],
      ["GET", "/orders/messages/x", "PUT, DELETE"],
      ["POST", "/orders/messages/x?popreceipt=1", "PUT, DELETE"],
      ["DELETE", "/orders?comp=metadata", "GET, PUT"],
      ["POST", "/?restype=service&comp=properties", "GET, PUT"],
    ] as const) {
      const answer = await wire.send(method, path);
      assertStorageRefused(answer, 405, "UnsupportedHttpVerb");
      if (allowed && method !== "DELETE") assert.equal(answer.header("allow"), allowed);
    }
  });

  it("is refused with 400 if comp or restype is missing or unknown", async () => {
    const refused = async (method: string, path: string, code: string) =>
      assertStorageRefused(await wire.send(method, path), 400, code);
    for (const path of ["/", "/?restype=service", "/orders"]) {
      assert.deepEqual(await refused("GET", path, "MissingRequiredQueryParameter"), {
        QueryParameterName: "comp",
      });
    }
    await refused("HEAD", "/orders", "MissingRequiredQueryParameter");
    for (const path of ["/?comp=x", "/orders?comp=x", "/orders/messages?comp=x", "/?comp=acl"]) {
      const details = await refused("GET", path, "InvalidQueryParameterValue");
      assert.equal(details.QueryParameterName, "comp");
      assert.equal(details.QueryParameterValue, path.split("=")[1]);
    }
    const details = await refused("GET", "/?restype=x&comp=list", "InvalidQueryParameterValue");
    assert.equal(details.QueryParameterName, "restype");
  });

  it("is refused with 400 if its path names no resource", async () => {
    for (const path of ["//messages", "/orders/blobs", "/orders/messages/a/b"]) {
      assertStorageRefused(await wire.send("GET", path), 400, "InvalidUri");
    }
  });

  it("is refused with 501 for a user delegation key, and with 400 for statistics", async () => {
    const key = await wire.send("POST", "/?restype=service&comp=userdelegationkey");
    assertStorageRefused(key, 501, "NotImplemented");
    const statistics = await wire.send("GET", "/?restype=service&comp=stats");
    const details = assertStorageRefused(statistics, 400, "InvalidQueryParameterValue");
    assert.equal(details.QueryParameterName, "comp");
    assert.equal(details.QueryParameterValue, "stats");
  });

  it("is refused with 404 if the account does not exist, as a secondary account never does", async () => {
    for (const account of ["nobody", "devstoreaccount1-secondary"]) {
      const bytes = `GET /${account}/?comp=list HTTP/1.1\r\nHost: localhost\r\n\r\n`;
      const answer = await wire.sendBytes("GET", Buffer.from(bytes));
      assertStorageRefused(answer, 404, "ResourceNotFound");
    }
  });
});

describe("A request", () => {
  it("may write parameter names and values in any case, and add unknown parameters", async () => {
    for (const path of ["/?COMP=List", "/?comp=list&foo=bar", "/orders?Comp=METADATA"]) {
      assert.equal((await wire.send("GET", path)).status, 200, path);
    }
    const upper = await wire.send("GET", "/?RESTYPE=SERVICE&COMP=Properties");
    assert.equal(upper.status, 200);
    assert.equal((await wire.send("GET", "/orders/MESSAGES")).status, 200);
  });

  it("may limit its time in whole seconds", async () => {
    for (const timeout of ["30", "0", "99999"]) {
      assert.equal((await wire.send("GET", `/?comp=list&timeout=${timeout}`)).status, 200);
    }
    for (const timeout of ["-1", "x", "1.5"]) {
      const answer = await wire.send("GET", `/?comp=list&timeout=${timeout}`);
      const details = assertStorageRefused(answer, 400, "InvalidQueryParameterValue");
      assert.equal(details.QueryParameterName, "timeout");
    }
  });

  it("with an invalid parameter is refused first for a missing operation or permission", async () => {
    const nothing = await wire.send("GET", "/?comp=x&timeout=x");
    const details = assertStorageRefused(nothing, 400, "InvalidQueryParameterValue");
    assert.equal(details.QueryParameterName, "comp");
    const sas = accountSas({ ss: "q", srt: "s", sp: "r" });
    const listing = await wire.send("GET", "/?comp=list&timeout=x", { sas });
    assertStorageRefused(listing, 403, "AuthorizationPermissionMismatch");
  });

  it("may use HEAD for a queue's metadata and access policies", async () => {
    const head = await wire.send("HEAD", "/orders?comp=metadata");
    assert.equal(head.status, 200);
    assert.equal(head.header("x-ms-meta-Owner"), "ops");
    assert.equal((await wire.send("HEAD", "/orders?comp=acl")).status, 200);
    const missing = await wire.send("HEAD", "/nobodys?comp=metadata");
    assert.equal(missing.header("x-ms-error-code"), "QueueNotFound");
    assert.equal(missing.status, 404);
  });

  it("may carry conditions, which are ignored", async () => {
    const headers = { "If-Match": '"x"', "If-None-Match": "*" };
    assert.equal((await wire.send("GET", "/orders?comp=metadata", { headers })).status, 200);
  });

  it("may name the account in the host name", async () => {
    const headers = { Host: "devstoreaccount1.queue.example.net" };
    const bytes = wire.bytes("GET", "/orders/messages", { sas: "", headers });
    const hostStyle = Buffer.from(bytes.toString("latin1").replace("/devstoreaccount1/", "/"));
    // The path was understood, because only a signature is missing.
    const answer = await wire.sendBytes("GET", hostStyle);
    assertStorageRefused(answer, 401, "NoAuthenticationInformation");
  });
});

describe("A body", () => {
  const put = (headers: Record<string, string>, body: string): Promise<HttpAnswer> =>
    wire.send("POST", "/orders/messages", { headers, body });
  const message = "<QueueMessage><MessageText>x</MessageText></QueueMessage>";

  it("is checked against its MD5 if one is sent", async () => {
    const wrong = "AAAAAAAAAAAAAAAAAAAAAA==";
    const right = "3PZUUcAvMb3YGpoNHKQxwQ==";
    const details = assertStorageRefused(
      await put({ "Content-MD5": wrong }, message),
      400,
      "Md5Mismatch",
    );
    assert.equal(details.UserSpecifiedMd5, wrong);
    const { ServerCalculatedMd5 = right } = details;
    assert.equal((await put({ "Content-MD5": ServerCalculatedMd5 }, message)).status, 201);
    assertStorageRefused(await put({ "Content-MD5": "x" }, message), 400, "InvalidMd5");
    const properties = await wire.send("PUT", "/?restype=service&comp=properties", {
      headers: { "Content-MD5": wrong },
      body: "<StorageServiceProperties />",
    });
    assertStorageRefused(properties, 400, "Md5Mismatch");
  });

  it("may have any content type and a byte order mark, and may be sent in chunks", async () => {
    assert.equal((await put({ "Content-Type": "text/plain" }, `\ufeff${message}`)).status, 201);
    const call = { headers: { "Content-Length": undefined, "Transfer-Encoding": "chunked" } };
    const head = wire.bytes("POST", "/orders/messages", { ...call, body: "" }).toString("latin1");
    const chunk = `${message.length.toString(16)}\r\n${message}\r\n0\r\n\r\n`;
    const answer = await wire.sendBytes("POST", Buffer.from(head + chunk));
    assert.equal(answer.status, 201, answer.text);
  });

  it("of a message may have up to 131,584 bytes", async () => {
    const padded = (bytes: number) =>
      message.replace("><M", `>${" ".repeat(bytes - message.length)}<M`);
    assert.equal((await put({}, padded(131_584))).status, 201);
    for (const bytes of [131_585, 1_000_000]) {
      const details = assertStorageRefused(
        await put({}, padded(bytes)),
        413,
        "RequestBodyTooLarge",
      );
      assert.deepEqual(details, { MaxLimit: "131584" });
    }
  });
});
