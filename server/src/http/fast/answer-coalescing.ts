import { isLent, LONG_BYTES } from "../../wire/body-bytes.ts";
import type { WireResponse } from "../../wire/operation.ts";

/** A connection whose answer is ready and waits to be sent. */
export interface Answered {
  sendAnswer(): void;
}

/** Turns with fewer pages are not a crowd: the client reads the first page while the next is built. */
const CROWD_MIN = 4;
/**
 * Waiting pages are sent as soon as more of them would no longer fit the processor's cache. With 100 KB
 * pages, this value gives 1.1 times the throughput of a quarter of it, or of twice as much.
 */
const BYTES_MAX = 768 * 1024;
/** A page waits no longer than this, plus the time of a page that is already being built. */
const WAIT_MS_MAX = 1;

/**
 * Once turns of the event loop produce many pages, all pages of one turn are sent together at its end. The
 * first wakes a waiting client, which then finds the others there; waking it separately for each page took a
 * fifth of the server's time. Without it, pages of 100 KB take 1.08 to 1.10 times the server's CPU with 32
 * connections, and the same with 16 and with 64. Short
 * answers are sent immediately: their clients are awake unless other processes keep the machine busy, and
 * would only wait.
 */
export class CoalescedAnswers {
  readonly #clock: () => number;
  #waiting: Answered[] = [];
  #bytes = 0;
  #firstAt = 0;
  /** Pages of this turn, and whether the previous turn had many. */
  #made = 0;
  #isCrowd = false;

  /** @param clock monotonic milliseconds */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Whether to hold the answer back, with `add`. Call it once per answer: it also counts the turn's pages. */
  holdsBack({ body }: WireResponse): boolean {
    if (!isLent(body) || body.end - body.start < LONG_BYTES) return false;
    if (this.#made++ === 0) setImmediate(this.#atTurnEnd);
    return this.#isCrowd;
  }

  /**
   * Holds an answer back. All held answers are sent now if they are large or late, otherwise when the turn
   * ends.
   */
  add(connection: Answered, { body }: WireResponse): void {
    const now = this.#clock();
    if (this.#waiting.push(connection) === 1) this.#firstAt = now;
    if (isLent(body)) this.#bytes += body.end - body.start;
    if (this.#bytes >= BYTES_MAX || now - this.#firstAt >= WAIT_MS_MAX) this.#send();
  }

  #atTurnEnd = (): void => {
    this.#isCrowd = this.#made >= CROWD_MIN;
    this.#made = 0;
    this.#send();
  };

  #send(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#bytes = 0;
    for (const connection of waiting) connection.sendAnswer();
  }
}
