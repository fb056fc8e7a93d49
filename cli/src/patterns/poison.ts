import type { Database } from "@rowhouse/patterns";
import type { Message } from "@rowhouse/patterns/queue-worker";
import type { Library } from "./library.ts";
import { alignColumns, countOf, type Outcome } from "./outcome.ts";

/** The maximum number of messages that a queue returns without dequeuing them. */
const PEEKED_MAX = 32;

interface PoisonMessage {
  /** The library's message id, or the queue's for a message of another origin. */
  readonly id: string;
  readonly insertedAt: string;
  readonly message: Message | undefined;
  readonly text: string;
}

export async function listPoison(database: Database, queue: string): Promise<Outcome> {
  const messages = await peek(database, queue);
  return {
    lines:
      messages.length === 0
        ? [noneOf(queue)]
        : alignColumns(
            messages.map(({ id, message, insertedAt }) => [
              id,
              message?.kind ?? "?",
              message?.key ?? "",
              message?.failure?.at ?? insertedAt,
              message?.failure?.error.split("\n")[0] ?? "",
            ]),
          ),
    json: messages.map(({ id, insertedAt, message }) => {
      return { id, insertedAt, kind: message?.kind, key: message?.key, failure: message?.failure };
    }),
    found: messages.length > 0,
  };
}

/**
 * Prints one message in full, or all of them. Only all of them count as found: printing the one asked for is a
 * success.
 * @throws Error if the message is not among the first.
 */
export async function showPoison(
  database: Database,
  queue: string,
  id: string | undefined,
): Promise<Outcome> {
  const messages = await peek(database, queue);
  const chosen = messages.filter((each) => id === undefined || each.id === id);
  if (id !== undefined && chosen.length === 0) {
    throw new Error(`${id} is not one of the first ${PEEKED_MAX} poison messages of ${queue}.`);
  }
  const contents = chosen.map(({ message, text }) => message ?? { text });
  return {
    lines:
      contents.length === 0
        ? [noneOf(queue)]
        : contents.map((content) => JSON.stringify(content, null, 2)),
    json: contents,
    found: id === undefined && chosen.length > 0,
  };
}

export async function redrivePoison(
  library: Library,
  database: Database,
  queue: string,
  max = Number.POSITIVE_INFINITY,
): Promise<Outcome> {
  const { createWorker } = await library.load("@rowhouse/patterns/queue-worker");
  const count = await createWorker(database, { queue, handlers: [] }).redrive(max);
  return {
    lines: [`${countOf(count, "message")} sent back to ${queue}`],
    json: { queue, redriven: count },
    found: false,
  };
}

function noneOf(queue: string): string {
  return `${queue} has no poison messages`;
}

async function peek({ queues }: Database, queue: string): Promise<PoisonMessage[]> {
  const found = (await queues?.peek(`${queue}-poison`, PEEKED_MAX)) ?? [];
  return found.map(({ id, text, insertedAt }) => {
    const message = parse(text);
    return { id: message?.id ?? id, insertedAt: insertedAt.toISOString(), message, text };
  });
}

/** Undefined for text that the library did not write. */
function parse(text: string): Message | undefined {
  try {
    const content = JSON.parse(text);
    return content?.v === 1 && typeof content.kind === "string" ? content : undefined;
  } catch {
    return undefined;
  }
}
