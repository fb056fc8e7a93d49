import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import type { BlobsPort, ProfileName, QueuesPort, TablesPort } from "@rowhouse/patterns";
import { azureBlobs } from "@rowhouse/patterns/azure-blobs";
import { azureQueues, singleTry } from "@rowhouse/patterns/azure-queues";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { FakeClock, memory, seededRandom } from "@rowhouse/patterns/testing";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { startLocalServer } from "../../wire/local-server.ts";

/** An empty account. Waiting on its clock takes no time. */
export interface Endpoints {
  readonly tables: TablesPort;
  readonly queues: QueuesPort;
  readonly blobs: BlobsPort;
  readonly clock: FakeClock;
  readonly random: () => number;
}

/** An endpoint that the pattern suite runs against. */
export interface Target {
  readonly name: string;
  open(): Promise<{ readonly endpoints: Endpoints; close(): Promise<void> }>;
}

export const memoryTarget: Target = {
  name: "memory",
  open: async () => ({ endpoints: memory(), close: async () => {} }),
};

/** A server for each account, which uses the library's clock. */
export const rowhouseTarget: Target = {
  name: "Rowhouse over HTTP",
  open: async () => {
    const clock = new FakeClock(Date.now());
    const here = { host: "127.0.0.1", port: 0 };
    const server = await startLocalServer({
      clock,
      checkDate: false,
      listen: { table: here, queue: here, blob: here },
    });
    const account = DEVELOPMENT_ACCOUNT.name;
    const key = Buffer.from(DEVELOPMENT_ACCOUNT.keys[0]!).toString("base64");
    const { table = "", queue = "", blob = "" } = server.urls;
    return {
      endpoints: clientsOf({ table, queue, blob, account, key, profile: "rowhouse", clock }),
      close: () => server.close(),
    };
  },
};

export interface Address {
  /** The services' address, without an account. */
  readonly table: string;
  readonly queue: string;
  readonly blob: string;
  readonly account: string;
  /** Base64. */
  readonly key: string;
  readonly profile: ProfileName;
  readonly clock: FakeClock;
}

/** The official clients of an account. */
export function clientsOf({
  table,
  queue,
  blob,
  account,
  key,
  profile,
  clock,
}: Address): Endpoints {
  const credential = new AzureNamedKeyCredential(account, key);
  const insecure = { allowInsecureConnection: true };
  const connection = `DefaultEndpointsProtocol=http;AccountName=${account};AccountKey=${key};QueueEndpoint=${queue}/${account};BlobEndpoint=${blob}/${account}`;
  return {
    tables: azureTables(new TableServiceClient(`${table}/${account}`, credential, insecure), {
      profile,
    }),
    queues: azureQueues(QueueServiceClient.fromConnectionString(connection, singleTry)),
    blobs: azureBlobs(BlobServiceClient.fromConnectionString(connection, singleTry)),
    clock,
    random: seededRandom(1),
  };
}
