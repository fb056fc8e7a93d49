import { ServiceError } from "@rowhouse/protocol/errors";
import { type Metadata, readMetadata, sameMetadata } from "../wire/metadata.ts";
import type { QueueName } from "./message-store.ts";
import { type QueueOperation, queueNameOf } from "./queue-operation.ts";

interface CreateQueueInput {
  readonly queue: QueueName;
  readonly metadata: Metadata;
}

/**
 * Create Queue. Idempotent: returns 204 when the queue exists with the same metadata. Fails with
 * QueueAlreadyExists (409) when the metadata differs.
 */
export const createQueue: QueueOperation<CreateQueueInput, { readonly created: boolean }> = {
  name: "CreateQueue",
  route: { method: "PUT", resource: "queue" },
  access: { resourceType: "c", accountSas: ["c", "w"], serviceSas: [], bearer: "write" },

  decode: (request) => ({ queue: queueNameOf(request), metadata: readMetadata(request) }),

  async run({ catalog }, { queue, metadata }) {
    const value = { metadata, policies: [] };
    const { created, named } = await catalog.create(queue.account, queue.name, value);
    if (!created && !sameMetadata(named.value.metadata, metadata)) {
      throw new ServiceError("QueueAlreadyExists");
    }
    return { created };
  },

  encode: ({ created }) => ({ status: created ? 201 : 204, headers: [] }),
};
