import { TableServiceClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import { connect, type Database } from "@rowhouse/patterns";
import { azureBlobs } from "@rowhouse/patterns/azure-blobs";
import { azureQueues, singleTry } from "@rowhouse/patterns/azure-queues";
import { azureTables } from "@rowhouse/patterns/azure-tables";

/** One database over the three services of an account: of this server, or of the cloud. Sends no request. */
export function connectTo(connection: string): Database {
  const allowInsecureConnection = connection.includes("http:");
  return connect({
    tables: azureTables(
      TableServiceClient.fromConnectionString(connection, { allowInsecureConnection }),
    ),
    queues: azureQueues(QueueServiceClient.fromConnectionString(connection, singleTry)),
    blobs: azureBlobs(BlobServiceClient.fromConnectionString(connection, singleTry)),
  });
}
