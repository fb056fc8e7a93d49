import { ServiceError } from "@rowhouse/protocol/errors";
import { type Metadata, metadataHeaders, readMetadata } from "../wire/metadata.ts";
import type { QueueName } from "./message-store.ts";
import { type QueueOperation, queueNameOf } from "./queue-operation.ts";

interface QueueFacts {
  readonly metadata: Metadata;
  /** The number of unexpired messages, including hidden ones. */
  readonly messages: number;
}

/** Get Queue Metadata: the metadata and the number of messages. Fails with QueueNotFound (404). */
export const getQueueMetadata: QueueOperation<QueueName, QueueFacts> = {
  name: "GetQueueMetadata",
  route: { method: "GET", resource: "queue", comp: "metadata" },
  access: { resourceType: "c", accountSas: ["r"], serviceSas: ["r"], bearer: "read" },
  decode: queueNameOf,

  async run({ catalog, messages }, queue) {
    const named = await catalog.find(queue.account, queue.name);
    if (!named) throw new ServiceError("QueueNotFound");
    return { metadata: named.value.metadata, messages: await messages.count(queue) };
  },

  encode: ({ metadata, messages }) => ({
    status: 200,
    headers: ["x-ms-approximate-messages-count", String(messages), ...metadataHeaders(metadata)],
  }),
};

interface SetQueueMetadataInput {
  readonly queue: QueueName;
  readonly metadata: Metadata;
}

/** Set Queue Metadata: replaces all metadata. Fails with QueueNotFound (404). */
export const setQueueMetadata: QueueOperation<SetQueueMetadataInput, void> = {
  name: "SetQueueMetadata",
  route: { method: "PUT", resource: "queue", comp: "metadata" },
  access: { resourceType: "c", accountSas: ["w"], serviceSas: [], bearer: "write" },
  decode: (request) => ({ queue: queueNameOf(request), metadata: readMetadata(request) }),

  async run({ catalog }, { queue, metadata }) {
    const change = await catalog.update(queue.account, queue.name, (value) => ({
      ...value,
      metadata,
    }));
    if (!change) throw new ServiceError("QueueNotFound");
  },

  encode: () => ({ status: 204, headers: [] }),
};
