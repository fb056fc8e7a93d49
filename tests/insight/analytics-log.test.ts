import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import {
  BlobClient,
  BlobSASPermissions,
  BlobServiceClient,
  type ContainerClient,
  generateBlobSASQueryParameters,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { withFolder } from "../support/rowhouse-process.ts";
import { startLocalServer } from "../wire/local-server.ts";
import { KEY } from "../wire/storage-wire.ts";
import { TableWire } from "../wire/table-wire.ts";

const ACCOUNT = "devstoreaccount1";
const AT = Date.UTC(2026, 10, 20, 14, 5, 30);
const HOUR = "2026/11/20/1400";
/** More than is held in memory: it is uploaded and downloaded in parts. */
const STREAMED = "abc".repeat(70_000);
const here = { host: "127.0.0.1", port: 0 };
const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);

describe("The analytics log, as the official client sees it", () => {
  it("is written while only tables are served, and readable through the Blob service", () =>
    withFolder(async (folder) => {
      await serve(folder, ["table"], async ({ tableUrl }) => {
        const wire = new TableWire({ url: tableUrl, account: ACCOUNT, key: KEY });
        const body = logging("<Delete>false</Delete><Read>false</Read><Write>true</Write>");
        const chosen = await wire.send("PUT", "/?restype=service&comp=properties", { body });
        assert.equal(chosen.status, 202);
        await wire.send("POST", "/Tables", { body: { TableName: "People" } });
        await wire.send("GET", "/Tables");
        wire.close();
      });
      await serve(folder, ["blob", "table"], async ({ client }) => {
        const logs = client.getContainerClient("$logs");
        assert.deepEqual(await namesOf(logs), [`table/${HOUR}/000000.log`]);
        const text = await textOf(logs.getBlobClient(`table/${HOUR}/000000.log`));
        const operations = linesOf(text).map(([, , operation, status]) => [operation, status]);
        assert.deepEqual(operations, [
          ["SetTableServiceProperties", "Success"],
          ["CreateTable", "Success"],
        ]);
      });
    }));

  it("contains the first request after a start", () =>
    withFolder(async (folder) => {
      const send = (verb: string, path: string, body: object | string) =>
        serve(folder, ["table"], async ({ tableUrl }) => {
          const wire = new TableWire({ url: tableUrl, account: ACCOUNT, key: KEY });
          await wire.send(verb, path, { body });
          wire.close();
        });
      const body = logging("<Delete>false</Delete><Read>false</Read><Write>true</Write>");
      await send("PUT", "/?restype=service&comp=properties", body);
      await send("POST", "/Tables", { TableName: "People" });
      await serve(folder, ["blob"], async ({ client }) => {
        const logs = client.getContainerClient("$logs");
        const names = await namesOf(logs);
        const texts = await Promise.all(names.map((name) => textOf(logs.getBlobClient(name))));
        const operations = texts.flatMap((text) => linesOf(text).map(([, , name]) => name));
        assert.deepEqual(operations, ["SetTableServiceProperties", "CreateTable"]);
      });
    }));

  it("records blob requests without signatures, is read-only, and can be deleted", () =>
    withFolder(async (folder) => {
      await serve(folder, ["blob"], async ({ client }) => {
        await client.setProperties({
          blobAnalyticsLogging: {
            ...{ version: "1.0", read: true, write: true, deleteProperty: true },
            retentionPolicy: { enabled: true, days: 7 },
          },
        });
        const container = client.getContainerClient("docs");
        await container.create();
        const blob = container.getBlockBlobClient("a;b.txt");
        await blob.upload(STREAMED, STREAMED.length);
        assert.equal(await textOf(new BlobClient(signed(blob))), STREAMED);
        const anonymous = new BlobClient(blob.url);
        await assert.rejects(textOf(anonymous));
        await blob.delete();
        const names = [];
        for await (const { name } of client.listContainers()) names.push(name);
        assert.deepEqual(names, ["docs"]);
      });
      await serve(folder, ["blob"], async ({ client, blobUrl }) => {
        const logs = client.getContainerClient("$logs");
        const [name = ""] = await namesOf(logs);
        const blob = logs.getBlobClient(name);
        const { metadata } = await blob.getProperties();
        assert.deepEqual(metadata, {
          logtype: "read,write,delete",
          logversion: "1.0",
          starttime: "2026-11-20T14:05:30Z",
          endtime: "2026-11-20T14:05:30Z",
        });
        const text = await textOf(blob);
        const lines = linesOf(text);
        assert.deepEqual(
          lines.map(([, , operation, status]) => `${operation} ${status}`),
          [
            "SetBlobServiceProperties Success",
            "CreateContainer Success",
            "PutBlob Success",
            "GetBlobProperties SASSuccess",
            "GetBlob SASSuccess",
            "DeleteBlob Success",
            "ListContainers Success",
          ],
        );
        assert.deepEqual([lines[2]![18], lines[4]![20]], Array(2).fill(`${STREAMED.length}`));
        assert.match(lines[3]![11]!, /sig=XXXXX/);
        assert.ok(!text.includes(KEY));
        assert.equal(lines[2]![12], `"/${ACCOUNT}/docs/a%3Bb.txt"`);
        for await (const { name } of client.listContainers({ includeSystem: true })) {
          assert.ok(["$logs", "docs"].includes(name));
        }
        const own = logs.getBlockBlobClient("mine");
        await assert.rejects(own.upload("x", 1), { statusCode: 403 });
        await assert.rejects(logs.delete(), { statusCode: 403 });
        await assert.rejects(textOf(new BlobClient(`${blobUrl}/$logs/${name}`)));
        await blob.delete();
        assert.deepEqual(await namesOf(logs), []);
      });
    }));
});

interface Served {
  readonly tableUrl: string;
  readonly blobUrl: string;
  readonly client: BlobServiceClient;
}

async function serve(
  folder: string,
  services: readonly ("blob" | "table")[],
  work: (served: Served) => Promise<void>,
): Promise<void> {
  const clock = { now: () => AT };
  const server = await startLocalServer({
    clock,
    checkDate: false,
    engine: await openLmdbEngine({ path: join(folder, "data") }),
    listen: Object.fromEntries(services.map((name) => [name, here])),
    onError: assert.ifError,
  });
  const blobUrl = `${server.urls.blob ?? "http://nowhere.invalid"}/${ACCOUNT}`;
  try {
    await work({
      blobUrl,
      tableUrl: `${server.url}/${ACCOUNT}`,
      client: new BlobServiceClient(blobUrl, credential),
    });
  } finally {
    await server.close();
  }
}

function signed(blob: BlobClient): string {
  const token = generateBlobSASQueryParameters(
    {
      containerName: blob.containerName,
      blobName: blob.name,
      permissions: BlobSASPermissions.parse("r"),
      expiresOn: new Date(AT + 3_600_000),
    },
    credential,
  );
  return `${blob.url}?${token}`;
}

async function namesOf(container: ContainerClient): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of container.listBlobsFlat()) names.push(name);
  return names;
}

async function textOf(blob: BlobClient): Promise<string> {
  return (await blob.downloadToBuffer()).toString();
}

/** The lines, split into fields. */
function linesOf(text: string): string[][] {
  assert.match(text, /\n$/);
  return text
    .trimEnd()
    .split("\n")
    .map((line) =>
      [...line.matchAll(/(?<=^|;)(?:"[^"]*"|[^";]*)(?=;|$)/g)].map(([field]) => field),
    );
}

function logging(flags: string): string {
  return (
    '<?xml version="1.0" encoding="utf-8"?><StorageServiceProperties><Logging>' +
    `<Version>1.0</Version>${flags}<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>` +
    "</Logging></StorageServiceProperties>"
  );
}
