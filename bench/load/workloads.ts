import { createAppend, createBlockUpload, createDownload, createUpload } from "./blob-workloads.ts";
import { type Dataset, entityJson, PARTITION_ENTITIES, rowKey } from "./dataset.ts";
import { createFill } from "./fill.ts";
import { createPutMessage, createReceiveMessage } from "./message-workloads.ts";
import { createMix } from "./mix.ts";
import { RequestWriter, type Target } from "./request-writer.ts";
import {
  RARE_IN_TABLE,
  Requests,
  rareInPartition,
  TRANSACTION_ENTITIES,
  wholeTransaction,
} from "./requests.ts";
import type { ResponseReader } from "./response-reader.ts";
import { SharedKeyWriter } from "./shared-key-writer.ts";
import type { Client, Outcome, Workload, WorkloadKind } from "./workload.ts";

export function createWorkload(kind: WorkloadKind, dataset: Dataset, target: Target): Workload {
  if (target.service !== "table") return createOther(kind, dataset, new SharedKeyWriter(target));
  const requests = new Requests(new RequestWriter(target), dataset);
  const anyEntity = (client: Client) => client.random(dataset.entities);
  switch (kind.kind) {
    case "point-query":
      return single(200, (client) => requests.get(anyEntity(client)));
    case "range-query":
      return single(200, (client) => requests.range(client, kind.rows, kind.selected));
    case "partition-scan":
      return scan(requests, (client) => rareInPartition(anyEntity(client)));
    case "table-scan":
      return scan(requests, () => RARE_IN_TABLE);
    case "insert":
      return single(204, (client) => requests.insert(client, kind.form).request);
    case "upsert":
      return single(204, (client) => requests.put(anyEntity(client)));
    case "merge":
      return single(204, (client) => requests.merge(client));
    case "conditional-update":
      return conditionalUpdate(requests);
    case "contended-update":
      return contendedUpdate(requests, kind.backsOff);
    case "transaction":
      return transaction(requests, dataset);
    case "fill":
      return createFill(requests, dataset, kind);
    case "mix":
      return createMix(requests, dataset);
    default:
      throw new Error(`No table knows ${kind.kind}.`);
  }
}

/** Requests to queues and containers. */
function createOther(kind: WorkloadKind, { table }: Dataset, writer: SharedKeyWriter): Workload {
  switch (kind.kind) {
    case "put-message":
      return createPutMessage(writer, table);
    case "receive-message":
      return createReceiveMessage(writer, table);
    case "upload":
      return kind.blockBytes === undefined
        ? createUpload(writer, table, kind.bytes)
        : createBlockUpload(writer, table, kind.bytes / kind.blockBytes, kind.blockBytes);
    case "download":
      return createDownload(writer, table, kind.bytes);
    case "append":
      return createAppend(writer, table, kind.blobs);
    default:
      throw new Error(`Only tables know ${kind.kind}.`);
  }
}

function single(status: number, request: (client: Client) => string): Workload {
  return { request, answered: (_client, answer) => outcome(answer.status === status) };
}

function outcome(good: boolean): Outcome {
  return good ? "done" : "failed";
}

/** One operation is one query, followed through all its pages. */
function scan(requests: Requests, filter: (client: Client) => string): Workload {
  const filters = new Map<Client, string>();
  return {
    request(client) {
      if (client.pending === "") filters.set(client, filter(client));
      return requests.query(filters.get(client) ?? "", client.pending);
    },
    answered(client, answer) {
      client.pending = continuationOf(answer);
      if (answer.status !== 200) return "failed";
      return client.pending === "" ? "done" : "again";
    },
  };
}

function continuationOf(answer: ResponseReader): string {
  const partition = answer.header("x-ms-continuation-nextpartitionkey");
  if (partition === undefined) return "";
  const row = answer.header("x-ms-continuation-nextrowkey");
  const continuation = `&NextPartitionKey=${encodeURIComponent(partition)}`;
  return row === undefined ? continuation : `${continuation}&NextRowKey=${encodeURIComponent(row)}`;
}

/** One entity for each client, which it keeps updating with the ETag of the last answer. */
function conditionalUpdate(requests: Requests): Workload {
  return {
    request({ etag, index }) {
      return etag === "" ? requests.get(index) : requests.put(index, etag);
    },
    answered(client, answer) {
      client.etag = answer.header("etag") ?? "";
      return answer.status === 200 ? "again" : outcome(answer.status === 204);
    },
  };
}

/** One entity for all clients; one operation reads and writes, and repeats both until its write wins. */
function contendedUpdate(requests: Requests, backsOff: boolean): Workload {
  return {
    request({ etag }) {
      return etag === "" ? requests.get(0) : requests.put(0, etag);
    },
    answered(client, answer) {
      const read = answer.status === 200;
      client.etag = read ? (answer.header("etag") ?? "") : "";
      if (read) return "again";
      if (answer.status === 412) return backsOff ? { againAfterMs: backOffMs(client) } : "again";
      client.refusals = 0;
      return outcome(answer.status === 204);
    },
  };
}

/**
 * Waits up to 2, 4, … 64 ms, depending on the refusals so far: clients that retry right away meet the same
 * rivals again.
 */
function backOffMs(client: Client): number {
  client.refusals++;
  return 1 + client.random(2 ** Math.min(client.refusals, 6));
}

/** Runs of neighboring new keys, as an import writes them. */
function transaction(requests: Requests, dataset: Dataset): Workload {
  return {
    request(client) {
      const index = client.random(dataset.entities);
      const partition = index - (index % PARTITION_ENTITIES);
      const row = rowKey(index) + client.newRowSuffix();
      return requests.insertAll(TRANSACTION_ENTITIES, (i) =>
        entityJson(partition + i, `${row}-${String(i).padStart(3, "0")}`),
      );
    },
    answered: (_client, answer) => outcome(wholeTransaction(answer, TRANSACTION_ENTITIES)),
  };
}
