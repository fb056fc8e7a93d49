import { ServerError, wire } from "./session.ts";
import { elementsOf, escapeXml, textOf } from "./storage-xml.ts";

export interface Message {
  readonly id: string;
  readonly insertedAt: number;
  readonly expiresAt: number;
  /** How often it was received. */
  readonly dequeued: number;
  readonly text: string;
}

const QUEUES_MAX = 5000;

export async function listQueues(): Promise<string[]> {
  const names: string[] = [];
  let marker = "";
  do {
    const answer = await wire({ service: "queue", path: "", query: { comp: "list", marker } });
    const xml = await answer.text();
    names.push(...elementsOf(xml, "Queue").map((queue) => textOf(queue, "Name")));
    marker = textOf(xml, "NextMarker");
  } while (marker !== "" && names.length < QUEUES_MAX);
  return names;
}

/** Unexpired messages, the hidden ones included. */
export async function countMessages(queue: string): Promise<number> {
  const answer = await wire({ service: "queue", path: `/${queue}`, query: { comp: "metadata" } });
  return Number(answer.headers.get("x-ms-approximate-messages-count") ?? 0);
}

export const PEEK_MAX = 32;

/** The first visible messages, which stay as they are: nobody receives them. */
export async function peekMessages(queue: string, max = PEEK_MAX): Promise<Message[]> {
  const query = { peekonly: "true", numofmessages: String(max) };
  const answer = await wire({ service: "queue", path: `/${queue}/messages`, query });
  return elementsOf(await answer.text(), "QueueMessage").map((xml) => ({
    id: textOf(xml, "MessageId"),
    insertedAt: Date.parse(textOf(xml, "InsertionTime")),
    expiresAt: Date.parse(textOf(xml, "ExpirationTime")),
    dequeued: Number(textOf(xml, "DequeueCount")),
    text: textOf(xml, "MessageText"),
  }));
}

export async function createQueue(queue: string): Promise<void> {
  await wire({ service: "queue", method: "PUT", path: `/${queue}` });
}

export async function putMessage(queue: string, text: string): Promise<void> {
  await putEscaped(queue, escapeXml(text));
}

/** @param lifetime in seconds; -1: for ever; undefined: the service's week */
async function putEscaped(queue: string, escaped: string, lifetime?: number): Promise<void> {
  await wire({
    ...{ service: "queue", method: "POST", path: `/${queue}/messages` },
    query: { messagettl: lifetime?.toString() },
    headers: { "Content-Type": "application/xml" },
    body: `<QueueMessage><MessageText>${escaped}</MessageText></QueueMessage>`,
  });
}

const WEEK_SECONDS = 7 * 24 * 3600;
/** What the service takes at most. */
const LIFETIME_SECONDS_MAX = 2 ** 31 - 1;

/** What is left of a message's life, if that is more than a new message's. */
function longLifeOf(expiresAt: number, now: number): number | undefined {
  const seconds = Math.floor((expiresAt - now) / 1000);
  if (!(seconds > WEEK_SECONDS)) return undefined;
  return seconds > LIFETIME_SECONDS_MAX ? -1 : seconds;
}

export async function clearMessages(queue: string): Promise<void> {
  await wire({ service: "queue", method: "DELETE", path: `/${queue}/messages` });
}

const POISON = "-poison";

/** The queue that messages come from which nobody could handle; undefined for other queues. */
export function sourceOf(queue: string): string | undefined {
  return queue.endsWith(POISON) && queue.length > POISON.length
    ? queue.slice(0, -POISON.length)
    : undefined;
}

export function poisonOf(queue: string): string {
  return `${queue}${POISON}`;
}

export interface Redrive {
  readonly from: string;
  readonly to: string;
  readonly most: number;
  /** Messages a second. */
  readonly rate: number;
  readonly signal: AbortSignal;
  readonly onMoved: (moved: number) => void;
  /** Resolves after so many milliseconds. */
  readonly pause: (ms: number) => Promise<void>;
}

const HELD_SECONDS = 60;

/**
 * Moves messages back, one after the other: each is put where it came from before it is deleted where it is, so none is
 * lost; one may be there twice if the page is closed between the two. It keeps its text to the byte and lives at least as
 * long, under another id.
 * @returns how many were moved
 * @throws ServerError
 */
export async function redrive({
  from,
  to,
  most,
  rate,
  signal,
  onMoved,
  pause,
}: Redrive): Promise<number> {
  let moved = 0;
  while (moved < most && !signal.aborted) {
    const query = { numofmessages: "1", visibilitytimeout: String(HELD_SECONDS) };
    const answer = await wire({ service: "queue", path: `/${from}/messages`, query });
    const [message] = elementsOf(await answer.text(), "QueueMessage");
    if (message === undefined) break;
    const lifetime = longLifeOf(Date.parse(textOf(message, "ExpirationTime")), Date.now());
    await putEscaped(to, elementsOf(message, "MessageText")[0] ?? "", lifetime);
    await wire({
      service: "queue",
      method: "DELETE",
      path: `/${from}/messages/${textOf(message, "MessageId")}`,
      query: { popreceipt: textOf(message, "PopReceipt") },
    });
    moved++;
    onMoved(moved);
    if (moved < most) await pause(1000 / rate);
  }
  return moved;
}

export async function queueExists(queue: string): Promise<boolean> {
  try {
    await countMessages(queue);
    return true;
  } catch (error) {
    if (error instanceof ServerError && error.status === 404) return false;
    throw error;
  }
}
