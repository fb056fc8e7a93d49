import type { Socket } from "node:net";
import { AnswersTogether } from "./answers-together.ts";
import { FastConnection, type Lane } from "./fast-connection.ts";

export interface FastLaneOptions
  extends Pick<Lane, "handle" | "giveAway" | "onError" | "lingering" | "requestMsMax"> {
  /** Milliseconds that only grow. Default `performance.now`. */
  readonly clock?: () => number;
}

export const SWEEP_MS = 5_000;

/**
 * All connections of one port that node:http does not have yet.
 *
 * node:http is the largest single cost of a point query. This lane carries plain requests (see
 * `plain-request.ts`) straight between a socket and the handler, and hands a connection with all
 * bytes not yet answered to node:http at the first thing it does not know. It measured 1.6 times the
 * point queries of node:http with the same handler (`npm run bench -- point-query`).
 */
export class FastLane implements Lane {
  readonly handle: Lane["handle"];
  readonly giveAway: Lane["giveAway"];
  readonly onError: Lane["onError"];
  readonly lingering: Lane["lingering"];
  readonly requestMsMax: number;
  readonly together: AnswersTogether;
  readonly #clock: () => number;
  #nextSweepAt: number;
  isClosing = false;
  readonly #connections = new Set<FastConnection>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: FastLaneOptions) {
    this.handle = options.handle;
    this.giveAway = options.giveAway;
    this.onError = options.onError;
    this.lingering = options.lingering;
    this.requestMsMax = options.requestMsMax;
    this.#clock = options.clock ?? (() => performance.now());
    this.#nextSweepAt = this.#clock() + SWEEP_MS;
    this.together = new AnswersTogether(this.#clock);
    // One timer for all: a timer for each request costs more than reading it.
    this.#timer = setInterval(() => this.sweep(), SWEEP_MS);
    this.#timer.unref();
  }

  /**
   * When the connections are swept next: asked twice a request, the clock itself would take 2 to 5 % of a
   * point query. Nobody is ended early; whoever is late is noticed by a sweep alone.
   */
  now(): number {
    return this.#nextSweepAt;
  }

  /** Ends every connection that has waited too long. */
  sweep(): void {
    const now = this.#clock();
    for (const connection of this.#connections) connection.endIfLate(now);
    this.#nextSweepAt = now + SWEEP_MS;
  }

  /**
   * @param accepted paused since it was accepted; the lane's from now on
   * @returns what the connection is read and written through instead
   */
  take(accepted: Socket): Socket {
    const connection = new FastConnection(accepted, this);
    this.#connections.add(connection);
    return connection.socket;
  }

  forget(connection: FastConnection): void {
    this.#connections.delete(connection);
  }

  /** Ends idle connections now and the others with the answer they wait for. */
  close(): void {
    this.isClosing = true;
    clearInterval(this.#timer);
    for (const connection of this.#connections) connection.endIfIdle();
  }

  /** Cuts what is left. */
  destroy(): void {
    for (const connection of this.#connections) connection.destroy();
  }
}
