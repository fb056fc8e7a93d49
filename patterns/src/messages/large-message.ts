import { assertBetween, assertSome, validationFailed } from "../errors.ts";
import type { MessageReceipt } from "../ports/queues.ts";
import { blobsOf, queuesOf } from "../store/connected-ports.ts";
import type { Session } from "../store/session.ts";
import { HIDDEN_MS_MAX, type Message, messageOf, type NewMessage } from "./message.ts";

export interface SendMessageOptions {
  /** Hidden from workers for this long, at most a week. Default: visible at once. */
  readonly delayMs?: number;
  /** Whole seconds. Default: the message never expires. */
  readonly timeToLiveS?: number;
  /** The container for bodies too large for a queue. */
  readonly largeBodies?: string;
}

/** The largest message that fits when the client encodes it as Base64. */
const MESSAGE_BYTES_MAX = 48 * 1024;

/**
 * Sends a message to the workers of a queue. 1 R; 2 R for a message of more than 48 KiB, whose body goes to
 * `largeBodies`.
 * @throws validation-failed for a message that is too large and has no such container; unsupported-by-profile
 * without queues, or without blobs where they are needed.
 */
export async function sendMessage(
  session: Session,
  queue: string,
  message: NewMessage,
  { largeBodies: container, ...options }: SendMessageOptions = {},
): Promise<MessageReceipt> {
  const { delayMs = 0, timeToLiveS = 1 } = options;
  assertBetween("The message", { delayMs }, 0, HIDDEN_MS_MAX);
  assertSome("The message", { timeToLiveS });
  const queues = queuesOf(session);
  const whole = messageOf(session, message);
  if (container === undefined || excessOf(whole) <= 0) {
    return queues.send(queue, textOf(whole), options);
  }
  // Message ids are the caller's, so the blob has a name of its own: a worker that has finished another message
  // with this id deletes that one's body.
  const name = session.writeToken();
  const { body, ...pointer } = { ...whole, blob: { container, name } };
  const content = new TextEncoder().encode(JSON.stringify(body));
  await blobsOf(session).put(container, name, content, { contentType: "application/json" });
  return queues.send(queue, JSON.stringify(pointer), options);
}

/** The text of a message in a queue. @throws validation-failed for a message that is too large. */
export function textOf(message: Message): string {
  const excess = excessOf(message);
  if (excess <= 0) return JSON.stringify(message);
  const limit = `${excess + MESSAGE_BYTES_MAX} bytes; at most ${MESSAGE_BYTES_MAX} fit, or name a container for large bodies`;
  throw validationFailed("The message", "body", limit);
}

/** By how many bytes the message exceeds the limit of a queue; not positive if it fits. */
export function excessOf(message: Message): number {
  return new TextEncoder().encode(JSON.stringify(message)).length - MESSAGE_BYTES_MAX;
}

/** Undefined for text that is not one of our messages. */
export function parseMessage(text: string): Message | undefined {
  try {
    const content = JSON.parse(text);
    return content?.v === 1 && typeof content.kind === "string" ? content : undefined;
  } catch {
    return undefined;
  }
}

/** The message with its body, wherever that is stored. */
export async function withBody(session: Session, message: Message): Promise<Message> {
  if (!message.blob) return message;
  const { container, name } = message.blob;
  const content = await blobsOf(session).get(container, name);
  if (!content) throw validationFailed(`Message ${message.id}`, "blob", "its body is gone");
  return { ...message, body: JSON.parse(new TextDecoder().decode(content.body)) };
}
