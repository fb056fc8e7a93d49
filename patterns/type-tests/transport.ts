import { TableServiceClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import { singleTry } from "../src/azure-blobs.ts";
import { transport } from "../src/transport.ts";

const options = transport("http://127.0.0.1:10002", { connections: 8, idleMs: 1000 });

export function accepted() {
  TableServiceClient.fromConnectionString("", { ...options, allowInsecureConnection: true });
  QueueServiceClient.fromConnectionString("", { ...singleTry, ...options });
  BlobServiceClient.fromConnectionString("", { ...singleTry, ...options });
  options.agent.destroy();
}

export function refused() {
  // error: Expected 1-2 arguments
  transport();
  // error: 'sockets' does not exist
  transport("http://127.0.0.1", { sockets: 3 });
}
