import { heldMessageOf } from "./held-message.ts";
import type { HeldMessage, QueueName } from "./message-store.ts";
import { type QueueOperation, queueNameOf } from "./queue-operation.ts";

interface DeleteMessageInput {
  readonly queue: QueueName;
  readonly held: HeldMessage;
}

/**
 * Delete Message. Fails with QueueNotFound or MessageNotFound (404), the latter also for a receipt that is
 * not the latest.
 */
export const deleteMessage: QueueOperation<DeleteMessageInput, void> = {
  name: "DeleteMessage",
  route: { method: "DELETE", resource: "message" },
  access: { resourceType: "o", accountSas: ["p"], serviceSas: ["p"], bearer: "write" },
  decode: (request) => ({ queue: queueNameOf(request), held: heldMessageOf(request) }),
  run: ({ messages }, { queue, held }) => messages.delete(queue, held),
  encode: () => ({ status: 204, headers: [] }),
};
