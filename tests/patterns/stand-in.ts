import { createServer, type IncomingMessage, type Server } from "node:http";
import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import { BlobServiceClient, StorageSharedKeyCredential } from "@azure/storage-blob";
import {
  StorageSharedKeyCredential as QueueCredential,
  QueueServiceClient,
} from "@azure/storage-queue";
import { azureBlobs, singleTry } from "@rowhouse/patterns/azure-blobs";
import { azureQueues } from "@rowhouse/patterns/azure-queues";
import { type AzureTablesOptions, azureTables } from "@rowhouse/patterns/azure-tables";
import { KEY } from "../wire/queue-wire.ts";

export const ACCOUNT = "devstoreaccount1";
export const JSON_TYPE = "application/json;odata=minimalmetadata;charset=utf-8";
export const key = { partitionKey: "p", rowKey: "r" };
export const receipt = { id: "1", popReceipt: "2" };

export const insert = (rowKey: string) =>
  ({ kind: "insert", partitionKey: "p", rowKey, properties: {} }) as const;

interface Answer {
  /** Whether an intermediary answers instead of the service. */
  readonly isOthers?: boolean;
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const OF_EVERY_ANSWER = {
  "x-ms-request-id": "1",
  "x-ms-version": "2019-02-02",
  date: "Sun, 22 Nov 2026 10:00:00 GMT",
};

/**
 * Stands in for all three services with the answers that a test sets: those that a service may send and
 * Rowhouse does not.
 */
export class StandIn {
  answer: Answer = { status: 500 };
  requests = 0;
  url = "";
  #last: IncomingMessage | undefined;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      this.requests++;
      this.#last = request;
      request.resume().on("end", () => {
        const { status, headers, body = "", isOthers } = this.answer;
        response.sendDate = false;
        response.writeHead(status, { ...(isOthers ? {} : OF_EVERY_ANSWER), ...headers });
        if (headers?.["content-length"] === undefined) response.end(body);
        else response.write(body, () => response.destroy());
      });
    });
  }

  static async start(): Promise<StandIn> {
    const standIn = new StandIn();
    await new Promise<void>((resolve) => standIn.#server.listen(0, "127.0.0.1", resolve));
    const address = standIn.#server.address();
    const port = typeof address === "object" ? address?.port : undefined;
    standIn.url = `http://127.0.0.1:${port}/${ACCOUNT}`;
    return standIn;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** The last request received. */
  get last(): IncomingMessage {
    if (!this.#last) throw new Error("No request has come.");
    return this.#last;
  }

  tables(options: AzureTablesOptions = {}) {
    const credential = new AzureNamedKeyCredential(ACCOUNT, KEY);
    const service = new TableServiceClient(this.url, credential, { allowInsecureConnection: true });
    return azureTables(service, options);
  }

  blobs() {
    const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);
    return azureBlobs(new BlobServiceClient(this.url, credential, singleTry));
  }

  queues() {
    const credential = new QueueCredential(ACCOUNT, KEY);
    return azureQueues(new QueueServiceClient(this.url, credential, singleTry));
  }
}
