import { LIMITS } from "@rowhouse/protocol/limits";
import { missingParameter } from "../wire/query-parameters.ts";
import { heldMessageOf } from "./held-message.ts";
import type { Message } from "./message-record.ts";
import type { HeldMessage, QueueName } from "./message-store.ts";
import { parseMessageText, printNextVisible } from "./message-xml.ts";
import { printPopReceipt } from "./pop-receipt.ts";
import { type QueueOperation, queueNameOf, visibilityTimeoutOf } from "./queue-operation.ts";

interface UpdateMessageInput {
  readonly queue: QueueName;
  readonly held: HeldMessage;
  readonly visibilityTimeoutMs: number;
  /** Undefined leaves the text unchanged. */
  readonly text: Uint8Array | undefined;
}

/**
 * Update Message: sets when a held message becomes visible, and may replace its text. Fails with
 * QueueNotFound or MessageNotFound (404), the latter also for a receipt that is not the latest.
 */
export const updateMessage: QueueOperation<UpdateMessageInput, Message> = {
  name: "UpdateMessage",
  route: { method: "PUT", resource: "message" },
  access: { resourceType: "o", accountSas: ["u"], serviceSas: ["u"], bearer: "write" },
  body: "buffer",
  bodyBytesMax: LIMITS.messageBodyBytesMax,

  decode(request) {
    const { query, body } = request;
    const queue = queueNameOf(request);
    const held = heldMessageOf(request);
    const visibilityTimeout = visibilityTimeoutOf(query, 0);
    if (visibilityTimeout === undefined) throw missingParameter("visibilitytimeout");
    const text = body.length > 0 ? parseMessageText(body) : undefined;
    return { queue, held, visibilityTimeoutMs: visibilityTimeout * 1000, text };
  },

  run: ({ messages }, { queue, held, ...change }) => messages.update(queue, held, change),

  encode: (message) => ({
    status: 204,
    headers: [
      "x-ms-popreceipt",
      printPopReceipt(message),
      "x-ms-time-next-visible",
      printNextVisible(message),
    ],
  }),
};
