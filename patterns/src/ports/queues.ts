/** All the library needs of a Queue endpoint. A call is one request; see `tables.ts`. */
export interface QueuesPort {
  /** False when the queue is there already. */
  createQueue(queue: string): Promise<boolean>;
  send(queue: string, text: string, options?: SendOptions): Promise<SentMessage>;
  /** At most 32 messages, hidden from others for `visibilityMs`. */
  receive(queue: string, options: ReceiveOptions): Promise<ReceivedMessage[]>;
  peek(queue: string, max: number): Promise<QueueMessage[]>;
  /** Hides the message for `visibilityMs` from now and ends the receipt's life: use the one returned. */
  update(
    queue: string,
    receipt: MessageReceipt,
    change: { readonly visibilityMs: number; readonly text?: string },
  ): Promise<MessageReceipt>;
  /** False when the message is gone or the receipt is no longer the latest. */
  delete(queue: string, receipt: MessageReceipt): Promise<boolean>;
}

export interface SendOptions {
  /** Invisible for this long; rounded up to whole seconds. */
  readonly delayMs?: number;
  /** Without it a message never expires. */
  readonly timeToLiveS?: number;
}

export interface ReceiveOptions {
  readonly max: number;
  readonly visibilityMs: number;
}

export interface MessageReceipt {
  readonly id: string;
  readonly popReceipt: string;
}

export interface SentMessage extends MessageReceipt {
  /** By the service's clock. */
  readonly insertedAt: Date;
}

export interface QueueMessage {
  readonly id: string;
  readonly text: string;
  readonly dequeueCount: number;
  readonly insertedAt: Date;
}

export interface ReceivedMessage extends QueueMessage, MessageReceipt {}
