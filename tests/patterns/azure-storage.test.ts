import { after, before } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import { azureBlobs, singleTry } from "@rowhouse/patterns/azure-blobs";
import { azureQueues } from "@rowhouse/patterns/azure-queues";
import { testBlobsPort } from "../../patterns/src/ports/blobs-conformance.ts";
import { testQueuesPort } from "../../patterns/src/ports/queues-conformance.ts";
import { type LocalServer, startLocalServer } from "../wire/local-server.ts";
import { KEY } from "../wire/queue-wire.ts";

const ACCOUNT = "devstoreaccount1";
let offset = 0;
let server: LocalServer;

before(async () => {
  const here = { host: "127.0.0.1", port: 0 };
  const clock = { now: () => Date.now() + offset };
  server = await startLocalServer({ clock, listen: { queue: here, blob: here } });
});
after(() => server.close());

function connection(): string {
  const { queue, blob } = server.urls;
  const account = `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY}`;
  return `${account};QueueEndpoint=${queue}/${ACCOUNT};BlobEndpoint=${blob}/${ACCOUNT}`;
}

testQueuesPort({
  name: "The official client against Rowhouse",
  open: () => azureQueues(QueueServiceClient.fromConnectionString(connection(), singleTry)),
  pass: (ms) => {
    offset += ms;
  },
});

testBlobsPort({
  name: "The official client against Rowhouse",
  open: () => azureBlobs(BlobServiceClient.fromConnectionString(connection(), singleTry)),
});
