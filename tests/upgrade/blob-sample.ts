import assert from "node:assert/strict";
import { BlobServiceClient, type ContainerClient } from "@azure/storage-blob";

/*
 * The blobs of a sample folder, written and read by the official client: one for each place where bytes of a
 * blob can be stored, and for everything else that a server stores about blobs.
 */

/** More than fits in a row. */
const LARGE = Buffer.alloc(131_100, "yesterday ");
const LEASE = "1f812371-a41d-49e6-b123-f4b542e851c5";
const UNTIL = new Date("2099-01-01T00:00:00Z");

export async function writeBlobSample(connectionString: string): Promise<void> {
  const service = BlobServiceClient.fromConnectionString(connectionString);
  await service.setProperties({
    cors: [
      {
        allowedOrigins: "https://upgrade.test",
        allowedMethods: "GET",
        allowedHeaders: "",
        exposedHeaders: "",
        maxAgeInSeconds: 5,
      },
    ],
  });
  const container = service.getContainerClient("sample");
  await container.create({ metadata: { owner: "upgrade" } });
  await container.setAccessPolicy(undefined, [
    { id: "reader", accessPolicy: { permissions: "r", expiresOn: UNTIL } },
  ]);
  const small = container.getBlockBlobClient("small");
  await small.upload("in a row", 8, {
    metadata: { kind: "row" },
    blobHTTPHeaders: { blobContentType: "text/plain" },
  });
  await small.getBlobLeaseClient(LEASE).acquireLease(-1);
  await container.getBlockBlobClient("empty").upload("", 0);
  await container.getBlockBlobClient("large").upload(LARGE, LARGE.length);
  const blocks = container.getBlockBlobClient("of/blocks");
  await blocks.stageBlock(id("1"), "one ", 4);
  await blocks.stageBlock(id("2"), LARGE, LARGE.length);
  await blocks.commitBlockList([id("1"), id("2"), id("1")]);
  await blocks.stageBlock(id("3"), "three", 5);
  const log = container.getAppendBlobClient("log");
  await log.create();
  for (const line of ["first\n", "second\n"]) await log.appendBlock(line, line.length);
}

/** Checks all of that, then changes it. */
export async function checkBlobSample(connectionString: string): Promise<void> {
  const service = BlobServiceClient.fromConnectionString(connectionString);
  const { cors } = await service.getProperties();
  assert.equal(cors?.[0]?.allowedOrigins, "https://upgrade.test");
  const container = service.getContainerClient("sample");
  assert.equal((await container.getProperties()).metadata?.owner, "upgrade");
  const [policy] = (await container.getAccessPolicy()).signedIdentifiers;
  assert.deepEqual([policy?.id, policy?.accessPolicy?.expiresOn], ["reader", UNTIL]);
  const names = [];
  for await (const { name } of container.listBlobsFlat()) names.push(name);
  assert.deepEqual(names, ["empty", "large", "log", "of/blocks", "small"]);

  assert.equal(await contentOf(container, "small"), "in a row");
  assert.equal(await contentOf(container, "empty"), "");
  assert.equal(await contentOf(container, "large"), LARGE.toString());
  assert.equal(await contentOf(container, "of/blocks"), `one ${LARGE}one `);
  const small = container.getBlockBlobClient("small");
  const { metadata, contentType, leaseState } = await small.getProperties();
  assert.deepEqual([metadata, contentType, leaseState], [{ kind: "row" }, "text/plain", "leased"]);
  await assert.rejects(small.upload("", 0), { code: "LeaseIdMissing" });
  await small.getBlobLeaseClient(LEASE).releaseLease();

  const blocks = container.getBlockBlobClient("of/blocks");
  const { committedBlocks, uncommittedBlocks } = await blocks.getBlockList("all");
  assert.deepEqual(
    committedBlocks?.map(({ name }) => name),
    [id("1"), id("2"), id("1")],
  );
  assert.deepEqual(uncommittedBlocks, [{ name: id("3"), size: 5 }]);
  await blocks.commitBlockList([id("3"), id("1")]);
  assert.equal(await contentOf(container, "of/blocks"), "threeone ");
  await container.getAppendBlobClient("log").appendBlock("third\n", 6);
  assert.equal(await contentOf(container, "log"), "first\nsecond\nthird\n");
}

async function contentOf(container: ContainerClient, name: string): Promise<string> {
  return (await container.getBlobClient(name).downloadToBuffer()).toString();
}

function id(text: string): string {
  return Buffer.from(text.padStart(3, "0")).toString("base64");
}
