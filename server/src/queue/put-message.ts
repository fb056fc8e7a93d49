import { LIMITS } from "@rowhouse/protocol/limits";
import { xmlResponse } from "../catalog/service-operations.ts";
import type { Query } from "../http/query.ts";
import { integerParameter, invalidParameter, parseInteger } from "../http/query-parameters.ts";
import type { Message } from "./message-record.ts";
import type { QueueName } from "./message-store.ts";
import { parseMessageText, printPutMessage } from "./message-xml.ts";
import { type QueueOperation, queueNameOf } from "./queue-operation.ts";

interface PutMessageInput {
  readonly queue: QueueName;
  readonly text: Uint8Array;
  readonly hiddenMs: number;
  readonly lifeMs: number;
}

/** Put Message. Fails with QueueNotFound (404). */
export const putMessage: QueueOperation<PutMessageInput, Message> = {
  name: "PutMessage",
  route: { method: "POST", resource: "messages" },
  access: { resourceType: "o", accountSas: ["a"], serviceSas: ["a"], bearer: "write" },
  body: "buffer",
  bodyBytesMax: LIMITS.messageBodyBytesMax,

  decode(request) {
    const { query, body } = request;
    const queue = queueNameOf(request);
    const hidden = integerParameter(query, HIDDEN, HIDDEN_BOUNDS) ?? 0;
    const life = lifeOf(query);
    if (hidden >= life) {
      const reason = "messagettl must be greater than visibilitytimeout.";
      throw invalidParameter(HIDDEN, String(hidden), reason);
    }
    const text = parseMessageText(body);
    return { queue, text, hiddenMs: hidden * 1000, lifeMs: life * 1000 };
  },

  run: ({ messages }, { queue, ...message }) => messages.put(queue, message),

  encode: (message) => xmlResponse(201, printPutMessage(message)),
};

const HIDDEN = "visibilitytimeout";
const HIDDEN_BOUNDS = { min: 0, max: LIMITS.visibilityTimeoutSecondsMax };
const LIFE = "messagettl";

/** In seconds. @throws ServiceError InvalidQueryParameterValue */
function lifeOf(query: Query): number {
  const text = query.get(LIFE);
  if (text === undefined) return LIMITS.messageLifeSecondsDefault;
  const life = parseInteger(LIFE, text);
  if (life === -1) return Number.POSITIVE_INFINITY;
  if (life >= 1) return life;
  const reason = "Value must be greater than or equal to 1, or -1 to indicate an infinite TTL.";
  throw invalidParameter(LIFE, text, reason);
}
