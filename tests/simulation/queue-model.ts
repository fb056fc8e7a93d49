/** A message in the model. */
export interface ModelMessage {
  readonly id: string;
  readonly expiresAt: number;
  readonly insertedAt: number;
  /** Its position among all messages put. */
  readonly order: number;
  visibleAt: number;
  dequeueCount: number;
  text: string;
  /** The newest receipt. */
  receipt: unknown;
}

/** A naive model of a queue: a list that every call searches. */
export class QueueModel {
  messages: ModelMessage[] = [];
  #put = 0;

  put(message: Omit<ModelMessage, "order" | "dequeueCount">): void {
    this.messages.push({ ...message, order: this.#put++, dequeueCount: 0 });
  }

  alive(now: number): ModelMessage[] {
    return this.messages.filter(({ expiresAt }) => expiresAt > now);
  }

  visible(now: number, max: number): ModelMessage[] {
    return this.alive(now)
      .filter(({ visibleAt }) => visibleAt <= now)
      .sort((a, b) => a.visibleAt - b.visibleAt || a.order - b.order)
      .slice(0, max);
  }

  /** The message that this receipt is valid for. */
  held(id: string, receipt: unknown, now: number): ModelMessage | undefined {
    return this.alive(now).find((each) => each.id === id && each.receipt === receipt);
  }

  remove(id: string): void {
    this.messages = this.messages.filter((each) => each.id !== id);
  }
}
