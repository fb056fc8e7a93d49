import { LIMITS } from "@rowhouse/protocol/limits";
import { xmlResponse } from "../catalog/service-operations.ts";
import type { Query } from "../http/query.ts";
import { integerParameter } from "../http/query-parameters.ts";
import type { Message } from "./message-record.ts";
import type { QueueName } from "./message-store.ts";
import { printMessages } from "./message-xml.ts";
import { type QueueOperation, queueNameOf } from "./queue-operation.ts";

interface GetMessagesInput {
  readonly queue: QueueName;
  readonly max: number;
  readonly hiddenMs: number;
}

/** Get Messages: receives some and hides them from everybody else. Fails with QueueNotFound (404). */
export const getMessages: QueueOperation<GetMessagesInput, readonly Message[]> = {
  name: "GetMessages",
  route: { method: "GET", resource: "messages" },
  access: { resourceType: "o", accountSas: ["p"], serviceSas: ["p"], bearer: "write" },

  decode(request) {
    const queue = queueNameOf(request);
    const max = messagesMaxOf(request.query);
    const hidden = integerParameter(request.query, "visibilitytimeout", HIDDEN_BOUNDS);
    return { queue, max, hiddenMs: (hidden ?? HIDDEN_SECONDS_DEFAULT) * 1000 };
  },

  run: ({ messages }, { queue, ...wanted }) => messages.receive(queue, wanted),

  encode: (messages) => xmlResponse(200, printMessages(messages)),
};

const HIDDEN_SECONDS_DEFAULT = 30;
const HIDDEN_BOUNDS = { min: 1, max: LIMITS.visibilityTimeoutSecondsMax };
const MESSAGES_BOUNDS = { min: 1, max: LIMITS.messagesReceivedMax };

/** How many messages are asked for. @throws ServiceError OutOfRangeQueryParameterValue */
export function messagesMaxOf(query: Query): number {
  return integerParameter(query, "numofmessages", MESSAGES_BOUNDS) ?? 1;
}
