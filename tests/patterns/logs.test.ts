import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import { connect } from "@rowhouse/patterns";
import { azureBlobs, singleTry } from "@rowhouse/patterns/azure-blobs";
import { jsonLines, logFiles } from "@rowhouse/patterns/logs";
import { intercept, memory, withFaults } from "@rowhouse/patterns/testing";
import { type LocalServer, startLocalServer } from "../wire/local-server.ts";
import { KEY } from "../wire/queue-wire.ts";

const ACCOUNT = "devstoreaccount1";
const Requests = logFiles({
  container: "request-logs",
  service: "web",
  format: jsonLines<{ at: Date; path: string }>(),
});
let server: LocalServer;

before(async () => {
  server = await startLocalServer({ listen: { blob: { host: "127.0.0.1", port: 0 } } });
});
after(() => server.close());

function overHttp() {
  const account = `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY}`;
  const connection = `${account};BlobEndpoint=${server.urls.blob}/${ACCOUNT}`;
  const { tables, queues } = memory();
  const blobs = azureBlobs(BlobServiceClient.fromConnectionString(connection, singleTry));
  return { tables, queues, blobs };
}

describe("a log on Rowhouse", () => {
  it("contains every record once although answers are lost, and is read by time", async () => {
    const ports = overHttp();
    const faults = withFaults(({ method }, count) =>
      count % 3 === 0 && method !== "list" ? { kind: "lose answer" } : undefined,
    );
    const lossy = connect({ ...ports, ...intercept(ports, faults), retry: { schedule: "fast" } });
    const start = Date.UTC(2014, 6, 31, 17, 59);
    const writer = lossy.open(Requests).writer({ durability: "each", file: { blocks: 4 } });
    for (let i = 0; i < 12; i++) {
      await writer.write({ at: new Date(start + i * 10_000), path: `/${i}` });
    }
    await writer.close();

    const db = connect(ports);
    const { requests, result } = await db.metered(async (metered) => {
      const paths: string[] = [];
      const query = { from: new Date(start + 30_000), to: new Date(start + 80_000) };
      for await (const { path } of metered.open(Requests).read(query)) paths.push(path);
      return paths;
    });
    assert.deepEqual(result, ["/3", "/4", "/5", "/6", "/7"]);
    // One listing, and the files of the two hours that overlap the interval.
    assert.equal(requests, 4);
    const files = await ports.blobs.list("request-logs", {});
    assert.deepEqual(
      files.blobs.map(({ name }) => name),
      ["1700/000001", "1700/000002", "1800/000001", "1800/000002"].map(
        (name) => `web/2014/07/31/${name}.log`,
      ),
    );
    assert.ok(files.blobs.every(({ metadata }) => metadata.sealed === "true"));
  });
});
