import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { DEVELOPMENT_ACCOUNT } from "../auth/accounts.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { Engine } from "../engine/engine.ts";
import { partitionPrefixRange } from "../engine/key-codec.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import {
  APPEND,
  accountSas,
  BLOCK,
  BlobLab,
  LabClock,
  type LabRequest,
  OTHER_ACCOUNT,
  ROOT,
} from "./test-blob-lab.ts";

const LEASE = "1f812371-a41d-49e6-b123-f4b542e851c5";
const OTHER_LEASE = "2f812371-a41d-49e6-b123-f4b542e851c5";

describe("Copy Blob", () => {
  let lab: BlobLab;

  beforeEach(async () => {
    lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/from", {
      headers: { ...BLOCK, "x-ms-meta-Kind": "a", "x-ms-blob-content-type": "text/plain" },
      body: "hello world",
    });
  });
  afterEach(() => lab.close());

  it("copies content and properties, and metadata unless the request has its own", async () => {
    await copy("to");
    const first = (await lab.must("HEAD", "/docs/to")).headers;
    assert.equal(first.get("content-type"), "text/plain");
    assert.equal(first.get("content-md5"), "XrY7u+Ae7tCTyyK7j1rNww==");
    assert.equal(first.get("x-ms-meta-kind"), "a");
    assert.equal(first.get("x-ms-copy-status"), "success");
    assert.equal(first.get("x-ms-copy-progress"), "11/11");
    assert.equal(first.get("x-ms-copy-source"), `${ROOT}/docs/from`);
    await copy("to", { headers: { "x-ms-meta-Other": "b" } });
    const second = (await lab.must("HEAD", "/docs/to")).headers;
    assert.equal(second.get("x-ms-meta-kind"), undefined);
    assert.equal(second.get("x-ms-meta-other"), "b");
    await lab.must("PUT", "/docs/to?comp=properties");
    assert.equal((await lab.must("HEAD", "/docs/to")).headers.get("x-ms-copy-id"), undefined);
  });

  it("uses the requested access tier, or else the source's", async () => {
    for (const [tier, expected] of [
      ["Cool", "Cool"],
      ["", "Hot"],
    ] as const) {
      await copy("to", { headers: { "x-ms-access-tier": tier } });
      const { headers } = await lab.must("HEAD", "/docs/to");
      assert.equal(headers.get("x-ms-access-tier"), expected);
    }
  });

  it("copies the list of committed blocks, but no uncommitted blocks", async () => {
    await lab.must("PUT", "/docs/blocks?comp=block&blockid=AAAA", { body: "x" });
    await lab.must("PUT", "/docs/blocks?comp=blocklist", {
      body: "<BlockList><Latest>AAAA</Latest></BlockList>",
    });
    await lab.must("PUT", "/docs/blocks?comp=block&blockid=BBBB", { body: "y" });
    await copy("to", {}, "blocks");
    const list = await lab.must("GET", "/docs/to?comp=blocklist&blocklisttype=all");
    assert.match(list.body.toString(), /<Name>AAAA<\/Name>.*<UncommittedBlocks \/>/);
    await lab.assertTidy();
  });

  it("copies every block, whatever their lengths", async () => {
    const lengths = [1, 131_072, 131_073, 131_072, 131_072, 7, 300_000, 2, 3];
    const blocks = lengths.map((length, i) => Buffer.alloc(length, `${i}`));
    const ids = blocks.map((_, i) => Buffer.from(`block ${i}`).toString("base64"));
    for (const [i, body] of blocks.entries()) {
      await lab.must("PUT", `/docs/blocks?comp=block&blockid=${ids[i]}`, { body });
    }
    const order = [...ids.keys(), 5, 0, ...Array<number>(120).fill(8)];
    const body = order.map((i) => `<Latest>${ids[i]}</Latest>`).join("");
    await lab.must("PUT", "/docs/blocks?comp=blocklist", {
      body: `<BlockList>${body}</BlockList>`,
    });
    await copy("to", {}, "blocks");
    await lab.must("DELETE", "/docs/blocks");
    await lab.assertTidy();
    const copied = await lab.must("GET", "/docs/to");
    assert.ok(copied.body.equals(Buffer.concat(order.map((i) => blocks[i]!))));
  });

  it("stores a block once, however often the block list contains it", async () => {
    await lab.must("PUT", "/docs/blocks?comp=block&blockid=AAAA", { body: "ab" });
    const body = `<BlockList>${"<Latest>AAAA</Latest>".repeat(250)}</BlockList>`;
    await lab.must("PUT", "/docs/blocks?comp=blocklist", { body });
    const before = await rowsOf(lab.engine);
    await copy("to", {}, "blocks");
    assert.equal(await rowsOf(lab.engine), before + 1);
    assert.equal((await lab.must("GET", "/docs/to")).body.toString(), "ab".repeat(250));
    await lab.must("DELETE", "/docs/to");
    await lab.assertTidy();
  });

  it("of an append blob is sealed like its source, unless x-ms-seal-blob says otherwise", async () => {
    await lab.must("PUT", "/docs/log", { headers: APPEND });
    for (const body of ["a", "bb"]) await lab.must("PUT", "/docs/log?comp=appendblock", { body });
    await copy("open", {}, "log");
    await lab.must("PUT", "/docs/open?comp=appendblock", { body: "c" });
    await lab.must("PUT", "/docs/log?comp=seal");
    await copy("sealed-too", {}, "log");
    const sealedToo = await lab.must("HEAD", "/docs/sealed-too");
    assert.equal(sealedToo.headers.get("x-ms-blob-sealed"), "true");
    await copy("to", { headers: { "x-ms-seal-blob": "false" } }, "log");
    const { headers } = await lab.must("PUT", "/docs/to?comp=appendblock", { body: "c" });
    assert.equal(headers.get("x-ms-blob-append-offset"), "3");
    assert.equal(headers.get("x-ms-blob-committed-block-count"), "3");
    assert.equal((await lab.must("GET", "/docs/to")).body.toString(), "abbc");
    assert.equal((await lab.must("GET", "/docs/log")).body.toString(), "abb");
    await copy("sealed", { headers: { "x-ms-seal-blob": "true" } }, "log");
    await lab.refused("409 BlobIsSealed", "PUT", "/docs/sealed?comp=appendblock", { body: "x" });
    await lab.refused("409 InvalidBlobType", "PUT", "/docs/to", { headers: source("from") });
    await lab.assertTidy();
  });

  it("onto itself changes metadata and drops uncommitted blocks", async () => {
    await lab.must("PUT", "/docs/from?comp=block&blockid=AAAA", { body: "x" });
    await copy("from", { headers: { "x-ms-meta-b": "2" } });
    assert.equal((await lab.must("GET", "/docs/from")).body.toString(), "hello world");
    const list = await lab.must("GET", "/docs/from?comp=blocklist&blocklisttype=all");
    assert.match(list.body.toString(), /<UncommittedBlocks \/>/);
    await lab.assertTidy();
  });

  it("with x-ms-requires-sync returns checksums; a given MD5 is checked; there is no pending copy to abort", async () => {
    const headers = { "x-ms-requires-sync": "true" };
    const md5 = "XrY7u+Ae7tCTyyK7j1rNww==";
    const answer = await copy("to", { headers: { ...headers, "x-ms-source-content-md5": md5 } });
    assert.equal(answer.headers.get("content-md5"), md5);
    assert.equal(answer.headers.get("x-ms-content-crc64"), "vo7q9sPVKY0=");
    await lab.refused("400 Md5Mismatch", "PUT", "/docs/to", {
      headers: {
        ...source("from"),
        ...headers,
        "x-ms-source-content-md5": "AAAAAAAAAAAAAAAAAAAAAA==",
      },
    });
    await lab.refused("400 InvalidMd5", "PUT", "/docs/to", {
      headers: { ...source("from"), ...headers, "x-ms-source-content-md5": "AAAA" },
    });
    const plain = await copy("to", { headers: { "x-ms-source-content-md5": md5 } });
    assert.equal(plain.headers.get("content-md5"), undefined);
    await lab.refused("400 Md5Mismatch", "PUT", "/docs/to", {
      headers: { ...source("from"), "x-ms-source-content-md5": "AAAAAAAAAAAAAAAAAAAAAA==" },
    });
    await lab.refused("409 NoPendingCopyOperation", "PUT", "/docs/to?comp=copy&copyid=1", {
      headers: { "x-ms-copy-action": "abort" },
    });
    await lab.refused("400 MissingRequiredHeader", "PUT", "/docs/to?comp=copy&copyid=1");
    await lab.refused("400 InvalidHeaderValue", "PUT", "/docs/to?comp=copy&copyid=1", {
      headers: { "x-ms-copy-action": "forget" },
    });
    await lab.assertTidy();
  });

  it("sums a source no longer than a call may take", async () => {
    let passes = 0;
    const clock = Object.assign(new LabClock(), {
      elapsed: () => (clock.ms += passes),
    });
    const slow = await BlobLab.open({ clock });
    await slow.must("PUT", "/docs?restype=container");
    await slow.must("PUT", "/docs/blocks?comp=block&blockid=AAAA", { body: Buffer.alloc(200_000) });
    const body = `<BlockList>${"<Latest>AAAA</Latest>".repeat(5)}</BlockList>`;
    await slow.must("PUT", "/docs/blocks?comp=blocklist", { body });
    const headers = source("blocks");
    const summed = { ...headers, "x-ms-requires-sync": "true" };
    passes = 8000;
    await slow.refused("500 OperationTimedOut", "PUT", "/docs/to", { headers: summed });
    await slow.must("PUT", "/docs/to", { headers });
    passes = 1000;
    await slow.must("PUT", "/docs/to", { headers: summed });
    await slow.assertTidy();
    await slow.close();
  });

  it("checks the target's lease and the conditions on both blobs", async () => {
    await copy("to");
    const lease = (seconds: string) =>
      lab.must("PUT", "/docs/to?comp=lease", {
        headers: {
          "x-ms-lease-action": "acquire",
          "x-ms-lease-duration": seconds,
          "x-ms-proposed-lease-id": LEASE,
        },
      });
    await lease("15");
    await refused("412 LeaseIdMissing");
    await refused("412 InfiniteLeaseDurationRequired", { "x-ms-lease-id": LEASE });
    await lease("-1");
    await refused("412 LeaseIdMissing");
    await refused("412 LeaseIdMismatchWithBlobOperation", { "x-ms-lease-id": OTHER_LEASE });
    await copy("to", { headers: { "x-ms-lease-id": LEASE } });
    const { headers } = await lab.must("HEAD", "/docs/to");
    assert.equal(headers.get("x-ms-lease-state"), "leased");
    const etag = `${headers.get("etag")}`;
    for (const [given, expected] of [
      [{ "If-Match": '"0x1"' }, "412 ConditionNotMet"],
      [{ "x-ms-source-if-match": '"0x1"' }, "412 SourceConditionNotMet"],
      [{ "x-ms-source-if-none-match": "*" }, "412 SourceConditionNotMet"],
    ] as const) {
      await refused(expected, { "x-ms-lease-id": LEASE, ...given });
    }
    assert.equal((await lab.must("HEAD", "/docs/to")).headers.get("etag"), etag);
    await refused("412 LeaseIdMissing", { "If-None-Match": "*" });
    const from = (await lab.must("HEAD", "/docs/from")).headers.get("etag");
    const met = { "If-Match": etag, "x-ms-source-if-match": `${from}` };
    await copy("to", { headers: { "x-ms-lease-id": LEASE, ...met } });
  });

  it("reads a leased source without its lease, and copies no lease", async () => {
    const headers = {
      "x-ms-lease-action": "acquire",
      "x-ms-lease-duration": "-1",
      "x-ms-proposed-lease-id": LEASE,
    };
    await lab.must("PUT", "/docs/from?comp=lease", { headers });
    await copy("to");
    const target = (await lab.must("HEAD", "/docs/to")).headers;
    assert.equal(target.get("x-ms-lease-state"), "available");
    assert.equal((await lab.must("GET", "/docs/to")).body.toString(), "hello world");
    const source = (await lab.must("HEAD", "/docs/from")).headers;
    assert.equal(source.get("x-ms-lease-state"), "leased");
  });

  it("accepts any URL of a blob in the same account, and no others", async () => {
    for (const url of [
      `${ROOT}/docs/from`,
      "http://localhost:10000/devstoreaccount1/docs/from",
      "http://devstoreaccount1.blob.localhost:10000/docs/from",
      `${ROOT}/docs/fr%6Fm`,
    ]) {
      await lab.must("PUT", "/docs/to", { headers: { "x-ms-copy-source": url } });
    }
    for (const [url, expected] of [
      ["http://127.0.0.1:10000/other/docs/from", "400 CopyAcrossAccountsNotSupported"],
      ["http://127.0.0.1:10001/devstoreaccount1/docs/from", "400 CopyAcrossAccountsNotSupported"],
      ["https://example.com/docs/from", "400 CopyAcrossAccountsNotSupported"],
      ["docs/from", "400 InvalidHeaderValue"],
      [`${ROOT}/docs?restype=container`, "400 InvalidHeaderValue"],
      [`${ROOT}/docs/${"x".repeat(2048)}`, "400 InvalidHeaderValue"],
      [`${ROOT}/docs/`, "400 InvalidHeaderValue"],
      [`${ROOT}/docs/%zz`, "400 InvalidHeaderValue"],
      [`${ROOT}/docs/%ff`, "400 InvalidHeaderValue"],
      [`${ROOT}/docs/from?sig=%zz`, "400 InvalidHeaderValue"],
      [`${ROOT}/docs/from?snapshot=2026`, "404 BlobNotFound"],
      [`${ROOT}/docs/nobodys`, "404 BlobNotFound"],
      [`${ROOT}/nobodys/from`, "404 ContainerNotFound"],
    ] as const) {
      await lab.refused(expected, "PUT", "/docs/to", { headers: { "x-ms-copy-source": url } });
    }
    for (const [headers, expected] of [
      [{ "x-ms-source-lease-id": LEASE }, "400 UnsupportedHeader"],
      [{ "x-ms-copy-source-authorization": "Bearer x" }, "501 NotImplemented"],
      [{ "x-ms-copy-source-tag-option": "COPY" }, "501 NotImplemented"],
    ] as const) {
      await refused(expected, headers);
    }
  });

  it("copies from other accounts of the server what is public, and nothing else", async () => {
    const account = OTHER_ACCOUNT;
    const from = (url: string) => ({ headers: { "x-ms-copy-source": url } });
    const other = "http://127.0.0.1:10000/otheraccount";
    await lab.must("PUT", "/docs?restype=container", { account });
    await lab.must("PUT", "/docs/from", { account, headers: BLOCK, body: "private" });
    await lab.refused("404 CannotVerifyCopySource", "PUT", "/docs/to", from(`${other}/docs/from`));
    await lab.must("PUT", "/open?restype=container", {
      account,
      headers: { "x-ms-blob-public-access": "blob" },
    });
    await lab.must("PUT", "/open/from", { account, headers: BLOCK, body: "public" });
    for (const url of [
      `${other}/open/from`,
      "http://otheraccount.blob.localhost:10000/open/from",
    ]) {
      await lab.must("PUT", "/docs/to", from(url));
      assert.equal((await lab.must("GET", "/docs/to")).body.toString(), "public");
      await lab.must("DELETE", "/docs/to");
    }
    // Of the same name in both accounts: not a copy onto itself.
    await lab.must("PUT", "/open?restype=container");
    await lab.must("PUT", "/open/from", { headers: BLOCK, body: "mine" });
    await lab.must("PUT", "/open/from", from(`${other}/open/from`));
    assert.equal((await lab.must("GET", "/open/from")).body.toString(), "public");
    await lab.must("DELETE", "/open/from", { account });
    assert.equal((await lab.must("GET", "/open/from")).body.toString(), "public");
    await lab.assertTidy();
  });

  it("copies from other accounts of the server what a token of theirs opens, and no other token", async () => {
    const account = OTHER_ACCOUNT;
    await lab.must("PUT", "/docs?restype=container", { account });
    await lab.must("PUT", "/docs/from", { account, headers: BLOCK, body: "private" });
    const from = (token: string) => ({
      headers: { "x-ms-copy-source": `http://127.0.0.1:10000/otheraccount/docs/from?${token}` },
    });
    const good = accountSas(account);
    await lab.must("PUT", "/docs/to", from(good));
    assert.equal((await lab.must("GET", "/docs/to")).body.toString(), "private");
    await lab.must("PUT", "/docs/url", { headers: { ...BLOCK, ...from(good).headers } });
    assert.equal((await lab.must("GET", "/docs/url")).body.toString(), "private");
    for (const token of [
      // Of the caller's account, and one that names the other account but is signed by the caller's key.
      accountSas(DEVELOPMENT_ACCOUNT),
      accountSas({ ...account, keys: DEVELOPMENT_ACCOUNT.keys }),
      good.replace("sp=r", "sp=rl"),
      accountSas(account, { sp: "w" }),
      accountSas(account, { se: "2026-07-30T00:00:00Z" }),
    ]) {
      for (const kind of [{}, BLOCK]) {
        const { headers } = from(token);
        await lab.refused("403 CannotVerifyCopySource", "PUT", "/docs/no", {
          headers: { ...kind, ...headers },
        });
      }
    }
    await lab.refused("404 BlobNotFound", "GET", "/docs/no");
  });

  it("does not take a blob of the cloud account with the same name for its own", async () => {
    const from = (url: string) => ({ Host: "rowhouse.example", "x-ms-copy-source": url });
    for (const url of [
      "https://rowhouse.example/devstoreaccount1/docs/from",
      "https://devstoreaccount1.blob.rowhouse.example/docs/from",
    ]) {
      await lab.must("PUT", "/docs/to", { headers: from(url) });
    }
    for (const host of [
      "devstoreaccount1.blob.core.windows.net",
      "devstoreaccount1.blob.localhost",
      "core.windows.net",
    ]) {
      for (const path of ["/docs/from", "/devstoreaccount1/docs/from"]) {
        const headers = from(`https://${host}${path}`);
        await lab.refused("400 CopyAcrossAccountsNotSupported", "PUT", "/docs/to", { headers });
      }
    }
  });

  it("reads a URL in the style of its host, also if a container has the account's name", async () => {
    const own = "DevStoreAccount1.blob.rowhouse.example";
    const Host = own.toLowerCase();
    await lab.must("PUT", "?restype=container", { headers: { Host } });
    // In host style, the path begins with the container.
    await lab.must("PUT", "/docs/from", { headers: { Host, ...BLOCK }, body: "other" });
    for (const [url, expected] of [
      [`https://${own}/devstoreaccount1/docs/from`, "other"],
      [`https://${own}/docs/from`, "hello world"],
      ["https://rowhouse.example/devstoreaccount1/docs/from", "hello world"],
    ] as const) {
      await lab.must("PUT", "/to", { headers: { Host, "x-ms-copy-source": url } });
      const copied = await lab.must("GET", "/to", { headers: { Host } });
      assert.equal(copied.body.toString(), expected);
    }
  });

  function source(name: string) {
    return { "x-ms-copy-source": `${ROOT}/docs/${name}` };
  }

  function copy(to: string, request: LabRequest = {}, from = "from") {
    const headers = { ...source(from), ...request.headers };
    return lab.must("PUT", `/docs/${to}`, { headers });
  }

  function refused(expected: string, headers: Record<string, string> = {}) {
    return lab.refused(expected, "PUT", "/docs/to", { headers: { ...source("from"), ...headers } });
  }
});

/** How many contents are rows. */
async function rowsOf(engine: Engine): Promise<number> {
  const rows = partitionPrefixRange(Uint8Array.of(KEY_SPACES.blobContents));
  let count = 0;
  await scanToEnd(engine, rows, () => ++count > 0);
  return count;
}
