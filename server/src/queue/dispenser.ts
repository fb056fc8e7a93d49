import type { Clock } from "../clock.ts";
import { queueText, type ReadyPlace } from "./message-keys.ts";
import type { VisibleMessages } from "./visible-messages.ts";

interface Receiver {
  readonly max: number;
  readonly lost: number;
  readonly resolve: (places: readonly ReadyPlace[]) => void;
  readonly reject: (error: unknown) => void;
}

/** The most places that one search looks for on behalf of its receivers. */
const PLACES_PER_SEARCH_MAX = 1024;
/** With a window this wide, as many processes each find a message without racing for the same one. */
const WINDOW_MAX = 256;

/**
 * Deals the visible messages of a queue out to the receivers of this process, each message to one receiver.
 * All receivers that ask in one turn of the event loop, or while a search is running, share the next search.
 * 64 receivers then read the front of the queue once; otherwise each would pass over the messages that the
 * others are taking (32 on average, 30 µs per receiver).
 */
export class Dispenser {
  readonly #visible: VisibleMessages;
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Receiver[]>();
  /** Ids of messages that were dealt out and not yet given back. */
  readonly #claimed = new Set<string>();

  constructor(visible: VisibleMessages, clock: Clock) {
    this.#visible = visible;
    this.#clock = clock;
  }

  /**
   * Claims up to `max` visible messages, which the caller must give back whatever happens to them. A caller
   * that has `lost` races to other processes chooses at random among more messages, twice as many after each
   * loss.
   */
  claim(
    partition: Uint8Array,
    { max, lost }: { readonly max: number; readonly lost: number },
  ): Promise<readonly ReadyPlace[]> {
    return new Promise((resolve, reject) => {
      const queue = queueText(partition);
      const receiver = { max, lost, resolve, reject };
      const waiting = this.#waiting.get(queue);
      if (waiting) {
        waiting.push(receiver);
        return;
      }
      this.#waiting.set(queue, [receiver]);
      setImmediate(() => this.#serveAll(queue, partition));
    });
  }

  giveBack(places: readonly ReadyPlace[]): void {
    for (const { id } of places) this.#claimed.delete(id);
  }

  async #serveAll(queue: string, partition: Uint8Array): Promise<void> {
    const waiting = this.#waiting.get(queue)!;
    while (waiting.length > 0) {
      const receivers = takeTurn(waiting);
      try {
        this.#deal(receivers, await this.#search(partition, receivers));
      } catch (error) {
        for (const { reject } of receivers) reject(error);
      }
    }
    this.#waiting.delete(queue);
  }

  #search(partition: Uint8Array, receivers: readonly Receiver[]): Promise<ReadyPlace[]> {
    return this.#visible.find({
      partition,
      now: this.#clock.now(),
      max: receivers.reduce((sum, receiver) => sum + windowOf(receiver), 0),
      take: ({ id }) => !this.#claimed.has(id),
    });
  }

  #deal(receivers: readonly Receiver[], places: ReadyPlace[]): void {
    for (const { max, lost, resolve } of receivers) {
      const spare = lost === 0 ? 0 : Math.max(0, places.length - max);
      const dealt = places.splice(Math.floor(Math.random() * (spare + 1)), max);
      for (const { id } of dealt) this.#claimed.add(id);
      resolve(dealt);
    }
  }
}

function windowOf({ max, lost }: Receiver): number {
  return Math.max(max, Math.min(max * 2 ** lost, WINDOW_MAX));
}

/** Removes the receivers that the next search serves, at least one. */
function takeTurn(waiting: Receiver[]): Receiver[] {
  let asked = 0;
  const first = waiting.findIndex((receiver, i) => {
    asked += windowOf(receiver);
    return i > 0 && asked > PLACES_PER_SEARCH_MAX;
  });
  return waiting.splice(0, first < 0 ? waiting.length : first);
}
