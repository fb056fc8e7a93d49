import { LIMITS } from "@rowhouse/protocol/limits";
import type { Query } from "../wire/query.ts";
import { integerParameter } from "../wire/query-parameters.ts";
import { xmlResponse } from "../xml/print-xml.ts";
import type { Message } from "./message-record.ts";
import type { QueueName } from "./message-store.ts";
import { printMessages } from "./message-xml.ts";
import { type QueueOperation, queueNameOf, visibilityTimeoutOf } from "./queue-operation.ts";

interface GetMessagesInput {
  readonly queue: QueueName;
  readonly max: number;
  readonly visibilityTimeoutMs: number;
}

/** Get Messages: receives messages and hides them from other consumers. Fails with QueueNotFound (404). */
export const getMessages: QueueOperation<GetMessagesInput, readonly Message[]> = {
  name: "GetMessages",
  route: { method: "GET", resource: "messages" },
  access: { resourceType: "o", accountSas: ["p"], serviceSas: ["p"], bearer: "write" },

  decode(request) {
    const queue = queueNameOf(request);
    const max = messagesMaxOf(request.query);
    const visibilityTimeout =
      visibilityTimeoutOf(request.query, 1) ?? LIMITS.visibilityTimeoutSecondsDefault;
    return { queue, max, visibilityTimeoutMs: visibilityTimeout * 1000 };
  },

  run: ({ messages }, { queue, ...wanted }) => messages.receive(queue, wanted),

  encode: (messages) => xmlResponse(200, printMessages(messages)),
};

const MESSAGES_BOUNDS = { min: 1, max: LIMITS.messagesReceivedMax };

/** The number of messages requested. @throws ServiceError OutOfRangeQueryParameterValue */
export function messagesMaxOf(query: Query): number {
  return integerParameter(query, "numofmessages", MESSAGES_BOUNDS) ?? 1;
}
