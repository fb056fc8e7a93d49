import type { QueueServiceClient } from "@azure/storage-queue";
import { addAnswerPolicy, pipelineOf } from "./azure/answer-policy.ts";
import { withPortErrors } from "./azure/client-error.ts";
import type { AnswerOptions } from "./azure/silence.ts";
import { PortError } from "./ports/port-error.ts";
import type {
  MessageReceipt,
  QueueMessage,
  QueuesPort,
  ReceivedMessage,
  ReceiveOptions,
  SendOptions,
  SentMessage,
} from "./ports/queues.ts";

export { singleTry } from "./azure/client-error.ts";
export type { AnswerOptions } from "./azure/silence.ts";

/** Wraps the official client as a queues port. Create the client with the options `singleTry`. */
export function azureQueues(service: QueueServiceClient, options: AnswerOptions = {}): QueuesPort {
  // biome-ignore lint/complexity/useLiteralKeys: the client has no public property for its pipeline.
  addAnswerPolicy(pipelineOf(service["pipeline"]), "queue", options);
  return new AzureQueues(service);
}

const NEVER_EXPIRES = -1;

class AzureQueues implements QueuesPort {
  readonly #service: QueueServiceClient;

  constructor(service: QueueServiceClient) {
    this.#service = service;
  }

  async createQueue(queue: string): Promise<boolean> {
    const { succeeded } = await withPortErrors(this.#queue(queue).createIfNotExists());
    return succeeded;
  }

  async send(
    queue: string,
    text: string,
    { delayMs = 0, timeToLiveS = NEVER_EXPIRES }: SendOptions = {},
  ): Promise<SentMessage> {
    const options = { visibilityTimeout: seconds(delayMs), messageTimeToLive: timeToLiveS };
    const { messageId, popReceipt, insertedOn } = await withPortErrors(
      this.#queue(queue).sendMessage(text, options),
    );
    return { id: messageId, popReceipt, insertedAt: insertedOn };
  }

  async receive(queue: string, { max, visibilityMs }: ReceiveOptions): Promise<ReceivedMessage[]> {
    const options = { numberOfMessages: max, visibilityTimeout: seconds(visibilityMs) };
    const { receivedMessageItems } = await withPortErrors(
      this.#queue(queue).receiveMessages(options),
    );
    return receivedMessageItems.map((item) => ({
      popReceipt: item.popReceipt,
      ...messageOf(item),
    }));
  }

  async peek(queue: string, max: number): Promise<QueueMessage[]> {
    const { peekedMessageItems } = await withPortErrors(
      this.#queue(queue).peekMessages({ numberOfMessages: max }),
    );
    return peekedMessageItems.map(messageOf);
  }

  async update(
    queue: string,
    { id, popReceipt }: MessageReceipt,
    { visibilityMs, text }: { readonly visibilityMs: number; readonly text?: string },
  ): Promise<MessageReceipt> {
    const client = this.#queue(queue);
    const answer = await withPortErrors(
      client.updateMessage(id, popReceipt, text, seconds(visibilityMs)),
    );
    return { id, popReceipt: answer.popReceipt ?? popReceipt };
  }

  async delete(queue: string, { id, popReceipt }: MessageReceipt): Promise<boolean> {
    try {
      await withPortErrors(this.#queue(queue).deleteMessage(id, popReceipt));
      return true;
    } catch (error) {
      const isGone =
        error instanceof PortError &&
        ["MessageNotFound", "PopReceiptMismatch"].includes(error.code);
      if (isGone) return false;
      throw error;
    }
  }

  #queue(name: string) {
    return this.#service.getQueueClient(name);
  }
}

interface Item {
  readonly messageId: string;
  readonly messageText: string;
  readonly dequeueCount: number;
  readonly insertedOn: Date;
}

function messageOf({ messageId, messageText, dequeueCount, insertedOn }: Item): QueueMessage {
  return { id: messageId, text: messageText, dequeueCount, insertedAt: insertedOn };
}

/** The service counts in whole seconds; rounding down would release a message too early. */
function seconds(ms: number): number {
  return Math.ceil(ms / 1000);
}
