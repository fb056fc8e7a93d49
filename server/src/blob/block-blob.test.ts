import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { StructuredMessageWriter } from "@rowhouse/protocol/structured-message";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { digestOf } from "./content-digest.ts";
import { BlobLab, type LabRequest } from "./test-blob-lab.ts";

const BLOCK = { "x-ms-blob-type": "BlockBlob" };
let lab: BlobLab;

before(async () => {
  lab = await BlobLab.open();
  await lab.must("PUT", "/docs?restype=container");
});
after(() => lab.close());

describe("Put Blob", () => {
  for (const length of [0, 1, 131_072, 131_073, 5 * 1_048_576]) {
    it(`keeps ${length} bytes as they are, and tells their checksums`, async () => {
      const body = Buffer.alloc(length, "abc");
      const { headers } = await put("/docs/size", { body });
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
    "trailing.",
    ".",
    "\u0000\u0001\r\n",
    "x".repeat(1024),
    Array.from({ length: 254 }, () => "s").join("/"),
  ]) {
    const shown = JSON.stringify(name.slice(0, 20));
    it(`takes ${shown}${name.length > 20 ? `… (${name.length})` : ""} for a name`, async () => {
      const path = `/names/${encodeURIComponent(name).replaceAll("%2F", "/")}`;
      await lab.send("PUT", "/names?restype=container");
      await put(path, { body: name });
      assert.equal((await lab.must("GET", path)).body.toString(), name);
      await lab.must("DELETE", path);
    });
  }

  it("refuses names that are too long or too deep", async () => {
    const deep = Array.from({ length: 255 }, () => "s").join("/");
    for (const name of ["x".repeat(1025), deep]) {
      await lab.refused("400 OutOfRangeInput", "PUT", `/docs/${name}`, { headers: BLOCK });
    }
    // Within the documented limit, and longer than keys of some engines.
    const engine = new MemoryEngine();
    Object.assign(engine, { keyBytesMax: 2688 });
    const narrow = await BlobLab.open({ engine });
    await narrow.must("PUT", "/docs?restype=container");
    const wide = encodeURIComponent("漢".repeat(1024));
    await narrow.refused("400 OutOfRangeInput", "PUT", `/docs/${wide}`, { headers: BLOCK });
    await narrow.close();
  });

  it("stores properties from their own headers, else from those of the body", async () => {
    await put("/docs/p", {
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
    await put("/docs/p");
    const plain = (await lab.must("HEAD", "/docs/p")).headers;
    assert.equal(plain.get("content-type"), "application/octet-stream");
    assert.equal(plain.get("content-encoding"), undefined);
  });

  it("checks what the sender says of the content", async () => {
    const body = "hello world";
    const md5 = "XrY7u+Ae7tCTyyK7j1rNww==";
    const crc64 = "vo7q9sPVKY0=";
    await put("/docs/sums", { body, headers: { "Content-MD5": md5 } });
    await put("/docs/sums", { body, headers: { "x-ms-content-crc64": crc64 } });
    await put("/docs/sums", { body, headers: { "x-ms-blob-content-md5": md5 } });
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
      // Some content is summed as it arrives, elsewhere, and stored before it is known to be wrong.
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

  it("says what is wrong with a body after all that the blob does not allow", async () => {
    await put("/docs/judged", { headers: { "x-ms-meta-a": "1" } });
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

  it("takes long content out of segments that end anywhere, and knows its checksums", async () => {
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

  it("takes content out of a structured message, and checks all of that", async () => {
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

  it("refuses what it cannot be", async () => {
    for (const [headers, expected] of [
      [{}, "400 MissingRequiredHeader"],
      [{ "x-ms-blob-type": "Blob" }, "400 InvalidHeaderValue"],
      [{ "x-ms-blob-type": "PageBlob" }, "501 NotImplemented"],
      [{ ...BLOCK, "x-ms-copy-source": "http://a/b" }, "501 NotImplemented"],
      [{ ...BLOCK, "x-ms-tags": "a=b" }, "501 NotImplemented"],
      [{ ...BLOCK, "x-ms-encryption-key": "k" }, "501 NotImplemented"],
      [{ ...BLOCK, "x-ms-immutability-policy-mode": "Unlocked" }, "501 NotImplemented"],
      [{ ...BLOCK, "x-ms-legal-hold": "true" }, "501 NotImplemented"],
      [{ ...BLOCK, "x-ms-blob-content-length": "512" }, "400 InvalidHeaderValue"],
      [{ ...BLOCK, "x-ms-access-tier": "Archive" }, "400 InvalidHeaderValue"],
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

  it("replaces all there was, of whatever type", async () => {
    await put("/docs/all", {
      body: "1",
      headers: { "x-ms-meta-a": "1", "x-ms-access-tier": "Cool" },
    });
    assert.equal((await lab.must("HEAD", "/docs/all")).headers.get("x-ms-access-tier"), "Cool");
    await lab.must("PUT", "/docs/all?comp=block&blockid=AAAA", { body: "2" });
    await lab.must("PUT", "/docs/all", { headers: { "x-ms-blob-type": "AppendBlob" } });
    const { headers } = await lab.must("HEAD", "/docs/all");
    assert.equal(headers.get("x-ms-blob-type"), "AppendBlob");
    assert.equal(headers.get("x-ms-meta-a"), undefined);
    await put("/docs/all", { body: "3" });
    const list = await lab.must("GET", "/docs/all?comp=blocklist&blocklisttype=all");
    assert.match(list.body.toString(), /<CommittedBlocks \/><UncommittedBlocks \/>/);
  });

  it("lets one of many writers through who know the same ETag, or that there is none", async () => {
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

describe("Get Blob", () => {
  const content = Buffer.from("hello world");

  before(async () => {
    await put("/docs/hello", { body: content });
    await put("/docs/empty");
  });

  for (const [range, expected] of [
    ["bytes=0-0", "bytes 0-0/11"],
    ["bytes=0-", "bytes 0-10/11"],
    ["bytes=5-1000", "bytes 5-10/11"],
    ["bytes=-5", undefined],
  ] as const) {
    it(`answers ${range} with ${expected ?? "all of it"}`, async () => {
      const { status, headers, body } = await lab.must("GET", "/docs/hello", {
        headers: { Range: range },
      });
      assert.equal(status, expected ? 206 : 200);
      assert.equal(headers.get("content-range"), expected);
      assert.equal(headers.get("content-length"), String(body.length));
      const [first = 0, last = 10] = (expected?.match(/\d+-\d+/)?.[0] ?? "").split("-").map(Number);
      assert.deepEqual(body, expected ? content.subarray(first, last + 1) : content);
      const whole = headers.get(expected ? "x-ms-blob-content-md5" : "content-md5");
      assert.equal(whole, "XrY7u+Ae7tCTyyK7j1rNww==");
    });
  }

  it("refuses ranges behind the end, and every range of nothing", async () => {
    const answer = await lab.refused("416 InvalidRange", "GET", "/docs/hello", {
      headers: { Range: "bytes=11-" },
    });
    assert.equal(answer.headers.get("content-range"), "bytes */11");
    await lab.refused("416 InvalidRange", "GET", "/docs/empty", {
      headers: { "x-ms-range": "bytes=0-33554431" },
    });
  });

  it("sums a range when asked to, up to 4 MiB", async () => {
    const get = (headers: Record<string, string>) => lab.must("GET", "/docs/hello", { headers });
    const range = { "x-ms-range": "bytes=0-4" };
    const md5 = (await get({ ...range, "x-ms-range-get-content-md5": "true" })).headers;
    assert.equal(md5.get("content-md5"), createHash("md5").update("hello").digest("base64"));
    const crc64 = (await get({ ...range, "x-ms-range-get-content-crc64": "true" })).headers;
    assert.equal(
      crc64.get("x-ms-content-crc64"),
      digestOf(Buffer.from("hello"), { md5: false }).crc64,
    );
    const large = Buffer.alloc(5 * 1_048_576, 7);
    await put("/docs/large", { body: large });
    const four = { "x-ms-range": "bytes=1-4194304", "x-ms-range-get-content-md5": "true" };
    await lab.must("GET", "/docs/large", { headers: four });
    for (const [headers, expected] of [
      [
        { "x-ms-range": "bytes=0-4194304", "x-ms-range-get-content-md5": "true" },
        "400 OutOfRangeInput",
      ],
      [{ "x-ms-range-get-content-md5": "true" }, "400 InvalidHeaderValue"],
      [{ ...four, "x-ms-range-get-content-crc64": "true" }, "400 InvalidHeaderValue"],
      [{ ...four, "x-ms-range-get-content-md5": "yes" }, "400 InvalidHeaderValue"],
    ] as const) {
      await lab.refused(expected, "GET", "/docs/large", { headers });
    }
  });

  it("puts content into a structured message when asked to", async () => {
    const headers = { "x-ms-structured-body": "XSM/1.0; properties=crc64" };
    const answer = await lab.must("GET", "/docs/hello", { headers });
    assert.equal(answer.headers.get("content-length"), "50");
    assert.equal(answer.headers.get("x-ms-structured-content-length"), "11");
    assert.equal(answer.body.subarray(23, 34).toString(), "hello world");
    const part = await lab.must("GET", "/docs/hello", {
      headers: { ...headers, Range: "bytes=6-10" },
    });
    assert.equal(part.headers.get("content-range"), "bytes 6-10/11");
    assert.equal(part.body.subarray(23, 28).toString(), "world");
  });

  it("is missing whatever a reader knows of it", async () => {
    for (const header of ["If-Match", "If-None-Match"]) {
      for (const etag of ["*", '"0x8DECF0000000000"']) {
        const headers = { [header]: etag };
        await lab.refused("404 BlobNotFound", "GET", "/docs/missing", { headers });
      }
    }
  });

  it("knows no snapshots and no versions", async () => {
    for (const path of ["/docs/hello?snapshot=2026-01-01", "/docs/hello?versionid=1"]) {
      for (const method of ["GET", "HEAD", "DELETE"]) {
        await lab.refused("404 BlobNotFound", method, path);
      }
      await lab.refused("404 BlobNotFound", "GET", `${path}&comp=blocklist`);
      await lab.refused("404 BlobNotFound", "GET", `${path}&comp=metadata`);
    }
  });

  it("shows one version however long it takes, or breaks off", async () => {
    const large = Buffer.alloc(3 * 1_048_576, 1);
    await put("/docs/replaced", { body: large });
    const { blobs, contents } = lab.service.service.context;
    const name = { account: "devstoreaccount1", container: "docs", blob: "replaced" };
    const { blob } = (await blobs.read(name)).record;
    const parts: Uint8Array[] = [];
    for await (const part of contents.read(blob!, 0, large.length)) {
      parts.push(Uint8Array.from(part));
      await put("/docs/replaced", { body: Buffer.alloc(3 * 1_048_576, parts.length + 1) });
    }
    assert.ok(Buffer.concat(parts).equals(large));
  });
});

describe("Put Block and Put Block List", () => {
  it("build content in the order of the list, from where it says", async () => {
    await putBlock("b", "AAAA", "1");
    await putBlock("b", "BBBB", "2");
    await putList("b", "<Latest>BBBB</Latest><Uncommitted>AAAA</Uncommitted>");
    assert.equal(await textOf("b"), "21");
    await putBlock("b", "AAAA", "new");
    await putList("b", "<Committed>AAAA</Committed><Latest>AAAA</Latest><Latest>BBBB</Latest>");
    assert.equal(await textOf("b"), "1new2");
    await refusedList("400 InvalidBlockList", "b", "<Uncommitted>BBBB</Uncommitted>");
    await putBlock("b", "CCCC", "3");
    await refusedList("400 InvalidBlockList", "b", "<Committed>CCCC</Committed>");
    await putList("b", "<Uncommitted>CCCC</Uncommitted>\n <Committed> BBBB </Committed>");
    assert.equal(await textOf("b"), "32");
    const list = (await lab.must("GET", "/docs/b?comp=blocklist&blocklisttype=all")).body;
    assert.equal(
      list.toString(),
      '<?xml version="1.0" encoding="utf-8"?><BlockList><CommittedBlocks><Block><Name>CCCC</Name><Size>1</Size></Block><Block><Name>BBBB</Name><Size>1</Size></Block></CommittedBlocks><UncommittedBlocks /></BlockList>',
    );
    await lab.assertTidy();
  });

  it("leave all as it was when a block is not there", async () => {
    await putBlock("kept", "AAAA", "1");
    await refusedList("400 InvalidBlockList", "kept", "<Latest>AAAA</Latest><Latest>ZZZZ</Latest>");
    await lab.refused("404 BlobNotFound", "GET", "/docs/kept");
    await putList("kept", "<Latest>AAAA</Latest>");
  });

  it("refuse lists that are none", async () => {
    for (const [body, expected] of [
      ["", "400 InvalidXmlDocument"],
      ["<BlockList>", "400 InvalidXmlDocument"],
      ["<Blocks />", "400 InvalidXmlDocument"],
      ["<BlockList><Block>AAAA</Block></BlockList>", "400 InvalidXmlDocument"],
      ["<BlockList>text</BlockList>", "400 InvalidXmlDocument"],
      ["<!DOCTYPE a><BlockList />", "400 InvalidXmlDocument"],
    ] as const) {
      await lab.refused(expected, "PUT", "/docs/nolist?comp=blocklist", { body });
    }
    const headers = { "Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA==" };
    const body = "<BlockList />";
    await lab.refused("400 Md5Mismatch", "PUT", "/docs/nolist?comp=blocklist", { body, headers });
    await lab.refused("413 RequestBodyTooLarge", "PUT", "/docs/nolist?comp=blocklist", {
      headers: { "Content-Length": "9000000" },
    });
  });

  it("refuse blocks that are none", async () => {
    const path = "/docs/b?comp=block";
    await lab.refused("400 MissingRequiredQueryParameter", "PUT", path, { body: "x" });
    await lab.refused("400 InvalidQueryParameterValue", "PUT", `${path}&blockid=AAA`, {
      body: "x",
    });
    await lab.refused("400 InvalidHeaderValue", "PUT", `${path}&blockid=AAAA`);
    await putBlock("b", "AAAA", "x");
    await lab.refused("400 InvalidBlobOrBlock", "PUT", `${path}&blockid=AAAAAA==`, { body: "x" });
    await lab.refused("413 RequestBodyTooLarge", "PUT", `${path}&blockid=AAAA`, {
      headers: { "Content-Length": "4194304001" },
    });
    await lab.must("PUT", "/docs/log", { headers: { "x-ms-blob-type": "AppendBlob" } });
    await lab.refused("409 InvalidBlobType", "PUT", "/docs/log?comp=block&blockid=AAAA", {
      body: "x",
    });
    await refusedList("409 InvalidBlobType", "log", "");
    await lab.refused("409 InvalidBlobType", "GET", "/docs/log?comp=blocklist");
  });

  it("end a lease that holds nobody off any more, as every write does", async () => {
    const id = { "x-ms-lease-id": "c9da6455-213d-42c9-9a79-3e9149a57833" };
    const lease = (headers: Record<string, string>) =>
      lab.must("PUT", "/docs/held?comp=lease", { headers });
    await put("/docs/held", { body: "x" });
    const { headers: before } = await lab.must("HEAD", "/docs/held");
    // To a blob without a draft, and to one that has one.
    for (const block of ["AAAA", "BBBB"]) {
      await lease({
        "x-ms-lease-action": "acquire",
        "x-ms-lease-duration": "15",
        "x-ms-proposed-lease-id": id["x-ms-lease-id"],
      });
      lab.clock.ms += 15_000;
      await putBlock("held", block, "x");
      const { headers } = await lab.must("HEAD", "/docs/held");
      assert.equal(headers.get("x-ms-lease-state"), "available");
      assert.equal(headers.get("etag"), before.get("etag"));
      await lab.refused("409 LeaseIdMismatchWithLeaseOperation", "PUT", "/docs/held?comp=lease", {
        headers: { "x-ms-lease-action": "renew", ...id },
      });
    }
    await putList("held", "<Latest>AAAA</Latest><Latest>BBBB</Latest>");
    assert.equal(await textOf("held"), "xx");
    await lab.assertTidy();
  });

  it("take blocks that come side by side, and keep each that was acknowledged", async () => {
    const ids = Array.from({ length: 100 }, (_, i) => Buffer.from([0, 0, i]).toString("base64"));
    await Promise.all(ids.map((id, i) => putBlock("many", id, String.fromCharCode(33 + i))));
    await putList("many", ids.map((id) => `<Latest>${id}</Latest>`).join(""));
    const expected = ids.map((_, i) => String.fromCharCode(33 + i)).join("");
    assert.equal(await textOf("many"), expected);
    await lab.assertTidy();
  });

  it("never lose a block to a list that was made without it", async () => {
    for (let round = 0; round < 20; round++) {
      const name = `race-${round}`;
      await putBlock(name, "AAAA", "1");
      const [, list] = await Promise.all([
        putBlock(name, "BBBB", "2"),
        putList(name, "<Latest>AAAA</Latest>"),
      ]);
      // Whichever came first: the block was there and went with the list, or is there now.
      assert.equal(list, undefined);
      const left = await lab.must("GET", `/docs/${name}?comp=blocklist&blocklisttype=uncommitted`);
      assert.match(left.body.toString(), /<UncommittedBlocks( \/>|><Block><Name>BBBB)/);
    }
    await lab.assertTidy();
  });

  it("hold 50,000 blocks and no more", async () => {
    await putBlock("full", "AAAA", "x");
    const block = "<Latest>AAAA</Latest>";
    await refusedList("400 BlockListTooLong", "full", block.repeat(50_001));
    await putList("full", block.repeat(50_000));
    assert.equal((await lab.must("HEAD", "/docs/full")).headers.get("content-length"), "50000");
    const range = { Range: "bytes=49998-" };
    assert.equal((await lab.must("GET", "/docs/full", { headers: range })).body.toString(), "xx");
    await lab.must("DELETE", "/docs/full");
    await lab.assertTidy();
  });

  it("leave uncommitted blocks out of all else", async () => {
    await putBlock("staged", "AAAA", "x");
    for (const [method, path] of [
      ["GET", "/docs/staged"],
      ["HEAD", "/docs/staged"],
      ["GET", "/docs/staged?comp=metadata"],
      ["PUT", "/docs/staged?comp=metadata"],
      ["PUT", "/docs/staged?comp=properties"],
    ] as const) {
      await lab.refused("404 BlobNotFound", method, path);
    }
    const headers = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };
    await lab.refused("404 BlobNotFound", "PUT", "/docs/staged?comp=lease", { headers });
    // Whoever deletes one version of a blob does not mean the blocks that came after it.
    const condition = { headers: { "If-Match": '"0x8DECF31A2B4C6D1"' } };
    await lab.refused("412 ConditionNotMet", "DELETE", "/docs/staged", condition);
    await lab.must("DELETE", "/docs/staged");
    await lab.refused("404 BlobNotFound", "GET", "/docs/staged?comp=blocklist&blocklisttype=all");
  });

  it("set properties by the list, which clears what it does not name", async () => {
    await putBlock("props", "AAAA", "x");
    const headers = {
      "x-ms-blob-content-type": "text/css",
      "x-ms-blob-content-md5": "AAAAAAAAAAAAAAAAAAAAAA==",
      "x-ms-meta-a": "1",
      "Content-Type": "application/xml",
    };
    const body = "<BlockList><Latest>AAAA</Latest></BlockList>";
    await lab.must("PUT", "/docs/props?comp=blocklist", { headers, body });
    const first = (await lab.must("HEAD", "/docs/props")).headers;
    assert.equal(first.get("content-type"), "text/css");
    assert.equal(first.get("content-md5"), "AAAAAAAAAAAAAAAAAAAAAA==");
    lab.clock.ms += 5000;
    await lab.must("PUT", "/docs/props?comp=blocklist", { body });
    const second = (await lab.must("HEAD", "/docs/props")).headers;
    assert.equal(second.get("content-type"), "application/octet-stream");
    assert.equal(second.get("content-md5"), undefined);
    assert.equal(second.get("x-ms-meta-a"), undefined);
    assert.equal(second.get("x-ms-creation-time"), first.get("x-ms-creation-time"));
    assert.notEqual(second.get("last-modified"), first.get("last-modified"));
    await put("/docs/props");
    const third = (await lab.must("HEAD", "/docs/props")).headers;
    assert.notEqual(third.get("x-ms-creation-time"), first.get("x-ms-creation-time"));
  });
});

function put(path: string, request: LabRequest = {}) {
  return lab.must("PUT", path, { ...request, headers: { ...BLOCK, ...request.headers } });
}

async function putBlock(name: string, id: string, body: string): Promise<void> {
  const path = `/docs/${name}?comp=block&blockid=${encodeURIComponent(id)}`;
  await lab.must("PUT", path, { body });
}

async function putList(name: string, blocks: string): Promise<void> {
  const body = `<BlockList>${blocks}</BlockList>`;
  await lab.must("PUT", `/docs/${name}?comp=blocklist`, { body });
}

async function refusedList(expected: string, name: string, blocks: string): Promise<void> {
  const body = `<BlockList>${blocks}</BlockList>`;
  await lab.refused(expected, "PUT", `/docs/${name}?comp=blocklist`, { body });
}

async function textOf(name: string): Promise<string> {
  return (await lab.must("GET", `/docs/${name}`)).body.toString();
}
