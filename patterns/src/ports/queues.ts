/** Everything the library needs of a Queue endpoint. Each call is one request; see `tables.ts`. */
export interface QueuesPort {
  /** False when the queue already exists. */
  createQueue(queue: string): Promise<boolean>;
  send(queue: string, text: string, options?: SendOptions): Promise<SentMessage>;
  /** At most 32 messages, hidden from other receivers for `visibilityMs`. */
  receive(queue: string, options: ReceiveOptions): Promise<ReceivedMessage[]>;
  peek(queue: string, max: number): Promise<QueueMessage[]>;
  /** Hides the message for `visibilityMs` from now. The receipt becomes invalid: use the one returned. */
  update(
    queue: string,
    receipt: MessageReceipt,
    change: { readonly visibilityMs: number; readonly text?: string },
  ): Promise<MessageReceipt>;
  /** False when the message is gone or the receipt is not the latest. */
  delete(queue: string, receipt: MessageReceipt): Promise<boolean>;
}

export interface SendOptions {
  /** Hidden for this long, rounded up to whole seconds. */
  readonly delayMs?: number;
  /** Default: the message never expires. */
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
