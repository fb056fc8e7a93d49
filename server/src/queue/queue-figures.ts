import { storedNames } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { Clock } from "../clock.ts";
import type { Engine } from "../engine/engine.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import { MessageCounter } from "./message-counter.ts";
import { queuePartition, readReadyKey, visibleRange } from "./message-keys.ts";

/** A scrape looks at this many queues; a service has a few. */
const QUEUES_MAX = 1000;

/** What waits in the queues of all accounts together. */
export interface QueueCounts {
  readonly queues: number;
  /** Unexpired messages, the hidden ones included. */
  readonly messages: number;
  /** How long the message that waits longest has been visible without being received. */
  readonly waitingMs: number;
}

export class QueueFigures {
  readonly #engine: Engine;
  readonly #clock: Clock;
  readonly #counter: MessageCounter;

  constructor(engine: Engine, clock: Clock) {
    this.#engine = engine;
    this.#clock = clock;
    this.#counter = new MessageCounter(engine, clock);
  }

  async counts(): Promise<QueueCounts> {
    const queues = await storedNames(this.#engine, KEY_SPACES.queueCatalog);
    let messages = 0;
    let waitingMs = 0;
    for (const { accountId, id } of queues.slice(0, QUEUES_MAX)) {
      const partition = queuePartition(accountId, id);
      messages += await this.#counter.count(partition);
      waitingMs = Math.max(waitingMs, await this.#longestWait(partition));
    }
    return { queues: queues.length, messages, waitingMs };
  }

  async #longestWait(partition: Uint8Array): Promise<number> {
    const now = this.#clock.now();
    let waitingMs = 0;
    await scanToEnd(this.#engine, visibleRange(partition, now), ({ key }) => {
      const { visibleAt, expiresAt } = readReadyKey(key);
      if (expiresAt <= now) return true;
      waitingMs = now - visibleAt;
      return false;
    });
    return waitingMs;
  }
}
