import { ServiceError } from "@rowhouse/protocol/errors";
import type { QueueName } from "./message-store.ts";
import { type QueueOperation, queueNameOf } from "./queue-operation.ts";

/**
 * Delete Queue, with all its messages. Fails with QueueNotFound (404). The name can be reused immediately;
 * the stored messages are freed in the background.
 */
export const deleteQueue: QueueOperation<QueueName, void> = {
  name: "DeleteQueue",
  route: { method: "DELETE", resource: "queue" },
  access: { resourceType: "c", accountSas: ["d"], serviceSas: [], bearer: "write" },
  decode: queueNameOf,

  async run({ catalog, reaper }, { account, name }) {
    const removed = await catalog.remove(account, name);
    if (!removed) throw new ServiceError("QueueNotFound");
    reaper.wake();
  },

  encode: () => ({ status: 204, headers: [] }),
};
