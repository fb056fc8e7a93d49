import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, describe, it } from "node:test";
import { XML_DECLARATION } from "@rowhouse/server/xml/print-xml";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { assertStorageRefused } from "./storage-refusals.ts";
import { accountSas } from "./storage-sas.ts";
import { KEY, StorageWire, sign, stringToSign } from "./storage-wire.ts";

/** What clients of queues and blobs send beside the documentation, and what recordings of the service answer. */

const any = { host: "127.0.0.1", port: 0 };
const server: LocalServer = await startLocalServer({ listen: { queue: any, blob: any } });
const queues = new StorageWire(server.urls.queue!, "application/xml");
const blobs = new StorageWire(server.urls.blob!, "application/octet-stream");
const BLOCK = { "x-ms-blob-type": "BlockBlob" };
const LEASE = "1f812371-a41d-49e6-b123-f4b542e851c5";

await queues.send("PUT", "/habits");
await blobs.send("PUT", "/habits?restype=container");
after(async () => {
  queues.close();
  blobs.close();
  await server.close();
});

describe("White space inside an x-ms- header", () => {
  const METADATA = { "x-ms-meta-a": "two  spaces", "x-ms-meta-b": "a\ttab" };

  it("may be signed as it is sent, which the JavaScript and Python clients do", async () => {
    for (const [wire, path] of [
      [queues, "/spaced"],
      [blobs, "/spaced?restype=container"],
    ] as const) {
      const answer = await wire.send("PUT", path, { headers: METADATA });
      assert.equal(answer.status, 201, String(answer));
    }
    const disposition = 'attachment; filename="a  b.txt"';
    const put = await blobs.send("PUT", "/habits/spaced", {
      headers: { ...BLOCK, "x-ms-blob-content-disposition": disposition },
      body: "x",
    });
    assert.equal(put.status, 201);
    const found = await blobs.send("HEAD", "/habits/spaced");
    assert.equal(found.header("content-disposition"), disposition);
  });

  it("may be signed folded, which the documentation asks for", async () => {
    const headers = {
      Host: new URL(server.urls.queue!).host,
      "x-ms-version": "2026-04-06",
      "x-ms-date": new Date().toUTCString(),
      "x-ms-client-request-id": "two  spaces",
      "Content-Length": "0",
    };
    const folded = { ...headers, "x-ms-client-request-id": "two spaces" };
    const target = "/devstoreaccount1/folded";
    const send = (as: typeof headers) => {
      const signature = sign(KEY, stringToSign("PUT", target, as));
      const Authorization = `SharedKey devstoreaccount1:${signature}`;
      return queues.send("PUT", "/folded", { headers: { ...headers, Authorization } });
    };
    assert.equal((await send(folded)).status, 201);
    const other = { ...headers, "x-ms-client-request-id": "twospaces" };
    assertStorageRefused(await send(other), 403, "AuthenticationFailed");
  });
});

describe("XML of queues and blobs", () => {
  it("begins with a byte order mark, lists, settings and errors alike", async () => {
    for (const [wire, path] of [
      [queues, "/?comp=list"],
      [queues, "/?restype=service&comp=properties"],
      [queues, "/habits?comp=acl"],
      [queues, "/habits/messages?peekonly=true"],
      [queues, "/none/messages"],
      [blobs, "/?comp=list"],
      [blobs, "/habits?restype=container&comp=list"],
      [blobs, "/habits?restype=container&comp=acl"],
      [blobs, "/habits/none"],
    ] as const) {
      const { text } = await wire.send("GET", path);
      assert.ok(text.startsWith(`\ufeff${XML_DECLARATION}<`), text);
    }
  });

  it("is refused with a place and a reason, and without the parser's words", async () => {
    const path = "/habits?comp=acl";
    const malformed = await queues.send("PUT", path, { body: "<SignedIdentifiers>\n</a>" });
    assert.deepEqual(assertStorageRefused(malformed, 400, "InvalidXmlDocument"), {
      LineNumber: "2",
      LinePosition: "1",
      Reason: "The document is not well-formed.",
    });
    const letters = await queues.send("PUT", path, {
      body: "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Permission>rz</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>",
    });
    assert.deepEqual(assertStorageRefused(letters, 400, "InvalidXmlDocument"), {
      LineNumber: "0",
      LinePosition: "0",
      Reason: "",
    });
    const empty = "<StorageServiceProperties />";
    for (const wire of [queues, blobs]) {
      const answer = await wire.send("PUT", "/?restype=service&comp=properties", { body: empty });
      assertStorageRefused(answer, 400, "InvalidXmlDocument");
    }
  });
});

describe("A blob's name", () => {
  it("is what the service makes of it, for a shared key and a SAS, as a source and as a target", async () => {
    const put = await blobs.send("PUT", "/habits/a%5Cx/./../b./c.", { headers: BLOCK, body: "x" });
    assert.equal(put.status, 201);
    const sas = accountSas({ ss: "b", sp: "rw" });
    assert.equal((await blobs.send("GET", "/habits/a/b/%2e/c", { sas })).text, "x");
    const source = `${server.urls.blob}/devstoreaccount1/habits/a/b/d/../c...`;
    const copied = await blobs.send("PUT", "/habits/./copy.", {
      headers: { "x-ms-copy-source": source },
    });
    assert.equal(copied.status, 202, String(copied));
    assert.equal((await blobs.send("GET", "/habits/copy")).text, "x");
    const list = await blobs.send("GET", "/habits?restype=container&comp=list&prefix=a%5Cb");
    assert.doesNotMatch(list.text, /<Name>/);
  });
});

describe("A write with If-None-Match: * to a leased blob", () => {
  it("is judged by the lease first: with its id it succeeds, without one or after its end it does not", async () => {
    const path = "/habits/leased";
    const body = "<BlockList></BlockList>";
    const lease = (headers: Record<string, string>) =>
      blobs.send("PUT", `${path}?comp=lease`, { headers });
    const source = `${server.urls.blob}/devstoreaccount1/habits/leased-source`;
    await blobs.send("PUT", "/habits/leased-source", { headers: BLOCK, body: "x" });
    const writes = {
      "Put Blob": (headers: object) =>
        blobs.send("PUT", path, { headers: { ...BLOCK, ...headers }, body: "y" }),
      "Put Block List": (headers: object) =>
        blobs.send("PUT", `${path}?comp=blocklist`, { headers: { ...headers }, body }),
      "an append blob": (headers: object) =>
        blobs.send("PUT", path, { headers: { "x-ms-blob-type": "AppendBlob", ...headers } }),
      "Copy Blob": (headers: object) =>
        blobs.send("PUT", path, { headers: { "x-ms-copy-source": source, ...headers } }),
    };
    for (const [name, write] of Object.entries(writes)) {
      await blobs.send("DELETE", path);
      assert.equal((await blobs.send("PUT", path, { headers: BLOCK, body: "x" })).status, 201);
      await lease({
        "x-ms-lease-action": "acquire",
        "x-ms-lease-duration": "-1",
        "x-ms-proposed-lease-id": LEASE,
      });
      const absent = { "If-None-Match": "*" };
      const held = { ...absent, "x-ms-lease-id": LEASE };
      assertStorageRefused(await write(absent), 412, "LeaseIdMissing");
      const done = await write(held);
      assert.equal(done.status, name === "Copy Blob" ? 202 : 201, `${name} ${done}`);
      await lease({ "x-ms-lease-action": "break", "x-ms-lease-break-period": "0" });
      assertStorageRefused(await write(held), 412, "LeaseLost");
      assertStorageRefused(await write(absent), 409, "BlobAlreadyExists");
    }
  });
});

describe("Checksums", () => {
  const MD5 = createHash("md5").update("x").digest("base64");

  it("of Set Blob Properties are stored as sent, and no property clears all", async () => {
    const path = "/habits/properties";
    await blobs.send("PUT", path, {
      headers: { ...BLOCK, "x-ms-blob-content-type": "text/css" },
      body: "x",
    });
    const set = (headers: Record<string, string>) =>
      blobs.send("PUT", `${path}?comp=properties`, { headers });
    const twelve = Buffer.alloc(12, 7).toString("base64");
    assert.equal((await set({ "x-ms-blob-content-md5": twelve })).status, 200);
    assert.equal((await blobs.send("HEAD", path)).header("content-md5"), twelve);
    assertStorageRefused(await set({ "x-ms-blob-content-md5": "a b" }), 400, "InvalidMd5");
    await set({ "x-ms-blob-content-language": "de" });
    assert.equal((await set({})).status, 200);
    const cleared = await blobs.send("HEAD", path);
    assert.equal(cleared.header("content-md5"), undefined);
    assert.equal(cleared.header("content-language"), undefined);
  });

  it("of Put Blob are that to be stored, if there are two", async () => {
    const wrong = createHash("md5").update("y").digest("base64");
    const put = (own: string, stored: string) =>
      blobs.send("PUT", "/habits/two", {
        headers: { ...BLOCK, "Content-MD5": own, "x-ms-blob-content-md5": stored },
        body: "x",
      });
    assert.equal((await put(wrong, MD5)).status, 201);
    assertStorageRefused(await put(MD5, wrong), 400, "Md5Mismatch");
  });

  it("of Put Block and Put Block List are MD5s before version 2019-02-02", async () => {
    const list = "<BlockList><Latest>QQ==</Latest></BlockList>";
    for (const [version, block, blocks] of [
      ["2018-11-09", MD5, createHash("md5").update(list).digest("base64")],
      ["2019-02-02", undefined, undefined],
    ] as const) {
      const headers = { "x-ms-version": version };
      const put = await blobs.send("PUT", "/habits/blocks?comp=block&blockid=QQ%3D%3D", {
        headers,
        body: "x",
      });
      assert.deepEqual([put.status, put.header("content-md5")], [201, block]);
      const made = await blobs.send("PUT", "/habits/blocks?comp=blocklist", {
        headers,
        body: list,
      });
      assert.deepEqual([made.status, made.header("content-md5")], [201, blocks]);
    }
  });

  it("of a synchronous copy are an MD5 only if the source's was sent", async () => {
    await blobs.send("PUT", "/habits/summed", { headers: BLOCK, body: "x" });
    const source = `${server.urls.blob}/devstoreaccount1/habits/summed`;
    const headers = { "x-ms-copy-source": source, "x-ms-requires-sync": "true" };
    const plain = await blobs.send("PUT", "/habits/summed2", { headers });
    assert.deepEqual([plain.status, plain.header("content-md5")], [202, undefined]);
    const sent = { ...headers, "x-ms-source-content-md5": MD5 };
    const summed = await blobs.send("PUT", "/habits/summed2", { headers: sent });
    assert.equal(summed.header("content-md5"), MD5);
  });
});

describe("A copy", () => {
  it("whose source has a token without r is refused, even if the account signed it", async () => {
    await blobs.send("PUT", "/habits/source", { headers: BLOCK, body: "x" });
    const copy = (token: string, as: { sas?: string } = {}) =>
      blobs.send("PUT", "/habits/target", {
        ...as,
        headers: {
          "x-ms-copy-source": `${server.urls.blob}/devstoreaccount1/habits/source?${token}`,
          ...(as.sas && { "x-ms-version": "2026-04-06" }),
        },
      });
    const all = { sas: accountSas({ ss: "b", sp: "rwc" }) };
    for (const as of [{}, all]) {
      assert.equal((await copy(accountSas({ ss: "b", sp: "r" }), as)).status, 202);
      const refused = await copy(accountSas({ ss: "b", sp: "w" }), as);
      assertStorageRefused(refused, 403, "CannotVerifyCopySource");
      const expired = accountSas({ ss: "b", sp: "r", se: "2020-01-01T00:00:00Z" });
      assertStorageRefused(await copy(expired, as), 403, "CannotVerifyCopySource");
    }
  });
});

describe("A batch of blobs", () => {
  const part = (line: string, headers = "") =>
    `--batch_1\r\nContent-Type: application/http\r\nContent-ID: 7\r\n\r\n${line} HTTP/1.1\r\n${headers}\r\n`;
  const send = (path: string, parts: string) =>
    blobs.send("POST", path, {
      headers: { "Content-Type": "multipart/mixed; boundary=batch_1" },
      body: `${parts}--batch_1--\r\n`,
    });
  const sas = accountSas({ ss: "b", sp: "d" });

  it("answers each part by its own credentials, with its id", async () => {
    await blobs.send("PUT", "/habits/batched", { headers: BLOCK, body: "x" });
    const path = "/devstoreaccount1/habits/batched";
    const parts = [
      part(`DELETE ${path}`),
      part(`DELETE ${path}?${accountSas({ ss: "b", sp: "r" })}`),
      part(`PUT ${path}?comp=tier&${sas}`, "x-ms-access-tier: Cool\r\n"),
      part(`GET ${path}?${sas}`),
      part(`DELETE ${path}?${sas}`),
      part(`DELETE ${path}?${sas}`),
    ];
    const answer = await send("/?comp=batch", parts.join(""));
    assert.equal(answer.status, 202, String(answer));
    assert.deepEqual(
      [...answer.text.matchAll(/Content-ID: 7\r\n\r\nHTTP\/1\.1 (\d+) /g)].map(([, code]) => code),
      ["401", "403", "403", "400", "202", "404"],
    );
    assert.match(answer.text, /x-ms-error-code: NoAuthenticationInformation\r\n/);
  });

  it("shows when a tier was set", async () => {
    await blobs.send("PUT", "/habits/tiered", { headers: BLOCK, body: "x" });
    const before = await blobs.send("HEAD", "/habits/tiered");
    assert.equal(before.header("x-ms-access-tier-change-time"), undefined);
    await blobs.send("PUT", "/habits/tiered?comp=tier", {
      headers: { "x-ms-access-tier": "Cool" },
    });
    const after = await blobs.send("HEAD", "/habits/tiered");
    assert.match(after.header("x-ms-access-tier-change-time") ?? "", / GMT$/);
    const list = await blobs.send("GET", "/habits?restype=container&comp=list&prefix=tiered");
    assert.match(list.text, /<AccessTier>Cool<\/AccessTier><AccessTierChangeTime>[^<]+ GMT</);
  });

  it("of a container reaches no other, and has at most 256 parts", async () => {
    await blobs.send("PUT", "/habits2?restype=container");
    await blobs.send("PUT", "/habits2/x", { headers: BLOCK, body: "x" });
    const elsewhere = part(`DELETE /devstoreaccount1/habits2/x?${sas}`);
    const answer = await send("/habits?restype=container&comp=batch", elsewhere);
    assert.match(answer.text, /HTTP\/1\.1 400 /);
    assert.equal((await blobs.send("GET", "/habits2/x")).status, 200);
    const many = elsewhere.repeat(257);
    assertStorageRefused(await send("/?comp=batch", many), 400, "ExceedsMaxBatchRequestCount");
    assertStorageRefused(await send("/?comp=batch", ""), 400, "InvalidInput");
  });
});

describe("Recorded refusals", () => {
  it("of a read with If-None-Match: * need no blob", async () => {
    const headers = { "If-None-Match": "*" };
    for (const path of ["/habits/none", "/habits/none?comp=metadata"]) {
      const answer = await blobs.send("GET", path, { headers });
      assertStorageRefused(answer, 400, "UnsatisfiableCondition");
    }
    const head = await blobs.send("HEAD", "/habits/none", { headers });
    assertStorageRefused(head, 400, "UnsatisfiableCondition");
  });

  it("of a message look for the queue first, then at the receipt", async () => {
    for (const [method, query] of [
      ["PUT", "?popreceipt=x&visibilitytimeout=0"],
      ["PUT", "?visibilitytimeout=0"],
      ["DELETE", "?popreceipt=x"],
      ["DELETE", ""],
    ] as const) {
      const missing = await queues.send(method, `/none/messages/no-guid${query}`);
      assertStorageRefused(missing, 404, "QueueNotFound");
    }
    const garbage = await queues.send("DELETE", "/habits/messages/no-guid?popreceipt=garbage");
    const details = assertStorageRefused(garbage, 400, "InvalidQueryParameterValue");
    assert.equal(details.Reason, "Invalid pop receipt format");
  });

  it("of the account's root without credentials name comp", async () => {
    const root = { sas: "" };
    for (const path of ["/", "", "/?comp=none"]) {
      const answer = await blobs.send("GET", path, root);
      const { QueryParameterName } = assertStorageRefused(
        answer,
        400,
        "InvalidQueryParameterValue",
      );
      assert.equal(QueryParameterName, "comp");
    }
    assertStorageRefused(await blobs.send("GET", "/?comp=list", root), 404, "ResourceNotFound");
  });

  it("of an expired SAS begin with the service's words", async () => {
    const sas = accountSas({ ss: "b", sp: "r", se: "2020-01-01T00:00:00Z" });
    const details = assertStorageRefused(
      await blobs.send("GET", "/habits/none", { sas }),
      403,
      "AuthenticationFailed",
    );
    assert.match(
      details.AuthenticationErrorDetail!,
      /^Signed expiry time \[Wed, 01 Jan 2020 00:00:00 GMT\] must be after signed start time \[/,
    );
  });

  it("of metadata have the whole text", async () => {
    const answer = await queues.send("PUT", "/habits", { headers: { "x-ms-meta-1": "x" } });
    assertStorageRefused(answer, 400, "InvalidMetadata");
    assert.match(
      answer.text,
      /The metadata specified is invalid\. It has characters that are not permitted\./,
    );
  });

  it("of HEAD have no Content-Type", async () => {
    assertStorageRefused(await queues.send("HEAD", "/none?comp=metadata"), 404, "QueueNotFound");
    assertStorageRefused(await blobs.send("HEAD", "/habits/none"), 404, "BlobNotFound");
  });

  it("of a time to live are those of the version", async () => {
    const body = "<QueueMessage><MessageText>x</MessageText></QueueMessage>";
    const put = async (version: string, seconds: string) => {
      const headers = { "x-ms-version": version };
      return (
        await queues.send("POST", `/habits/messages?messagettl=${seconds}`, { headers, body })
      ).status;
    };
    assert.equal(await put("2017-07-29", "604801"), 201);
    assert.equal(await put("2017-07-29", "-1"), 201);
    assert.equal(await put("2017-04-17", "604800"), 201);
    for (const seconds of ["604801", "-1", "0"]) {
      assert.equal(await put("2017-04-17", seconds), 400, seconds);
    }
    for (const version of ["2017-04-17", "2026-04-06"]) {
      assert.equal(await put(version, "12345678901234567890"), 400);
    }
  });
});

describe("Versions", () => {
  it("of the default may be old: then callers without one are told it", async () => {
    const set = (version: string) =>
      blobs.send("PUT", "/?restype=service&comp=properties", {
        body: `<StorageServiceProperties><DefaultServiceVersion>${version}</DefaultServiceVersion></StorageServiceProperties>`,
      });
    assert.equal((await set("2014-02-14")).status, 202);
    const found = await blobs.send("GET", "/?restype=service&comp=properties", {});
    assert.match(found.text, /<DefaultServiceVersion>2014-02-14</);
    assert.equal((await set("2026-04-06")).status, 202);
  });

  it("of a SAS without a version header may be as old as its sv", async () => {
    await queues.send("PUT", "/habits?comp=acl", { body: "<SignedIdentifiers />" });
    const se = "2999-01-01T00:00:00Z";
    for (const [sv, resource] of [
      ["2012-02-12", "/devstoreaccount1/habits"],
      ["2014-02-14", "/devstoreaccount1/habits"],
      ["2015-02-21", "/queue/devstoreaccount1/habits"],
    ] as const) {
      const sig = encodeURIComponent(sign(KEY, ["r", "", se, resource, "", sv].join("\n")));
      const sas = `sv=${sv}&sp=r&se=${encodeURIComponent(se)}&sig=${sig}`;
      const answer = await queues.send("GET", "/habits/messages?peekonly=true", { sas });
      assert.deepEqual([answer.status, answer.header("x-ms-version")], [200, sv]);
    }
  });
});
