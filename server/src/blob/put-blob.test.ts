import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { StructuredMessageWriter } from "@rowhouse/protocol/structured-message";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { digestOf } from "./content-life/content-digest.ts";
import { BLOCK, BlobLab } from "./test-blob-lab.ts";

let lab: BlobLab;

before(async () => {
  lab = await BlobLab.open();
  await lab.must("PUT", "/docs?restype=container");
});
after(() => lab.close());

describe("Put Blob", () => {
  for (const length of [0, 1, 131_072, 131_073, 5 * 1_048_576]) {
    it(`stores ${length} bytes unchanged, and returns their checksums`, async () => {
      const body = Buffer.alloc(length, "abc");
      const { headers } = await lab.put("/docs/size", { body });
      const sums = digestOf(body, { md5: true });
      assert.equal(headers.get("content-md5"), sums.md5);
      assert.equal(headers.get("x-ms-content-crc64"), sums.crc64);
      const read = await lab.must("GET", "/docs/size");
      assert.ok(read.body.equals(body));
      assert.equal(read.headers.get("content-md5"), sums.md5);
      assert.equal(read.headers.get("content-length"), String(length));
    });
  }

  for (const name of [
    "a b",
    "a+b",
    "100%",
    "#?&",
    "😀",
    "//",
    "a//b/",
    ".leading",
    "\u0000\u0001\r\n",
    "x".repeat(1024),
    Array.from({ length: 254 }, () => "s").join("/"),
  ]) {
    const shown = JSON.stringify(name.slice(0, 20));
    it(`accepts the name ${shown}${name.length > 20 ? `… (${name.length})` : ""}`, async () => {
      const path = `/names/${encodeURIComponent(name).replaceAll("%2F", "/")}`;
      await lab.send("PUT", "/names?restype=container");
      await lab.put(path, { body: name });
      assert.equal((await lab.must("GET", path)).body.toString(), name);
      await lab.must("DELETE", path);
    });
  }

  it("reads a name as the service does: its dots and backslashes", async () => {
    await lab.send("PUT", "/names?restype=container");
    await lab.put("/names/a%5Cb./x/../%2E/c.", { body: "dots" });
    assert.equal((await lab.must("GET", "/names/a/b/c")).body.toString(), "dots");
    const list = await lab.must("GET", "/names?restype=container&comp=list");
    assert.match(list.body.toString(), /<Name>a\/b\/c<\/Name>/);
    await lab.must("DELETE", "/names/a/b/./c...");
    await lab.refused("400 InvalidUri", "PUT", "/names/..", {
      headers: { "x-ms-blob-type": "BlockBlob" },
      body: "x",
    });
  });

  it("and Put Block refuse a large body by conditions and blob type before they read it", async () => {
    await lab.must("PUT", "/docs/there", { headers: { "x-ms-blob-type": "AppendBlob" } });
    const sent = { "Content-Length": "300000" };
    const put = { ...BLOCK, ...sent, "If-None-Match": "*" };
    await lab.refused("409 BlobAlreadyExists", "PUT", "/docs/there", {
      headers: put,
      stream: unread(),
    });
    await lab.refused("409 InvalidBlobType", "PUT", "/docs/there?comp=block&blockid=AAAA", {
      headers: sent,
      stream: unread(),
    });
  });

  it("refuses names that are too long or too deep", async () => {
    const deep = Array.from({ length: 255 }, () => "s").join("/");
    for (const name of ["x".repeat(1025), deep]) {
      await lab.refused("400 OutOfRangeInput", "PUT", `/docs/${name}`, { headers: BLOCK });
    }
    // Within the documented limit, but too long for some engines' keys.
    const engine = new MemoryEngine();
    Object.assign(engine, { keyBytesMax: 2688 });
    const narrow = await BlobLab.open({ engine });
    await narrow.must("PUT", "/docs?restype=container");
    const wide = encodeURIComponent("漢".repeat(1024));
    await narrow.refused("400 OutOfRangeInput", "PUT", `/docs/${wide}`, { headers: BLOCK });
    await narrow.close();
  });

  it("stores properties from x-ms-blob-* headers, or else from those of the body", async () => {
    await lab.put("/docs/p", {
      headers: {
        "Content-Type": "text/html",
        "Content-Encoding": "gzip",
        "Content-Language": "de",
        "Cache-Control": "no-cache",
        "x-ms-blob-content-type": "text/plain",
        "x-ms-blob-content-disposition": "inline",
      },
    });
    const { headers } = await lab.must("HEAD", "/docs/p");
    assert.equal(headers.get("content-type"), "text/plain");
    assert.equal(headers.get("content-encoding"), "gzip");
    assert.equal(headers.get("content-language"), "de");
    assert.equal(headers.get("cache-control"), "no-cache");
    assert.equal(headers.get("content-disposition"), "inline");
    await lab.put("/docs/p");
    const plain = (await lab.must("HEAD", "/docs/p")).headers;
    assert.equal(plain.get("content-type"), "application/octet-stream");
    assert.equal(plain.get("content-encoding"), undefined);
  });

  it("checks the checksums that the client sends", async () => {
    const body = "hello world";
    const md5 = "XrY7u+Ae7tCTyyK7j1rNww==";
    const crc64 = "vo7q9sPVKY0=";
    await lab.put("/docs/sums", { body, headers: { "Content-MD5": md5 } });
    await lab.put("/docs/sums", { body, headers: { "x-ms-content-crc64": crc64 } });
    await lab.put("/docs/sums", { body, headers: { "x-ms-blob-content-md5": md5 } });
    const wrong = "AAAAAAAAAAAAAAAAAAAAAA==";
    for (const [headers, expected] of [
      [{ "Content-MD5": wrong }, "400 Md5Mismatch"],
      [{ "x-ms-blob-content-md5": wrong }, "400 Md5Mismatch"],
      [{ "x-ms-content-crc64": "AAAAAAAAAAA=" }, "400 Crc64Mismatch"],
      [{ "Content-MD5": "x" }, "400 InvalidMd5"],
      [{ "x-ms-blob-content-md5": "x" }, "400 InvalidMd5"],
      [{ "x-ms-content-crc64": "x" }, "400 InvalidHeaderValue"],
      [{ "Content-MD5": md5, "x-ms-content-crc64": crc64 }, "400 BothCrc64AndMd5HeaderPresent"],
    ] as const) {
      // Longer content is summed in another thread as it arrives, and stored before the mismatch is known.
      for (const content of [body, Buffer.alloc(2_000_000, "x")]) {
        await lab.refused(expected, "PUT", "/docs/sums", {
          body: content,
          headers: { ...BLOCK, ...headers },
        });
      }
    }
    assert.equal((await lab.must("GET", "/docs/sums")).body.toString(), body);
    await lab.assertTidy();
  });

  it("reports a wrong body only after failures of conditions, leases, types and missing blobs", async () => {
    await lab.put("/docs/judged", { headers: { "x-ms-meta-a": "1" } });
    await lab.must("PUT", "/docs/judged-log", { headers: { "x-ms-blob-type": "AppendBlob" } });
    const wrong = { "Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA==" };
    const stale = { "If-Match": '"0x1"' };
    const foreign = { "x-ms-lease-id": "1f812371-a41d-49e6-b123-f4b542e851c5" };
    const block = "comp=block&blockid=AAAA";
    for (const [expected, path, headers] of [
      ["404 ContainerNotFound", "/nobodys/a", BLOCK],
      ["412 ConditionNotMet", "/docs/judged", { ...BLOCK, ...stale }],
      ["404 ContainerNotFound", `/nobodys/a?${block}`, {}],
      ["409 InvalidBlobType", `/docs/judged-log?${block}`, {}],
      ["412 LeaseNotPresentWithBlobOperation", `/docs/judged?${block}`, foreign],
      ["404 BlobNotFound", "/docs/nobodys?comp=appendblock", {}],
      ["409 InvalidBlobType", "/docs/judged?comp=appendblock", {}],
      [
        "412 AppendPositionConditionNotMet",
        "/docs/judged-log?comp=appendblock",
        { "x-ms-blob-condition-appendpos": "7" },
      ],
      ["404 ContainerNotFound", "/nobodys/a?comp=blocklist", {}],
      ["412 ConditionNotMet", "/docs/judged?comp=blocklist", stale],
      ["400 Md5Mismatch", "/docs/judged", BLOCK],
      ["400 Md5Mismatch", `/docs/judged?${block}`, {}],
      ["400 Md5Mismatch", "/docs/judged-log?comp=appendblock", {}],
      ["400 Md5Mismatch", "/docs/judged?comp=blocklist", {}],
    ] as const) {
      for (const body of ["x", Buffer.alloc(200_000, "x")]) {
        await lab.refused(expected, "PUT", path, { body, headers: { ...headers, ...wrong } });
      }
    }
    await lab.assertTidy();
  });

  it("extracts long content from a structured message, and returns its checksums", async () => {
    const content = Buffer.from(Uint32Array.from({ length: 2_250_001 }, (_, i) => i * i).buffer);
    const writer = new StructuredMessageWriter(content.length);
    const body = Buffer.concat([writer.begin(), ...writer.write(content), writer.end()]);
    const headers = {
      ...BLOCK,
      "x-ms-structured-body": "XSM/1.0; properties=crc64",
      "x-ms-structured-content-length": String(content.length),
    };
    const answer = await lab.must("PUT", "/docs/segments", { headers, body });
    const sums = digestOf(content, { md5: true });
    assert.equal(answer.headers.get("content-md5"), sums.md5);
    assert.equal(answer.headers.get("x-ms-content-crc64"), sums.crc64);
    assert.ok((await lab.must("GET", "/docs/segments")).body.equals(content));
    body[6_000_000]! ^= 1;
    await lab.refused("400 Crc64Mismatch", "PUT", "/docs/segments", { headers, body });
  });

  it("extracts content from a structured message, and checks lengths and checksums", async () => {
    const message = Buffer.from(
      "0132000000000000000100010001000b0000000000000068656c6c6f20776f726c64be8eeaf6c3d5298dbe8eeaf6c3d5298d",
      "hex",
    );
    const structured = {
      ...BLOCK,
      "x-ms-structured-body": "XSM/1.0; properties=crc64",
      "x-ms-structured-content-length": "11",
    };
    await lab.must("PUT", "/docs/framed", { headers: structured, body: message });
    assert.equal((await lab.must("GET", "/docs/framed")).body.toString(), "hello world");
    const damaged = Buffer.from(message);
    damaged[30] = 0;
    for (const [headers, body, expected] of [
      [structured, damaged, "400 Crc64Mismatch"],
      [structured, message.subarray(0, 49), "400 InvalidInput"],
      [{ ...structured, "x-ms-structured-content-length": "12" }, message, "400 InvalidInput"],
      [
        { ...structured, "x-ms-structured-content-length": "51" },
        message,
        "400 InvalidHeaderValue",
      ],
      // So short a content would be held in memory, and all of this body with it.
      [{ ...structured, "Content-Length": "4000000000" }, message, "400 InvalidHeaderValue"],
      [{ ...structured, "x-ms-structured-body": "XSM/2.0" }, message, "400 InvalidHeaderValue"],
      [
        { ...structured, "Content-MD5": "XrY7u+Ae7tCTyyK7j1rNww==" },
        message,
        "400 UnsupportedHeader",
      ],
    ] as const) {
      await lab.refused(expected, "PUT", "/docs/framed", { headers, body });
    }
    const { "x-ms-structured-content-length": _, ...without } = structured;
    await lab.refused("400 MissingRequiredHeader", "PUT", "/docs/framed", {
      headers: without,
      body: message,
    });
    assert.equal((await lab.must("GET", "/docs/framed")).body.toString(), "hello world");
  });

  it("refuses unsupported, invalid and missing headers", async () => {
    for (const [headers, expected] of [
      [{}, "400 MissingRequiredHeader"],
      [{ "x-ms-blob-type": "Blob" }, "400 InvalidHeaderValue"],
      [{ "x-ms-blob-type": "PageBlob" }, "501 NotImplemented"],
      [{ ...BLOCK, "x-ms-copy-source": "http://a/b" }, "400 CopyAcrossAccountsNotSupported"],
      [{ ...BLOCK, "x-ms-tags": "a=b" }, "501 NotImplemented"],
      [{ ...BLOCK, "x-ms-encryption-key": "k" }, "501 NotImplemented"],
      [{ ...BLOCK, "x-ms-immutability-policy-mode": "Unlocked" }, "501 NotImplemented"],
      [{ ...BLOCK, "x-ms-legal-hold": "true" }, "501 NotImplemented"],
      [{ ...BLOCK, "x-ms-blob-content-length": "512" }, "400 InvalidHeaderValue"],
      [{ ...BLOCK, "x-ms-access-tier": "Frozen" }, "400 InvalidHeaderValue"],
      [{ ...BLOCK, "x-ms-lease-id": "none" }, "400 InvalidHeaderValue"],
      [{ ...BLOCK, "x-ms-meta-1a": "x" }, "400 InvalidMetadata"],
      [{ ...BLOCK, "x-ms-meta-a": "x".repeat(9000) }, "400 MetadataTooLarge"],
      [{ ...BLOCK, "Content-Length": "5242880001" }, "413 RequestBodyTooLarge"],
      [{ ...BLOCK, "Content-Length": "x" }, "400 InvalidHeaderValue"],
    ] as const) {
      await lab.refused(expected, "PUT", "/docs/refused", { headers });
    }
    await lab.refused("400 InvalidHeaderValue", "PUT", "/docs/refused", {
      headers: { "x-ms-blob-type": "AppendBlob" },
      body: "x",
    });
    await lab.refused("404 BlobNotFound", "HEAD", "/docs/refused");
  });

  it("replaces the whole existing blob, of any type", async () => {
    await lab.put("/docs/all", {
      body: "1",
      headers: { "x-ms-meta-a": "1", "x-ms-access-tier": "Cool" },
    });
    assert.equal((await lab.must("HEAD", "/docs/all")).headers.get("x-ms-access-tier"), "Cool");
    await lab.must("PUT", "/docs/all?comp=block&blockid=AAAA", { body: "2" });
    await lab.must("PUT", "/docs/all", { headers: { "x-ms-blob-type": "AppendBlob" } });
    const { headers } = await lab.must("HEAD", "/docs/all");
    assert.equal(headers.get("x-ms-blob-type"), "AppendBlob");
    assert.equal(headers.get("x-ms-meta-a"), undefined);
    await lab.put("/docs/all", { body: "3" });
    const list = await lab.must("GET", "/docs/all?comp=blocklist&blocklisttype=all");
    assert.match(list.body.toString(), /<CommittedBlocks \/><UncommittedBlocks \/>/);
  });

  it("succeeds for exactly one of many writers with the same ETag or with If-None-Match: *", async () => {
    for (const headers of [{ "If-None-Match": "*" }, undefined]) {
      const etag = (await lab.send("HEAD", "/docs/race")).headers.get("etag");
      const condition = headers ?? { "If-Match": etag! };
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, i) =>
          lab.send("PUT", "/docs/race", { headers: { ...BLOCK, ...condition }, body: `${i}` }),
        ),
      );
      assert.equal(answers.filter(({ status }) => status === 201).length, 1);
      const other = headers ? 409 : 412;
      assert.equal(answers.filter(({ status }) => status === other).length, 49);
    }
  });
});

async function* unread(): AsyncGenerator<Uint8Array> {
  yield assert.fail("The body was read.");
}
