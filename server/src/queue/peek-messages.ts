import { xmlResponse } from "../xml/print-xml.ts";
import { messagesMaxOf } from "./get-messages.ts";
import { PEEK } from "./locate.ts";
import type { Message } from "./message-record.ts";
import type { QueueName } from "./message-store.ts";
import { printPeekedMessages } from "./message-xml.ts";
import { type QueueOperation, queueNameOf } from "./queue-operation.ts";

interface PeekMessagesInput {
  readonly queue: QueueName;
  readonly max: number;
}

/** Peek Messages: returns what Get Messages would receive, unchanged. Fails with QueueNotFound (404). */
export const peekMessages: QueueOperation<PeekMessagesInput, readonly Message[]> = {
  name: "PeekMessages",
  route: { method: PEEK, resource: "messages" },
  access: { resourceType: "o", accountSas: ["r"], serviceSas: ["r"], bearer: "read" },
  decode: (request) => ({ queue: queueNameOf(request), max: messagesMaxOf(request.query) }),
  run: ({ messages }, { queue, max }) => messages.peek(queue, max),
  encode: (messages) => xmlResponse(200, printPeekedMessages(messages)),
};
