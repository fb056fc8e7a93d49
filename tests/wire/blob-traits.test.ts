import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { BLOB_OPERATIONS } from "@rowhouse/server/blob/blob-service";
import {
  ACCOUNT_SAMPLES,
  BLOB_SAMPLES,
  type BlobSample,
  CONTAINER_SAMPLES,
} from "./blob-samples.ts";
import { blobSas } from "./blob-sas.ts";
import type { HttpAnswer } from "./http-answer.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { assertStorageRefused } from "./storage-refusals.ts";
import { accountSas, inHours } from "./storage-sas.ts";
import { StorageWire } from "./storage-wire.ts";

const SAMPLES = [...ACCOUNT_SAMPLES, ...CONTAINER_SAMPLES, ...BLOB_SAMPLES];
const BLOB_LETTERS = "racwdl";

let server: LocalServer;
let wire: StorageWire;

before(async () => {
  server = await startLocalServer({ listen: { blob: { host: "127.0.0.1", port: 0 } } });
  wire = new StorageWire(server.urls.blob!, "application/octet-stream");
});
after(async () => {
  wire.close();
  await server.close();
});

/** Creates what the samples need; some of them delete it. */
async function prepare(): Promise<void> {
  await wire.send("PUT", "/docs?restype=container");
  await wire.send("PUT", "/docs/a", { headers: { "x-ms-blob-type": "BlockBlob" }, body: "x" });
  await wire.send("PUT", "/docs/log", { headers: { "x-ms-blob-type": "AppendBlob" } });
  await wire.send("DELETE", "/docs/new");
}

async function sendSample(sample: BlobSample, sas: string): Promise<HttpAnswer> {
  await prepare();
  const headers = { ...sample.headers };
  // The source of a copy needs its own token.
  if (headers["x-ms-copy-source"]) {
    const { host } = new URL(server.urls.blob!);
    const source = `http://${host}/devstoreaccount1/docs/a`;
    headers["x-ms-copy-source"] = `${source}?${blobSas({ container: "docs", sp: "r" })}`;
  }
  return wire.send(sample.method, sample.path, { body: sample.body, headers, sas });
}

it("Every operation of the Blob service except Get Account Information has a sample", () => {
  assert.deepEqual(
    [...SAMPLES.map(({ name }) => name), "GetAccountInformation"].sort(),
    [...new Set(BLOB_OPERATIONS.map(({ name }) => name))].sort(),
  );
});

it("A copy does not reveal the signature that its source was read with", async () => {
  const copy = SAMPLES.find(({ name }) => name === "CopyBlob")!;
  const copied = await sendSample(copy, accountSas({ ss: "b", srt: "o", sp: "rwc" }));
  assert.equal(copied.status, 202);
  const shown = (await wire.send("HEAD", copy.path)).header("x-ms-copy-source") ?? "";
  assert.match(shown, /\/docs\/a\?.*sp=r.*&sig=XXXXX$/);
  const list = await wire.send("GET", "/docs?restype=container&comp=list&include=copy");
  assert.match(list.body.toString(), /<CopySource>[^<]*sig=XXXXX<\/CopySource>/);
});

it("Copy Blob with a SAS for its target reads only public sources and sources with their own SAS", async () => {
  await prepare();
  const open = { headers: { "x-ms-blob-public-access": "blob" } };
  await wire.send("PUT", "/open?restype=container", open);
  await wire.send("PUT", "/open/a", { headers: { "x-ms-blob-type": "BlockBlob" }, body: "x" });
  const root = `http://${new URL(server.urls.blob!).host}/devstoreaccount1`;
  const copy = (source: string, sas: string) =>
    wire.send("PUT", "/docs/new", { headers: { "x-ms-copy-source": `${root}${source}` }, sas });
  const token = blobSas({ container: "docs", sp: "cw" });
  const readable = blobSas({ container: "docs", sp: "r" });
  for (const source of [`/docs/a?${readable}`, "/open/a"]) {
    assert.equal((await copy(source, token)).status, 202, source);
  }
  for (const [source, status] of [
    ["/docs/a", 404],
    ["/docs/nobodys", 404],
    ["/nobodys/a", 404],
    ["/open/nobodys", 404],
    [`/docs/nobodys?${readable}`, 404],
    [`/docs/a?${blobSas({ container: "docs", sp: "cw" })}`, 403],
    [`/docs/a?${blobSas({ container: "open", sp: "r" })}`, 403],
  ] as const) {
    assertStorageRefused(await copy(source, token), status, "CannotVerifyCopySource");
  }
  const writing = accountSas({ ss: "b", srt: "o", sp: "wc" });
  assertStorageRefused(await copy("/docs/a", writing), 403, "CannotVerifyCopySource");
  assert.equal((await copy("/docs/a", accountSas({ ss: "b", srt: "o", sp: "rwc" }))).status, 202);
});

it("The answer to HEAD of a blob has no body, even with empty parameters in the query", async () => {
  await prepare();
  for (let i = 0; i < 2; i++) {
    await wire.send("PUT", "/docs/log?comp=appendblock", { body: `block ${i}` });
  }
  for (const query of ["", "?comp=", "?comp"]) {
    const head = await wire.send("HEAD", `/docs/log${query}`);
    assert.deepEqual([head.status, head.header("content-length")], [200, "14"]);
    const after = await wire.send("GET", "/docs/a");
    assert.deepEqual([after.status, after.body.toString()], [200, "x"]);
  }
});

for (const sample of SAMPLES) {
  const { account, service, anonymousLevel } = sample;

  describe(sample.name, () => {
    it("needs an account SAS with its permission, resource type and service", async () => {
      const token = (sas: { sp: string; srt?: string; ss?: string }) =>
        accountSas({ ss: "b", ...sas });
      if (!account) {
        const answer = await sendSample(sample, token({ sp: "rwdlacup" }));
        assertRefused(answer, "AuthorizationFailure");
        return;
      }
      for (const letter of "rwdlacup") {
        const answer = await sendSample(sample, token({ sp: letter, srt: account.type }));
        // A copy also needs the read permission.
        if (account.letters.includes(letter) && sample.name !== "CopyBlob") {
          assert.notEqual(answer.status, 403, letter);
        } else if (!account.letters.includes(letter)) {
          assertRefused(answer, "AuthorizationPermissionMismatch");
        }
      }
      const otherTypes = "sco".replace(account.type, "");
      assertRefused(
        await sendSample(sample, token({ sp: account.letters, srt: otherTypes })),
        "AuthorizationResourceTypeMismatch",
      );
      assertRefused(
        await sendSample(sample, token({ sp: account.letters, ss: "qtf" })),
        "AuthorizationServiceMismatch",
      );
    });

    it("is refused without credentials, unless the container's public access level permits it", async () => {
      await prepare();
      const isRead = sample.method === "GET" || sample.method === "HEAD";
      for (const level of [undefined, "blob", "container"] as const) {
        await wire.send("PUT", "/docs?restype=container&comp=acl", {
          headers: { "x-ms-blob-public-access": level },
        });
        const headers = { ...sample.headers };
        const answer = await wire.send(sample.method, sample.path, {
          body: sample.body,
          headers,
          sas: "",
        });
        if (anonymousLevel && (level === anonymousLevel || level === "container")) {
          assert.equal(answer.status, 200, level);
        } else if (isRead) {
          assertStorageRefusedOrHead(answer, 404, "ResourceNotFound");
        } else {
          assert.equal(answer.header("www-authenticate"), "SharedKey");
          assertStorageRefused(answer, 401, "NoAuthenticationInformation");
        }
      }
      await wire.send("PUT", "/docs?restype=container&comp=acl");
    });
  });

  if (ACCOUNT_SAMPLES.includes(sample)) continue;
  describe(`${sample.name} with a SAS of a blob or container`, () => {
    const isBlob = BLOB_SAMPLES.includes(sample);
    const blob = decodeURIComponent(/^\/docs\/([^?]+)/.exec(sample.path)?.[1] ?? "");

    it("is permitted only by the letters that include it", async () => {
      for (const letter of BLOB_LETTERS) {
        for (const sas of [
          blobSas({ container: "docs", sp: letter }),
          ...(isBlob ? [blobSas({ container: "docs", blob, sp: letter })] : []),
        ]) {
          const answer = await sendSample(sample, sas);
          if (!service) assertRefused(answer, "AuthorizationFailure");
          else if (service.includes(letter)) assert.notEqual(answer.status, 403, letter);
          else assertRefused(answer, "AuthorizationPermissionMismatch");
        }
      }
    });

    it("is refused with a token for another container or blob", async () => {
      for (const other of [
        blobSas({ container: "others", sp: BLOB_LETTERS }),
        blobSas({ container: "docs", blob: "other", sp: BLOB_LETTERS }),
      ]) {
        assertRefused(await sendSample(sample, other), "AuthenticationFailed");
      }
    });

    it("is refused if the container's name is invalid, and if the container does not exist", async () => {
      const on = (name: string) =>
        wire.send(sample.method, sample.path.replace("docs", name), {
          body: sample.body,
          headers: sample.headers ?? {},
        });
      assertStorageRefusedOrHead(await on("Bad_Name"), 400, "InvalidResourceName");
      assertStorageRefusedOrHead(await on("ab"), 400, "OutOfRangeInput");
      if (sample.name === "CreateContainer") return;
      const answer = await on("nobodys");
      // The copy source is checked first, and this one does not exist.
      if (sample.name === "CopyBlob") assert.equal(answer.status, 400);
      else assertStorageRefusedOrHead(answer, 404, "ContainerNotFound");
    });
  });
}

describe("Get Account Information", () => {
  it("is answered to every key and every token, at any path, whether or not it exists", async () => {
    for (const path of ["/", "/docs", "/nobodys/anything"]) {
      const target = `${path}?restype=account&comp=properties`;
      for (const method of ["GET", "HEAD"]) {
        const answer = await wire.send(method, target);
        assert.equal(answer.status, 200);
        assert.equal(answer.header("x-ms-account-kind"), "StorageV2");
      }
      const sas = accountSas({ ss: "b", srt: "o", sp: "d" });
      assert.equal((await wire.send("GET", target, { sas })).status, 200);
    }
    const sas = blobSas({ container: "docs", sp: "d" });
    const answer = await wire.send("GET", "/docs?restype=account&comp=properties", { sas });
    assert.equal(answer.status, 200);
    const anonymous = await wire.send("GET", "/?restype=account&comp=properties", { sas: "" });
    assertStorageRefused(anonymous, 404, "ResourceNotFound");
  });
});

describe("A SAS of a blob or a container", () => {
  beforeEach(prepare);
  const get = (sas: string) => wire.send("GET", "/docs/a", { sas });

  for (const sv of [
    "2012-02-12",
    "2013-08-15",
    "2015-02-21",
    "2015-04-05",
    "2018-03-28",
    "2018-11-09",
    "2020-10-02",
    "2020-12-06",
    "2026-04-06",
  ]) {
    it(`of version ${sv} is accepted for its blob, or for any blob of its container`, async () => {
      const headers = { "x-ms-version": "2026-04-06" };
      for (const blob of ["a", undefined]) {
        const sas = blobSas({ container: "docs", ...(blob && { blob }), sp: "r", sv });
        assert.equal((await wire.send("GET", "/docs/a", { sas, headers })).status, 200);
      }
    });
  }

  it("is accepted only within its times, from its addresses and over its protocols", async () => {
    const sas = { container: "docs", blob: "a", sp: "r" };
    for (const good of [
      { ...sas, st: inHours(-1) },
      { ...sas, sip: "127.0.0.0-127.0.0.255", spr: "https,http" },
    ]) {
      assert.equal((await get(blobSas(good))).status, 200);
    }
    for (const [bad, code] of [
      [{ ...sas, se: inHours(-1) }, "AuthenticationFailed"],
      [{ ...sas, st: inHours(1) }, "AuthenticationFailed"],
      [{ ...sas, sip: "10.0.0.1" }, "AuthorizationSourceIPMismatch"],
      [{ ...sas, spr: "https" }, "AuthorizationProtocolMismatch"],
      [{ ...sas, si: "nobody" }, "AuthenticationFailed"],
    ] as const) {
      assertRefused(await get(blobSas(bad)), code);
    }
    assertRefused(await get(blobSas(sas).replace("sp=r", "sp=rw")), "AuthenticationFailed");
    assertRefused(await get(`${blobSas(sas)}&skoid=1`), "AuthenticationFailed");
    const scoped = await get(`${blobSas(sas)}&ses=scope`);
    assertRefused(scoped, "AuthenticationFailed");
  });

  it("takes missing fields from a stored access policy, until the policy is removed", async () => {
    const policy = (body: string) =>
      wire.send("PUT", "/docs?restype=container&comp=acl", {
        body: `<SignedIdentifiers>${body}</SignedIdentifiers>`,
      });
    const identifier = (content: string) =>
      `<SignedIdentifier><Id>readers</Id><AccessPolicy>${content}</AccessPolicy></SignedIdentifier>`;
    await policy(identifier(`<Expiry>${inHours(1)}</Expiry><Permission>rl</Permission>`));
    const sas = blobSas({ container: "docs", si: "readers" });
    assert.equal((await get(sas)).status, 200);
    const both = blobSas({ container: "docs", si: "readers", sp: "r" });
    assertRefused(await get(both), "AuthenticationFailed");
    await policy(identifier(`<Expiry>${inHours(1)}</Expiry><Permission>l</Permission>`));
    assertRefused(await get(sas), "AuthorizationPermissionMismatch");
    await policy("");
    assertRefused(await get(sas), "AuthenticationFailed");
  });

  it("with only the create permission neither replaces an existing blob nor adds blocks to it", async () => {
    const headers = { "x-ms-blob-type": "BlockBlob" };
    const sas = blobSas({ container: "docs", sp: "c" });
    const put = (path: string) => wire.send("PUT", path, { sas, headers, body: "x" });
    assert.equal((await put("/docs/new")).status, 201);
    assertRefused(await put("/docs/new"), "UnauthorizedBlobOverwrite");
    const list = await wire.send("PUT", "/docs/new?comp=blocklist", { sas, body: "<BlockList/>" });
    assertRefused(list, "UnauthorizedBlobOverwrite");
    const block = await put("/docs/new?comp=block&blockid=AAAA");
    assertRefused(block, "AuthorizationPermissionMismatch");
    const other = await put("/docs/other?comp=block&blockid=AAAA");
    assert.equal(other.status, 201);
  });

  it("overrides five headers of the answer", async () => {
    const sas = blobSas({
      container: "docs",
      blob: "a",
      sp: "r",
      rscc: "no-store",
      rscd: 'attachment; filename="ü.txt"',
      rsce: "identity",
      rscl: "de",
      rsct: "text/plain; charset=utf-8",
    });
    for (const method of ["GET", "HEAD"]) {
      const answer = await wire.send(method, "/docs/a", { sas });
      assert.equal(answer.header("cache-control"), "no-store");
      const disposition = Buffer.from(answer.header("content-disposition") ?? "", "latin1");
      assert.equal(disposition.toString("utf8"), 'attachment; filename="ü.txt"');
      assert.equal(answer.header("content-encoding"), "identity");
      assert.equal(answer.header("content-language"), "de");
      assert.equal(answer.header("content-type"), "text/plain; charset=utf-8");
    }
    // This version does not sign these overrides, so any holder of the token could choose them.
    const old = blobSas({
      container: "docs",
      blob: "a",
      sp: "r",
      sv: "2012-02-12",
      rsct: "text/html",
    });
    const headers = { "x-ms-version": "2026-04-06" };
    const answer = await wire.send("GET", "/docs/a", { sas: old, headers });
    assert.equal(answer.status, 200);
    assert.equal(answer.header("content-type"), "application/octet-stream");
    const injected = blobSas({ container: "docs", blob: "a", sp: "r", rscc: "a\r\nX: b" });
    assertStorageRefused(await get(injected), 400, "InvalidQueryParameterValue");
  });
});

describe("The version of a request", () => {
  it("without x-ms-version is DefaultServiceVersion; without that, the newest for anonymous reads", async () => {
    await prepare();
    await wire.send("PUT", "/docs?restype=container&comp=acl", {
      headers: { "x-ms-blob-public-access": "blob" },
    });
    const versionOf = async () =>
      (await wire.send("GET", "/docs/a", { sas: "" })).header("x-ms-version");
    assert.equal(await versionOf(), "2026-04-06");
    const withKey = () => wire.send("GET", "/docs/a", { headers: { "x-ms-version": undefined } });
    assertStorageRefused(await withKey(), 400, "MissingRequiredHeader");
    const set = (version: string) =>
      wire.send("PUT", "/?restype=service&comp=properties", {
        body: `<StorageServiceProperties>${version}</StorageServiceProperties>`,
      });
    await set("<DefaultServiceVersion>2020-02-10</DefaultServiceVersion>");
    assert.equal(await versionOf(), "2020-02-10");
    assert.equal((await withKey()).header("x-ms-version"), "2020-02-10");
  });
});

function assertRefused(answer: HttpAnswer, code: string): void {
  assertStorageRefusedOrHead(answer, 403, code);
}

/** The answer to HEAD has the error code only in a header. */
function assertStorageRefusedOrHead(answer: HttpAnswer, status: number, code: string): void {
  if (answer.body.length > 0) assertStorageRefused(answer, status, code);
  else assert.equal(`${answer.status} ${answer.header("x-ms-error-code")}`, `${status} ${code}`);
}
