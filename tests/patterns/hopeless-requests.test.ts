import assert from "node:assert/strict";
import { createServer, type Server } from "node:net";
import { after, before, describe, it } from "node:test";
import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import { BlobServiceClient, StorageSharedKeyCredential } from "@azure/storage-blob";
import { connect, isTableError } from "@rowhouse/patterns";
import { azureBlobs, singleTry } from "@rowhouse/patterns/azure-blobs";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { memory } from "@rowhouse/patterns/testing";
import { KEY } from "../wire/queue-wire.ts";

const ACCOUNT = "devstoreaccount1";
let server: Server;
let port: number;

/** Speaks no TLS, and closes what is plain. */
before(async () => {
  server = createServer((socket) => {
    socket.once("data", (data) => {
      if (data[0] === 0x16) socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
      else socket.destroy();
    });
    socket.on("error", () => socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  port = typeof address === "object" && address !== null ? address.port : 0;
});
after(() => new Promise((resolve) => server.close(resolve)));

function tablesAt(url: string, options: { allowInsecureConnection?: boolean } = {}) {
  const credential = new AzureNamedKeyCredential(ACCOUNT, KEY);
  return azureTables(new TableServiceClient(url, credential, options));
}

function blobsAt(url: string) {
  const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);
  return azureBlobs(new BlobServiceClient(url, credential, singleTry));
}

/** How often a request was sent before it was given up. */
async function tries(url: string, client: typeof tablesAt | typeof blobsAt): Promise<number> {
  const port = client(url);
  const db = connect({
    ...memory(),
    ...("query" in port ? { tables: port } : { blobs: port }),
    retry: { schedule: [1, 1] },
  });
  const { requests } = await db.metered(async ({ tables, blobs }) => {
    const work = "query" in port ? tables.listTables({}) : blobs!.list("c", {});
    await assert.rejects(work);
  });
  return requests;
}

describe("a request that cannot succeed", () => {
  it("is sent once when the endpoint speaks no TLS", async () => {
    assert.equal(await tries(`https://127.0.0.1:${port}/${ACCOUNT}`, tablesAt), 1);
    assert.equal(await tries(`https://127.0.0.1:${port}/${ACCOUNT}`, blobsAt), 1);
  });

  it("is repeated when the connection breaks, which another may not", async () => {
    const insecure = (url: string) => tablesAt(url, { allowInsecureConnection: true });
    assert.equal(await tries(`http://127.0.0.1:${port}/${ACCOUNT}`, insecure), 4);
    assert.equal(await tries(`http://127.0.0.1:${port}/${ACCOUNT}`, blobsAt), 4);
  });

  it("comes with the client's own error when the client refuses to send it", async () => {
    const url = `http://127.0.0.1:${port}/${ACCOUNT}`;
    assert.equal(await tries(url, tablesAt), 1);
    const db = connect({ tables: tablesAt(url) });
    const error = await db.tables.listTables({}).catch((cause: unknown) => cause);
    assert.ok(error instanceof Error && !isTableError(error));
    assert.match(error.message, /allowInsecureConnection/);
  });
});
