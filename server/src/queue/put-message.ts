import { LIMITS } from "@rowhouse/protocol/limits";
import type { Query } from "../wire/query.ts";
import { integerParameter, invalidParameter, parseInteger } from "../wire/query-parameters.ts";
import { xmlResponse } from "../xml/print-xml.ts";
import type { Message } from "./message-record.ts";
import type { QueueName } from "./message-store.ts";
import { parseMessageText, printPutMessage } from "./message-xml.ts";
import { type QueueOperation, queueNameOf, visibilityTimeoutOf } from "./queue-operation.ts";

interface PutMessageInput {
  readonly queue: QueueName;
  readonly text: Uint8Array;
  readonly visibilityTimeoutMs: number;
  readonly timeToLiveMs: number;
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
    const visibilityTimeout = visibilityTimeoutOf(query, 0) ?? 0;
    const timeToLive = timeToLiveOf(query, request.version);
    if (visibilityTimeout >= timeToLive) {
      const reason = "messagettl must be greater than visibilitytimeout.";
      throw invalidParameter("visibilitytimeout", String(visibilityTimeout), reason);
    }
    const text = parseMessageText(body);
    return {
      queue,
      text,
      visibilityTimeoutMs: visibilityTimeout * 1000,
      timeToLiveMs: timeToLive * 1000,
    };
  },

  run: ({ messages }, { queue, ...message }) => messages.put(queue, message),

  encode: (message) => xmlResponse(201, printPutMessage(message)),
};

const TIME_TO_LIVE = "messagettl";

/** The first version with a time to live of more than a week, or without an end. */
const LONG_LIVES_SINCE = "2017-07-29";

/** In seconds. @throws ServiceError InvalidQueryParameterValue or OutOfRangeQueryParameterValue. */
function timeToLiveOf(query: Query, version: string): number {
  if (version < LONG_LIVES_SINCE) {
    const bounds = { min: 1, max: LIMITS.messageTimeToLiveSecondsMaxOld };
    return integerParameter(query, TIME_TO_LIVE, bounds) ?? LIMITS.messageTimeToLiveSecondsDefault;
  }
  const text = query.get(TIME_TO_LIVE);
  if (text === undefined) return LIMITS.messageTimeToLiveSecondsDefault;
  const timeToLive = parseInteger(TIME_TO_LIVE, text);
  if (timeToLive === -1) return Number.POSITIVE_INFINITY;
  if (timeToLive >= 1 && timeToLive <= LIMITS.messageTimeToLiveSecondsMax) return timeToLive;
  const reason = "Value must be greater than or equal to 1, or -1 to indicate an infinite TTL.";
  throw invalidParameter(TIME_TO_LIVE, text, reason);
}
