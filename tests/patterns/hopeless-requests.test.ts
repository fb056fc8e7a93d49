import assert from "node:assert/strict";
import { createServer, type Server } from "node:net";
import { after, before, describe, it } from "node:test";
import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import { BlobServiceClient, StorageSharedKeyCredential } from "@azure/storage-blob";
import {
  StorageSharedKeyCredential as QueueCredential,
  QueueServiceClient,
} from "@azure/storage-queue";
import { connect, isTableError } from "@rowhouse/patterns";
import { type AnswerOptions, azureBlobs, singleTry } from "@rowhouse/patterns/azure-blobs";
import { azureQueues } from "@rowhouse/patterns/azure-queues";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { memory } from "@rowhouse/patterns/testing";
import { KEY } from "../wire/queue-wire.ts";

const ACCOUNT = "devstoreaccount1";
let server: Server;
let port: number;
/** Requests that reached the server. */
let arrived = 0;

/** A server without TLS that closes plain connections. */
before(async () => {
  server = createServer((socket) => {
    socket.once("data", (data) => {
      arrived++;
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

function tablesAt(url: string) {
  return azureTables(new TableServiceClient(url, new AzureNamedKeyCredential(ACCOUNT, KEY)));
}

function blobsAt(url: string) {
  const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);
  return azureBlobs(new BlobServiceClient(url, credential, singleTry));
}

function allAt(url: string, options: AnswerOptions) {
  const named = new AzureNamedKeyCredential(ACCOUNT, KEY);
  const shared = new StorageSharedKeyCredential(ACCOUNT, KEY);
  return {
    tables: azureTables(new TableServiceClient(url, named), options),
    queues: azureQueues(
      new QueueServiceClient(url, new QueueCredential(ACCOUNT, KEY), singleTry),
      options,
    ),
    blobs: azureBlobs(new BlobServiceClient(url, shared, singleTry), options),
  };
}

/** How often a request was sent before the library gave up. */
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
  it("is sent once if the endpoint does not speak TLS", async () => {
    assert.equal(await tries(`https://127.0.0.1:${port}/${ACCOUNT}`, tablesAt), 1);
    assert.equal(await tries(`https://127.0.0.1:${port}/${ACCOUNT}`, blobsAt), 1);
  });

  it("is retried after a broken connection, by the library and not by the client too", async () => {
    for (const client of [tablesAt, blobsAt]) {
      const before = arrived;
      assert.equal(await tries(`http://127.0.0.1:${port}/${ACCOUNT}`, client), 4);
      assert.equal(arrived - before, 4);
    }
  });

  const begun = (id = "") =>
    `HTTP/1.1 200 OK\r\n${id}ETag: "1"\r\nContent-Type: application/xml\r\nContent-Length: 99\r\n\r\n<`;
  for (const [what, said] of [
    ["the server listens but does not answer", ""],
    [
      "an answer stops in the middle",
      begun("x-ms-request-id: 1\r\nx-ms-version: 1\r\nDate: now\r\n"),
    ],
    ["an intermediary's answer stops in the middle", begun()],
  ] as const) {
    it(`is aborted and retried when ${what}`, async () => {
      const silent = createServer((socket) => {
        socket.resume().on("error", () => {});
        socket.once("data", () => socket.write(said));
      });
      await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
      const address = silent.address();
      const at = typeof address === "object" && address !== null ? address.port : 0;
      const { tables, queues, blobs } = connect({
        ...allAt(`http://127.0.0.1:${at}/${ACCOUNT}`, { answerWithinMs: 20 }),
        retry: { schedule: [1] },
      });
      for (const ask of [
        () => tables.get("T", { partitionKey: "p", rowKey: "r" }),
        () => tables.createTable("T"),
        () => tables.listTables({}),
        () => queues!.receive("q", { max: 1, visibilityMs: 1000 }),
        () => blobs!.list("c", {}),
        () => blobs!.get("c", "b"),
        () => blobs!.put("c", "b", new Uint8Array(1)),
      ]) {
        const error = await ask().catch((error: unknown) => error);
        assert.ok(isTableError(error, "throttled") && error.attempts === 3, `${ask}: ${error}`);
      }
      await new Promise((resolve) => silent.close(resolve));
    });
  }

  it("leaves no timer behind after it failed", async () => {
    const timers = () =>
      process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const before = timers();
    const { tables, queues, blobs } = allAt(`http://127.0.0.1:${port}/${ACCOUNT}`, {});
    await assert.rejects(tables.get("T", { partitionKey: "p", rowKey: "r" }));
    await assert.rejects(tables.listTables({}));
    await assert.rejects(queues.peek("q", 1));
    await assert.rejects(blobs.get("c", "b"));
    // A timer of an earlier request may have ended meanwhile.
    assert.ok(timers() <= before, `${timers()} timers, ${before} before`);
  });

  it("fails with the client's own error if the client refuses to send it", async () => {
    const token = { getToken: async () => ({ token: "t", expiresOnTimestamp: Date.now() + 1e6 }) };
    const withToken = (url: string) => azureTables(new TableServiceClient(url, token));
    const url = `http://127.0.0.1:${port}/${ACCOUNT}`;
    assert.equal(await tries(url, withToken), 1);
    const db = connect({ tables: withToken(url) });
    const error = await db.tables.listTables({}).catch((cause: unknown) => cause);
    assert.ok(error instanceof Error && !isTableError(error));
    assert.match(error.message, /not permitted for non-TLS/);
  });

  it("to a server that is not there end within two seconds, with its address", async () => {
    // Nothing listens on the first port.
    for (const host of ["127.0.0.1:1", "localhost:1"]) {
      const tables = tablesAt(`https://${host}/${ACCOUNT}`);
      const backend = memory();
      const begunAt = backend.clock.now();
      const db = connect({ ...backend, tables });
      await assert.rejects(db.tables.createTable("Any"), (error) => {
        assert.ok(isTableError(error, "throttled"));
        assert.ok(error.message.includes(`No connection to https://${host}: `), error.message);
        return true;
      });
      assert.ok(backend.clock.now() - begunAt <= 2000);
    }
  });
});
