import type { Database } from "../database.ts";
import { assertBetween, assertSome, validationFailed } from "../errors.ts";
import type { MessageReceipt } from "../ports/queues.ts";
import { blobsOf, queuesOf } from "../store/connected-ports.ts";
import { HIDDEN_MS_MAX, type Message, messageOf, type NewMessage } from "./message.ts";

export interface SendMessageOptions {
  /** Hidden from workers for this long, a week at most. Default: not at all. */
  readonly delayMs?: number;
  /** Whole seconds. Without it a message never expires. */
  readonly timeToLiveS?: number;
  /** The container for bodies that are too large for a queue. */
  readonly largeBodies?: string;
}

/** What a message takes at most when the client encodes it as Base64. */
const MESSAGE_BYTES_MAX = 48 * 1024;

/**
 * Sends a message to the workers of a queue. 1 R; 2 for one of more than 48 KiB, whose body goes to `largeBodies`.
 * @throws validation-failed for one that is too large and has no container to go to; unsupported-by-profile without
 * queues, or blobs where they are needed.
 */
export async function sendMessage(
  database: Database,
  queue: string,
  message: NewMessage,
  { largeBodies: container, ...options }: SendMessageOptions = {},
): Promise<MessageReceipt> {
  const { delayMs = 0, timeToLiveS = 1 } = options;
  assertBetween("The message", { delayMs }, 0, HIDDEN_MS_MAX);
  assertSome("The message", { timeToLiveS });
  const queues = queuesOf(database);
  const whole = messageOf(database, message);
  if (container === undefined || excessOf(whole) <= 0) {
    return queues.send(queue, textOf(whole), options);
  }
  // Ids are the caller's: a name of its own, for whoever is done with a message of this id deletes that one's body.
  const name = database.writeToken();
  const { body, ...pointer } = { ...whole, blob: { container, name } };
  const content = new TextEncoder().encode(JSON.stringify(body));
  await blobsOf(database).put(container, name, content, { contentType: "application/json" });
  return queues.send(queue, JSON.stringify(pointer), options);
}

/** What a queue takes of it. @throws validation-failed for a message that is too large. */
export function textOf(message: Message): string {
  const excess = excessOf(message);
  if (excess <= 0) return JSON.stringify(message);
  const limit = `${excess + MESSAGE_BYTES_MAX} bytes; at most ${MESSAGE_BYTES_MAX} fit, or name a container for large bodies`;
  throw validationFailed("The message", "body", limit);
}

/** How many bytes more than a queue takes; none if not positive. */
export function excessOf(message: Message): number {
  return new TextEncoder().encode(JSON.stringify(message)).length - MESSAGE_BYTES_MAX;
}

/** Undefined for text that is no message of ours. */
export function parseMessage(text: string): Message | undefined {
  try {
    const content = JSON.parse(text);
    return content?.v === 1 && typeof content.kind === "string" ? content : undefined;
  } catch {
    return undefined;
  }
}

/** The message with its body, wherever that is. */
export async function withBody(database: Database, message: Message): Promise<Message> {
  if (!message.blob) return message;
  const { container, name } = message.blob;
  const content = await blobsOf(database).get(container, name);
  if (!content) throw validationFailed(`Message ${message.id}`, "blob", "the body is gone");
  return { ...message, body: JSON.parse(new TextDecoder().decode(content.body)) };
}
