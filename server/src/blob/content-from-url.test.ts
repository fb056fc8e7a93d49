import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { APPEND, BLOCK, BlobLab, OTHER_ACCOUNT, ROOT } from "./test-blob-lab.ts";

const MD5_OF_HELLO = "XUFAKrxLKna5cZ2REBfFkg==";
const SOURCE = { "x-ms-copy-source": `${ROOT}/docs/from` };

describe("Content from a URL", () => {
  let lab: BlobLab;

  beforeEach(async () => {
    lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    await lab.put("/docs/from", {
      headers: { "x-ms-blob-content-type": "text/plain", "x-ms-blob-cache-control": "no-cache" },
      body: "hello world",
    });
  });
  afterEach(async () => {
    await lab.assertTidy();
    await lab.close();
  });

  it("is a block of a block blob, whole or a range", async () => {
    const headers = { ...SOURCE, "x-ms-source-content-md5": MD5_OF_HELLO };
    const range = { "x-ms-source-range": "bytes=0-4" };
    const put = await lab.must("PUT", "/docs/to?comp=block&blockid=AAAA", {
      headers: { ...headers, ...range },
    });
    assert.equal(put.headers.get("content-md5"), MD5_OF_HELLO);
    await lab.must("PUT", "/docs/to?comp=block&blockid=BBBB", { headers: SOURCE });
    await lab.must("PUT", "/docs/to?comp=blocklist", {
      body: "<BlockList><Latest>AAAA</Latest><Latest>BBBB</Latest></BlockList>",
    });
    assert.equal((await lab.must("GET", "/docs/to")).body.toString(), "hellohello world");
  });

  it("is appended to an append blob, also the blob's own", async () => {
    await lab.must("PUT", "/docs/log", { headers: APPEND });
    const append = (headers: Record<string, string>) =>
      lab.must("PUT", "/docs/log?comp=appendblock", { headers });
    await append({ ...SOURCE, "x-ms-source-range": "bytes=6-" });
    await append({ "x-ms-copy-source": `${ROOT}/docs/log` });
    assert.equal((await lab.must("GET", "/docs/log")).body.toString(), "worldworld");
  });

  it("is a block blob, with the source's properties unless they are given or not wanted", async () => {
    await lab.put("/docs/to", {
      headers: { ...SOURCE, "x-ms-blob-content-type": "text/csv", "x-ms-meta-a": "1" },
    });
    const to = await lab.must("GET", "/docs/to");
    assert.equal(to.body.toString(), "hello world");
    assert.equal(to.headers.get("content-type"), "text/csv");
    assert.equal(to.headers.get("cache-control"), "no-cache");
    assert.equal(to.headers.get("content-md5"), "XrY7u+Ae7tCTyyK7j1rNww==");
    assert.equal(to.headers.get("x-ms-meta-a"), "1");
    assert.equal(to.headers.get("x-ms-copy-id"), undefined);
    await lab.put("/docs/to", {
      headers: { ...SOURCE, "x-ms-copy-source-blob-properties": "false" },
    });
    const { headers } = await lab.must("HEAD", "/docs/to");
    assert.equal(headers.get("content-type"), "application/octet-stream");
    assert.equal(headers.get("cache-control"), undefined);
  });

  it("is streamed where it is too large to be held", async () => {
    const large = Buffer.alloc(3_000_001, "0123456789");
    await lab.put("/docs/large", { body: large });
    await lab.put("/docs/to", { headers: { "x-ms-copy-source": `${ROOT}/docs/large` } });
    assert.ok((await lab.must("GET", "/docs/to")).body.equals(large));
  });

  it("comes from public blobs of other accounts of this server, and from nowhere else", async () => {
    const theirs = { account: OTHER_ACCOUNT };
    const headers = { "x-ms-blob-public-access": "blob" };
    await lab.must("PUT", "/open?restype=container", { ...theirs, headers });
    await lab.must("PUT", "/docs?restype=container", theirs);
    await lab.put("/open/a", { ...theirs, body: "theirs" });
    await lab.put("/docs/a", { ...theirs, body: "private" });
    const other = "http://127.0.0.1:10000/otheraccount";
    await lab.put("/docs/to", { headers: { "x-ms-copy-source": `${other}/open/a` } });
    assert.equal((await lab.must("GET", "/docs/to")).body.toString(), "theirs");
    for (const [url, expected] of [
      [`${other}/docs/a`, "404 CannotVerifyCopySource"],
      ["http://127.0.0.1:10000/nobodys/docs/a", "400 CopyAcrossAccountsNotSupported"],
      ["https://example.com/docs/a", "400 CopyAcrossAccountsNotSupported"],
    ] as const) {
      for (const path of ["/docs/to", "/docs/to?comp=block&blockid=AAAA"]) {
        await lab.refused(expected, "PUT", path, {
          headers: { ...BLOCK, "x-ms-copy-source": url },
        });
      }
    }
  });

  it("is refused where the request contradicts it", async () => {
    await lab.put("/docs/empty");
    const block = "/docs/to?comp=block&blockid=AAAA";
    for (const [headers, expected] of [
      [{ "x-ms-source-range": "bytes=11-" }, "416 InvalidRange"],
      [{ "x-ms-source-content-md5": MD5_OF_HELLO }, "400 Md5Mismatch"],
      [{ "x-ms-source-if-none-match": "*" }, "412 SourceConditionNotMet"],
      [{ "x-ms-copy-source-authorization": "Bearer x" }, "501 NotImplemented"],
      [{ "x-ms-copy-source": `${ROOT}/docs/empty` }, "400 InvalidHeaderValue"],
      [{ "x-ms-copy-source": `${ROOT}/docs/nobodys` }, "404 BlobNotFound"],
    ] as const) {
      await lab.refused(expected, "PUT", block, { headers: { ...SOURCE, ...headers } });
    }
    await lab.refused("400 InvalidHeaderValue", "PUT", block, { headers: SOURCE, body: "x" });
    await lab.refused("400 InvalidHeaderValue", "PUT", "/docs/to", {
      headers: { ...SOURCE, ...APPEND },
    });
  });
});
