import { PortError } from "../ports/port-error.ts";
import type {
  MessageReceipt,
  QueueMessage,
  QueuesPort,
  ReceivedMessage,
  ReceiveOptions,
  SendOptions,
  SentMessage,
} from "../ports/queues.ts";
import type { Clock } from "../store/clock.ts";

interface Message {
  readonly id: string;
  text: string;
  popReceipt: string;
  dequeueCount: number;
  visibleAtMs: number;
  readonly insertedAtMs: number;
  readonly expiresAtMs: number;
}

const MESSAGE_BYTES_MAX = 65_536;
const RECEIVE_MAX = 32;
const VISIBILITY_MS_MAX = 7 * 24 * 3600 * 1000;

/** A Queue endpoint in memory. Like the service, it guarantees no order and delivers at least once. */
export class MemoryQueues implements QueuesPort {
  readonly #clock: Clock;
  readonly #queues = new Map<string, Message[]>();
  #count = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async createQueue(queue: string): Promise<boolean> {
    if (!/^[a-z0-9](-?[a-z0-9]){2,62}$/.test(queue)) throw refusal(400, "InvalidResourceName");
    if (this.#queues.has(queue)) return false;
    this.#queues.set(queue, []);
    return true;
  }

  async send(
    queue: string,
    text: string,
    { delayMs = 0, timeToLiveS }: SendOptions = {},
  ): Promise<SentMessage> {
    if (new TextEncoder().encode(text).length > MESSAGE_BYTES_MAX)
      throw refusal(413, "RequestBodyTooLarge");
    if (delayMs > VISIBILITY_MS_MAX) throw refusal(400, "OutOfRangeQueryParameterValue");
    const now = this.#clock.now();
    const message: Message = {
      id: `message-${++this.#count}`,
      text,
      popReceipt: this.#nextReceipt(),
      dequeueCount: 0,
      visibleAtMs: now + wholeSeconds(delayMs),
      insertedAtMs: now,
      expiresAtMs: timeToLiveS === undefined ? Number.POSITIVE_INFINITY : now + timeToLiveS * 1000,
    };
    this.#messages(queue).push(message);
    const { id, popReceipt } = message;
    return { id, popReceipt, insertedAt: new Date(now) };
  }

  async receive(queue: string, { max, visibilityMs }: ReceiveOptions): Promise<ReceivedMessage[]> {
    if (max < 1 || max > RECEIVE_MAX || visibilityMs < 1000)
      throw refusal(400, "OutOfRangeQueryParameterValue");
    return this.#visible(queue)
      .slice(0, max)
      .map((message) => {
        message.dequeueCount++;
        message.popReceipt = this.#nextReceipt();
        message.visibleAtMs = this.#clock.now() + wholeSeconds(visibilityMs);
        return { ...toPublic(message), popReceipt: message.popReceipt };
      });
  }

  async peek(queue: string, max: number): Promise<QueueMessage[]> {
    return this.#visible(queue).slice(0, max).map(toPublic);
  }

  async update(
    queue: string,
    receipt: MessageReceipt,
    { visibilityMs, text }: { readonly visibilityMs: number; readonly text?: string },
  ): Promise<MessageReceipt> {
    const message = this.#messages(queue).find(({ id }) => id === receipt.id);
    if (!message) throw refusal(404, "MessageNotFound");
    if (message.popReceipt !== receipt.popReceipt) throw refusal(400, "PopReceiptMismatch");
    message.popReceipt = this.#nextReceipt();
    message.visibleAtMs = this.#clock.now() + wholeSeconds(visibilityMs);
    if (text !== undefined) message.text = text;
    return { id: message.id, popReceipt: message.popReceipt };
  }

  async delete(queue: string, receipt: MessageReceipt): Promise<boolean> {
    const messages = this.#messages(queue);
    const at = messages.findIndex(
      ({ id, popReceipt }) => id === receipt.id && popReceipt === receipt.popReceipt,
    );
    if (at < 0) return false;
    messages.splice(at, 1);
    return true;
  }

  /** Every message, including hidden ones. */
  contents(queue: string): readonly QueueMessage[] {
    return this.#messages(queue).map(toPublic);
  }

  #visible(queue: string): Message[] {
    const now = this.#clock.now();
    return this.#messages(queue).filter(({ visibleAtMs }) => visibleAtMs <= now);
  }

  #messages(queue: string): Message[] {
    const messages = this.#queues.get(queue);
    if (!messages) throw refusal(404, "QueueNotFound");
    const now = this.#clock.now();
    const alive = messages.filter(({ expiresAtMs }) => expiresAtMs > now);
    if (alive.length < messages.length) messages.splice(0, messages.length, ...alive);
    return messages;
  }

  #nextReceipt(): string {
    return `receipt-${++this.#count}`;
  }
}

function toPublic({ id, text, dequeueCount, insertedAtMs }: Message): QueueMessage {
  return { id, text, dequeueCount, insertedAt: new Date(insertedAtMs) };
}

/** The service counts in whole seconds. */
function wholeSeconds(ms: number): number {
  return Math.ceil(ms / 1000) * 1000;
}

function refusal(status: number, code: string): PortError {
  return new PortError(`The service answers ${status} ${code}.`, { status, code });
}
