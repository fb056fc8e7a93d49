import { ServiceError } from "@rowhouse/protocol/errors";
import type { QueueName } from "./message-store.ts";
import { type QueueOperation, queueNameOf } from "./queue-operation.ts";

/** Clear Messages: removes all messages in one step, whatever their number. Fails with QueueNotFound (404). */
export const clearMessages: QueueOperation<QueueName, void> = {
  name: "ClearMessages",
  route: { method: "DELETE", resource: "messages" },
  access: { resourceType: "o", accountSas: ["d"], serviceSas: [], bearer: "write" },
  decode: queueNameOf,

  async run({ catalog, reaper }, { account, name }) {
    const renewed = await catalog.renew(account, name);
    if (!renewed) throw new ServiceError("QueueNotFound");
    reaper.wake();
  },

  encode: () => ({ status: 204, headers: [] }),
};
