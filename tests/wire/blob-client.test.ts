import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { after, before, describe, it } from "node:test";
import {
  AccountSASPermissions,
  AccountSASResourceTypes,
  BlobClient,
  BlobSASPermissions,
  BlobServiceClient,
  ContainerClient,
  ContainerSASPermissions,
  generateAccountSASQueryParameters,
  generateBlobSASQueryParameters,
  RestError,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { openTestEngine, runsOverPostgres } from "../support/test-engine.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { KEY } from "./storage-wire.ts";

const ACCOUNT = "devstoreaccount1";
const MIB = 1_048_576;
const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);

// Stands still unless a test moves it, so that no lease ends unexpectedly.
let now = Date.now();
const clock = { now: () => now };
let folder: string;
let server: LocalServer;
let url: string;
let service: BlobServiceClient;
let containers = 0;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "rowhouse-blobs-"));
  server = await startLocalServer({
    clock,
    engine: await openEngine(folder),
    listen: { blob: { host: "127.0.0.1", port: 0 } },
  });
  url = `${server.urls.blob}/${ACCOUNT}`;
  service = BlobServiceClient.fromConnectionString(
    `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};BlobEndpoint=${url}`,
  );
});
after(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

/** Contents are in files next to LMDB, or in rows of the database. */
function openEngine(path: string): Promise<Engine> {
  return runsOverPostgres() ? openTestEngine({ clock }) : openLmdbEngine({ path, clock });
}

describe("The official client's container", () => {
  it("is created, found, described and deleted", async () => {
    const container = service.getContainerClient("client-container");
    assert.equal(await container.exists(), false);
    assert.equal(
      (await container.createIfNotExists({ metadata: { Owner: "ops" } })).succeeded,
      true,
    );
    assert.equal((await container.createIfNotExists()).succeeded, false);
    await rejects(container.create(), 409, "ContainerAlreadyExists");
    const before = await container.getProperties();
    assert.deepEqual(before.metadata, { owner: "ops" });
    assert.equal(before.leaseState, "available");
    await container.setMetadata({ a_1: "1", a1: "2" });
    const properties = await container.getProperties();
    assert.deepEqual(properties.metadata, { a_1: "1", a1: "2" });
    assert.notEqual(properties.etag, before.etag);
    assert.equal((await container.deleteIfExists()).succeeded, true);
    assert.equal((await container.deleteIfExists()).succeeded, false);
    await rejects(container.getProperties(), 404, "ContainerNotFound");
  });

  it("is listed in pages, with ETag and public access level", async () => {
    const names = ["list-a", "list-b", "list-c"];
    for (const name of names) await service.createContainer(name, { access: "blob" });
    const found: string[] = [];
    const pages = service
      .listContainers({ prefix: "list-", includeMetadata: true })
      .byPage({ maxPageSize: 2 });
    for await (const { containerItems } of pages) {
      assert.ok(containerItems.length <= 2);
      for (const { name, properties } of containerItems) {
        found.push(name);
        assert.equal(properties.publicAccess, "blob");
        assert.match(properties.etag, /^"0x/);
      }
    }
    assert.deepEqual(found, names);
  });

  it("stores access policies and the public access level", async () => {
    const container = await newContainer();
    const expiresOn = new Date("2099-01-01T00:00:00Z");
    await container.setAccessPolicy("container", [
      { id: "readers", accessPolicy: { permissions: "rl", expiresOn, startsOn: new Date(0) } },
    ]);
    const policy = await container.getAccessPolicy();
    assert.equal(policy.blobPublicAccess, "container");
    const [identifier] = policy.signedIdentifiers;
    assert.equal(identifier?.id, "readers");
    assert.equal(identifier?.accessPolicy.permissions, "rl");
    assert.deepEqual(identifier?.accessPolicy.expiresOn, expiresOn);
  });

  it("is deleted only with its lease id while it is leased", async () => {
    const container = await newContainer();
    const lease = container.getBlobLeaseClient();
    await lease.acquireLease(15);
    assert.equal((await container.getProperties()).leaseState, "leased");
    await rejects(container.delete(), 412, "LeaseIdMissing");
    await lease.renewLease();
    await container.delete({ conditions: { leaseId: lease.leaseId } });
  });
});

describe("The official client's block blob", () => {
  it("is uploaded whole, described, read and deleted", async () => {
    const blob = (await newContainer()).getBlockBlobClient("ünï/😀 a+b&c%.txt");
    assert.equal(await blob.exists(), false);
    const uploaded = await blob.upload("hello world", 11, {
      blobHTTPHeaders: { blobContentType: "text/plain", blobCacheControl: "no-cache" },
      metadata: { Kind: "report" },
    });
    assert.equal(Buffer.from(uploaded.contentMD5!).toString("base64"), "XrY7u+Ae7tCTyyK7j1rNww==");
    const properties = await blob.getProperties();
    assert.equal(properties.contentLength, 11);
    assert.equal(properties.contentType, "text/plain");
    assert.equal(properties.cacheControl, "no-cache");
    assert.equal(properties.blobType, "BlockBlob");
    assert.equal(properties.accessTier, "Hot");
    assert.equal(properties.etag, uploaded.etag);
    assert.deepEqual(properties.metadata, { kind: "report" });
    assert.equal((await blob.downloadToBuffer()).toString(), "hello world");
    assert.equal((await blob.downloadToBuffer(6)).toString(), "world");
    assert.equal((await blob.downloadToBuffer(0, 5)).toString(), "hello");
    const ranged = await blob.download(2, 3, { rangeGetContentMD5: true });
    assert.equal(await textOf(ranged.readableStreamBody!), "llo");
    assert.ok(ranged.contentMD5);
    assert.equal((await blob.deleteIfExists()).succeeded, true);
    assert.equal((await blob.deleteIfExists()).succeeded, false);
    await rejects(blob.getProperties(), 404, "BlobNotFound");
  });

  it("is uploaded and downloaded as a stream, whatever its length", async () => {
    const container = await newContainer();
    for (const length of [0, 1, 5 * MIB, 19 * MIB + 7]) {
      const bytes = randomBytes(length);
      const blob = container.getBlockBlobClient(`stream-${length}`);
      await blob.uploadStream(Readable.from(slices(bytes, 100_000)), 4 * MIB, 3);
      assert.equal((await blob.getProperties()).contentLength, length);
      assert.ok((await blob.downloadToBuffer(0, undefined, { blockSize: 3 * MIB })).equals(bytes));
      const { readableStreamBody } = await blob.download();
      assert.ok((await bytesOf(readableStreamBody!)).equals(bytes));
    }
  });

  it("is uploaded in one request or in blocks, depending on its size", async () => {
    const container = await newContainer();
    const bytes = randomBytes(6 * MIB);
    const whole = container.getBlockBlobClient("whole");
    await whole.uploadData(bytes);
    assert.equal((await whole.getBlockList("committed")).committedBlocks?.length ?? 0, 0);
    const cut = container.getBlockBlobClient("cut");
    await cut.uploadData(bytes, { maxSingleShotSize: MIB, blockSize: MIB, concurrency: 4 });
    assert.equal((await cut.getBlockList("committed")).committedBlocks?.length, 6);
    assert.ok((await cut.downloadToBuffer()).equals(bytes));
    const file = join(folder, "downloaded");
    await cut.downloadToFile(file);
    rmSync(file);
  });

  it("consists of the blocks that a block list names", async () => {
    const blob = (await newContainer()).getBlockBlobClient("blocks");
    const [a, b, c] = ["A", "B", "C"].map((text) => Buffer.from(text.repeat(4)).toString("base64"));
    await blob.stageBlock(a!, "aaaa", 4);
    await blob.stageBlock(b!, "bb", 2);
    const staged = await blob.getBlockList("all");
    assert.equal(staged.uncommittedBlocks?.length, 2);
    assert.equal(staged.etag, undefined);
    await rejects(blob.download(), 404, "BlobNotFound");
    await rejects(
      blob.stageBlock(Buffer.from("other").toString("base64"), "x", 1),
      400,
      "InvalidBlobOrBlock",
    );
    await blob.commitBlockList([b!, a!, b!]);
    assert.equal((await blob.downloadToBuffer()).toString(), "bbaaaabb");
    await blob.stageBlock(c!, "c", 1);
    await blob.commitBlockList([c!, a!]);
    assert.equal((await blob.downloadToBuffer()).toString(), "caaaa");
    await rejects(blob.commitBlockList([b!]), 400, "InvalidBlockList");
    const { committedBlocks } = await blob.getBlockList("committed");
    assert.deepEqual(committedBlocks, [
      { name: c, size: 1 },
      { name: a, size: 4 },
    ]);
  });

  it("is read and changed only if the request's conditions hold", async () => {
    const blob = (await newContainer()).getBlockBlobClient("conditions");
    const first = await blob.upload("1", 1, { conditions: { ifNoneMatch: "*" } });
    await rejects(
      blob.upload("2", 1, { conditions: { ifNoneMatch: "*" } }),
      409,
      "BlobAlreadyExists",
    );
    await blob.upload("2", 1, { conditions: { ifMatch: first.etag! } });
    await rejects(
      blob.upload("3", 1, { conditions: { ifMatch: first.etag! } }),
      412,
      "ConditionNotMet",
    );
    const { etag, lastModified } = await blob.getProperties();
    await rejects(
      blob.download(0, undefined, { conditions: { ifNoneMatch: etag! } }),
      304,
      "ConditionNotMet",
    );
    await rejects(
      blob.getProperties({
        conditions: { ifUnmodifiedSince: new Date(lastModified!.getTime() - 5000) },
      }),
      412,
      "ConditionNotMet",
    );
    await rejects(blob.delete({ conditions: { ifMatch: first.etag! } }), 412, "ConditionNotMet");
    await blob.setMetadata({ a: "1" }, { conditions: { ifMatch: etag! } });
    await blob.setHTTPHeaders({ blobContentType: "text/css" });
    const properties = await blob.getProperties();
    assert.equal(properties.contentType, "text/css");
    assert.equal(properties.contentMD5, undefined);
    await blob.setHTTPHeaders({});
    assert.equal((await blob.getProperties()).contentType, undefined);
  });

  it("is written only with its lease id while it is leased", async () => {
    const blob = (await newContainer()).getBlockBlobClient("leased");
    await blob.upload("1", 1);
    const lease = blob.getBlobLeaseClient();
    const { leaseId } = await lease.acquireLease(15);
    assert.equal((await blob.getProperties()).leaseDuration, "fixed");
    await rejects(blob.upload("2", 1), 412, "LeaseIdMissing");
    await blob.upload("2", 1, { conditions: { leaseId: leaseId! } });
    const other = "1f812371-a41d-49e6-b123-f4b542e851c5";
    await rejects(
      blob.upload("3", 1, { conditions: { leaseId: other } }),
      412,
      "LeaseIdMismatchWithBlobOperation",
    );
    await lease.changeLease(other);
    await lease.renewLease();
    const { leaseTime } = await lease.breakLease(10);
    assert.equal(leaseTime, 10);
    now += 11_000;
    assert.equal((await blob.getProperties()).leaseState, "broken");
    await blob.upload("3", 1);
    assert.equal((await blob.getProperties()).leaseState, "available");
    await lease.acquireLease(-1);
    await lease.releaseLease();
    await blob.delete();
  });

  it("is copied within the account", async () => {
    const container = await newContainer();
    const from = container.getBlockBlobClient("from");
    await from.uploadData(randomBytes(3 * MIB), {
      metadata: { a: "1" },
      blobHTTPHeaders: { blobContentType: "image/png" },
    });
    const to = container.getBlockBlobClient("to");
    const poller = await to.beginCopyFromURL(from.url);
    const { copyStatus, copyId } = await poller.pollUntilDone();
    assert.equal(copyStatus, "success");
    const properties = await to.getProperties();
    assert.equal(properties.copyId, copyId);
    assert.equal(properties.copyProgress, `${3 * MIB}/${3 * MIB}`);
    assert.equal(properties.contentType, "image/png");
    assert.deepEqual(properties.metadata, { a: "1" });
    await from.delete();
    assert.equal((await to.downloadToBuffer()).length, 3 * MIB);
    const again = container.getBlockBlobClient("again");
    const sourceContentMD5 = createHash("md5")
      .update(await to.downloadToBuffer())
      .digest();
    for (const sum of [undefined, sourceContentMD5]) {
      const copied = await again.syncCopyFromURL(to.url, {
        metadata: { b: "2" },
        ...(sum && { sourceContentMD5: sum }),
      });
      assert.equal(copied.copyStatus, "success");
      assert.deepEqual(copied.contentMD5 && Buffer.from(copied.contentMD5), sum);
    }
    assert.deepEqual((await again.getProperties()).metadata, { b: "2" });
    await rejects(again.abortCopyFromURL("no-copy"), 409, "NoPendingCopyOperation");
  });

  it("carries CRC-64 checksums of its content in both directions on request", async () => {
    const blob = new BlobServiceClient(url, credential, {
      uploadContentChecksumAlgorithm: "StorageCrc64",
      downloadContentChecksumAlgorithm: "StorageCrc64",
    })
      .getContainerClient((await newContainer()).containerName)
      .getBlockBlobClient("summed");
    const bytes = randomBytes(9 * MIB);
    await blob.upload(bytes, bytes.length);
    assert.equal((await blob.getProperties()).contentLength, bytes.length);
    assert.ok((await bytesOf((await blob.download()).readableStreamBody!)).equals(bytes));
    assert.ok((await blob.downloadToBuffer()).equals(bytes));
    await blob.commitBlockList([]);
    assert.equal((await bytesOf((await blob.download()).readableStreamBody!)).length, 0);
  });
});

describe("The official client's append blob", () => {
  it("grows by blocks, under conditions, until it is sealed", async () => {
    const blob = (await newContainer()).getAppendBlobClient("queue/2014/07/31/1800/000001.log");
    assert.equal(
      (await blob.createIfNotExists({ metadata: { LogType: "write" } })).succeeded,
      true,
    );
    assert.equal((await blob.createIfNotExists()).succeeded, false);
    const first = await blob.appendBlock("line1\n", 6, { conditions: { appendPosition: 0 } });
    assert.equal(first.blobAppendOffset, "0");
    assert.equal(first.blobCommittedBlockCount, 1);
    await rejects(
      blob.appendBlock("line1\n", 6, { conditions: { appendPosition: 0 } }),
      412,
      "AppendPositionConditionNotMet",
    );
    await rejects(
      blob.appendBlock("line2\n", 6, { conditions: { maxSize: 10 } }),
      412,
      "MaxBlobSizeConditionNotMet",
    );
    const large = randomBytes(MIB);
    await blob.appendBlock(large, large.length);
    await blob.appendBlock("end", 3);
    const all = Buffer.concat([Buffer.from("line1\n"), large, Buffer.from("end")]);
    assert.ok((await blob.downloadToBuffer()).equals(all));
    assert.ok((await blob.downloadToBuffer(4, MIB)).equals(all.subarray(4, 4 + MIB)));
    const lease = blob.getBlobLeaseClient();
    await lease.acquireLease(-1);
    await rejects(blob.seal(), 412, "LeaseIdMissing");
    await lease.breakLease(0);
    await blob.seal();
    assert.equal((await blob.getProperties()).leaseState, "available");
    await rejects(blob.appendBlock("x", 1), 409, "BlobIsSealed");
    assert.equal((await blob.getProperties()).isSealed, true);
  });

  it("receives concurrent appends of many writers, each block whole", async () => {
    const blob = (await newContainer()).getAppendBlobClient("busy.log");
    await blob.create();
    const offsets = await Promise.all(
      Array.from({ length: 60 }, async (_, i) => {
        const text = `${i}`.padStart(2, "0").repeat(50);
        return Number((await blob.appendBlock(text, text.length)).blobAppendOffset);
      }),
    );
    assert.deepEqual(
      offsets.sort((a, b) => a - b),
      Array.from({ length: 60 }, (_, i) => i * 100),
    );
    const content = (await blob.downloadToBuffer()).toString();
    const blocks = content.match(/.{100}/g)!;
    assert.ok(blocks.every((block) => new Set(block.match(/../g)).size === 1));
    assert.equal(new Set(blocks).size, 60);
  });
});

describe("The official client's blob listings", () => {
  it("are flat or by hierarchy, in pages", async () => {
    const container = await newContainer();
    const names = ["a", "dir/1", "dir/2", "dir/sub/3", "dir2/4", "z"];
    for (const name of names) await container.getBlockBlobClient(name).upload("x", 1);
    const flat: string[] = [];
    for await (const page of container.listBlobsFlat().byPage({ maxPageSize: 2 })) {
      flat.push(...page.segment.blobItems.map(({ name }) => name));
    }
    assert.deepEqual(flat, names);
    const top: string[] = [];
    for await (const page of container.listBlobsByHierarchy("/").byPage({ maxPageSize: 1 })) {
      const { blobItems, blobPrefixes = [] } = page.segment;
      assert.equal(blobItems.length + blobPrefixes.length, 1);
      top.push(...blobItems.map(({ name }) => name), ...blobPrefixes.map(({ name }) => name));
    }
    assert.deepEqual(top, ["a", "dir/", "dir2/", "z"]);
    const below: string[] = [];
    for await (const item of container.listBlobsByHierarchy("/", { prefix: "dir/" })) {
      below.push(`${item.kind} ${item.name}`);
    }
    // The client returns the prefixes of a page before its blobs.
    assert.deepEqual(below, ["prefix dir/sub/", "blob dir/1", "blob dir/2"]);
  });

  it("include metadata, copies, uncommitted blobs and names that XML cannot carry", async () => {
    const container = await newContainer();
    await container.getBlockBlobClient("a & <b>").upload("x", 1, { metadata: { k: "<v>" } });
    await container.getBlockBlobClient("odd\u0001\uffff").upload("x", 1);
    await container.getBlockBlobClient("staged").stageBlock("QUFB", "x", 1);
    const found: Record<string, unknown> = {};
    for await (const { name, metadata } of container.listBlobsFlat({
      includeMetadata: true,
      includeCopy: true,
      includeUncommitedBlobs: true,
    })) {
      found[name] = metadata?.k;
    }
    assert.deepEqual(found, { "a & <b>": "<v>", "odd\u0001\uffff": undefined, staged: undefined });
  });
});

describe("Callers of the official client", () => {
  it("read and write only what their token permits", async () => {
    const container = await newContainer();
    const name = "shared.txt";
    await container.getBlockBlobClient(name).upload("secret", 6);
    const expiresOn = new Date(clock.now() + 3_600_000);
    const token = (permissions: string) =>
      generateBlobSASQueryParameters(
        {
          containerName: container.containerName,
          blobName: name,
          permissions: BlobSASPermissions.parse(permissions),
          expiresOn,
          contentDisposition: 'attachment; filename="r.txt"',
        },
        credential,
      ).toString();
    const reader = new BlobClient(`${container.url}/${name}?${token("r")}`);
    assert.equal((await reader.downloadToBuffer()).toString(), "secret");
    assert.equal((await reader.getProperties()).contentDisposition, 'attachment; filename="r.txt"');
    await rejects(reader.delete(), 403, "AuthorizationPermissionMismatch");
    const creator = new BlobClient(`${container.url}/${name}?${token("c")}`).getBlockBlobClient();
    await rejects(creator.upload("x", 1), 403, "UnauthorizedBlobOverwrite");

    const lister = new ContainerClient(
      `${container.url}?${generateBlobSASQueryParameters(
        {
          containerName: container.containerName,
          permissions: ContainerSASPermissions.parse("rl"),
          expiresOn,
        },
        credential,
      )}`,
    );
    for await (const item of lister.listBlobsFlat()) assert.equal(item.name, name);

    const account = new BlobServiceClient(
      `${url}?${generateAccountSASQueryParameters(
        {
          expiresOn,
          permissions: AccountSASPermissions.parse("rwl"),
          resourceTypes: AccountSASResourceTypes.parse("sco").toString(),
          services: "b",
        },
        credential,
      )}`,
    );
    for await (const item of account.listContainers()) assert.ok(item.name);
    assert.equal((await account.getAccountInfo()).skuName, "Standard_LRS");
  });

  it("without credentials read only public blobs and containers", async () => {
    const container = await newContainer();
    const blob = container.getBlockBlobClient("public.txt");
    await blob.upload("open", 4);
    const anonymous = new BlobClient(blob.url);
    await rejects(anonymous.download(), 404, "ResourceNotFound");
    await container.setAccessPolicy("blob");
    assert.equal((await anonymous.downloadToBuffer()).toString(), "open");
    const list = new ContainerClient(container.url).listBlobsFlat();
    await rejects(list.next(), 404, "ResourceNotFound");
    await container.setAccessPolicy("container");
    assert.equal(
      (await new ContainerClient(container.url).listBlobsFlat().next()).value.name,
      "public.txt",
    );
    await rejects(new BlobClient(blob.url).delete(), 401, "NoAuthenticationInformation");
  });

  it("set and get the service properties", async () => {
    await service.setProperties({ defaultServiceVersion: "2021-12-02", cors: [] });
    assert.equal((await service.getProperties()).defaultServiceVersion, "2021-12-02");
  });

  it("set tiers, and read an archived blob again once it has another", async () => {
    const container = await newContainer();
    const blob = container.getBlockBlobClient("b");
    await blob.upload("x", 1);
    const { etag } = await blob.getProperties();
    await blob.setAccessTier("Archive");
    assert.equal((await blob.getProperties()).accessTier, "Archive");
    await rejects(blob.download(), 409, "BlobArchived");
    const copy = container.getBlockBlobClient("copy");
    await rejects(copy.syncCopyFromURL(blob.url), 409, "BlobArchived");
    await (await copy.beginCopyFromURL(blob.url, { tier: "Hot" })).pollUntilDone();
    assert.equal((await copy.downloadToBuffer()).toString(), "x");
    await blob.setAccessTier("Cool", { rehydratePriority: "High" });
    const properties = await blob.getProperties();
    assert.deepEqual([properties.accessTier, properties.etag], ["Cool", etag]);
    assert.equal((await blob.downloadToBuffer()).toString(), "x");
    await rejects(container.getBlockBlobClient("none").setAccessTier("Hot"), 404, "BlobNotFound");
    const log = container.getAppendBlobClient("log");
    await log.create();
    await rejects(container.getBlockBlobClient("log").setAccessTier("Hot"), 409, "InvalidBlobType");
  });

  it("delete blobs and set tiers in batches, of the account and of a container", async () => {
    const container = await newContainer();
    const blobs = ["a b", "ü/c", "d"].map((name) => container.getBlockBlobClient(name));
    for (const blob of blobs) await blob.upload("x", 1);
    const missing = container.getBlockBlobClient("missing");
    for (const batches of [service.getBlobBatchClient(), container.getBlobBatchClient()]) {
      const tiers = await batches.setBlobsAccessTier([...blobs, missing], "Cool");
      assert.deepEqual(
        [tiers.subResponsesSucceededCount, tiers.subResponsesFailedCount],
        [blobs.length, 1],
      );
      assert.equal(tiers.subResponses.at(-1)!.errorCode, "BlobNotFound");
      assert.equal((await blobs[1]!.getProperties()).accessTier, "Cool");
      const deleted = await batches.deleteBlobs([blobs.pop()!, missing]);
      assert.deepEqual(
        deleted.subResponses.map(({ status }) => status),
        [202, 404],
      );
    }
    const left = [];
    for await (const { name } of container.listBlobsFlat()) left.push(name);
    assert.deepEqual(left, ["a b"]);
    const many = Array.from({ length: 257 }, () => missing.url);
    const batches = service.getBlobBatchClient();
    assert.equal(
      (await batches.deleteBlobs(many.slice(1), credential)).subResponsesFailedCount,
      256,
    );
  });

  it("receive 501 for snapshots, tags and page blobs", async () => {
    const blob = (await newContainer()).getBlockBlobClient("b");
    await blob.upload("x", 1);
    await rejects(blob.createSnapshot(), 501, "NotImplemented");
    await rejects(blob.setTags({ a: "b" }), 501, "NotImplemented");
    await rejects(blob.getPageBlobClient().create(512), 501, "NotImplemented");
    await rejects(blob.upload("x", 1, { tags: { a: "b" } }), 501, "NotImplemented");
  });
});

async function newContainer(): Promise<ContainerClient> {
  const container = service.getContainerClient(`container-${containers++}`);
  await container.create();
  return container;
}

async function rejects(work: Promise<unknown>, status: number, code: string): Promise<void> {
  await assert.rejects(work, (error) => {
    assert.ok(error instanceof RestError, String(error));
    // For an answer without a body, the client leaves the error code in the headers.
    const found = error.code ?? (error.details as { errorCode?: string }).errorCode;
    assert.equal(`${error.statusCode} ${found}`, `${status} ${code}`);
    return true;
  });
}

function* slices(bytes: Buffer, length: number): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}

async function bytesOf(stream: NodeJS.ReadableStream): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(Buffer.from(chunk as Uint8Array));
  return Buffer.concat(chunks);
}

async function textOf(stream: NodeJS.ReadableStream): Promise<string> {
  return (await bytesOf(stream)).toString();
}
