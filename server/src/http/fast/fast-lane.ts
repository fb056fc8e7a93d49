import type { Socket } from "node:net";
import type { OpenConnections } from "../open-connections.ts";
import type { PeerMemory } from "../peer-memory.ts";
import { CoalescedAnswers } from "./answer-coalescing.ts";
import { FastConnection, type Lane } from "./fast-connection.ts";

export interface FastLaneOptions
  extends Pick<Lane, "handle" | "giveAway" | "onError" | "lingering" | "memory" | "requestMsMax"> {
  readonly open: OpenConnections;
  /** Monotonic milliseconds. Default `performance.now`. */
  readonly clock?: () => number;
}

export const SWEEP_MS = 5_000;

/**
 * All connections of one port that node:http does not have yet.
 *
 * node:http is the largest single cost of a point query. This lane carries plain requests (see
 * `plain-request.ts`) directly between a socket and the handler. At the first thing it does not know, it
 * hands the connection, with all bytes not yet answered, to node:http. It measured 1.6 times the point
 * queries of node:http with the same handler (`npm run bench -- point-query`).
 */
export class FastLane implements Lane {
  readonly handle: Lane["handle"];
  readonly giveAway: Lane["giveAway"];
  readonly onError: Lane["onError"];
  readonly lingering: Lane["lingering"];
  readonly requestMsMax: number;
  readonly gathered: CoalescedAnswers;
  readonly memory: PeerMemory;
  readonly #open: OpenConnections;
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
    this.memory = options.memory;
    this.#open = options.open;
    this.#clock = options.clock ?? (() => performance.now());
    this.#nextSweepAt = this.#clock() + SWEEP_MS;
    this.gathered = new CoalescedAnswers(this.#clock);
    // One timer for all: a timer per request costs more than reading the request.
    this.#timer = setInterval(() => this.sweep(), SWEEP_MS);
    this.#timer.unref();
  }

  /**
   * The time of the next sweep, in place of the current time: read twice per request, the clock would take 2
   * to 5 % of a point query. Connections then seem younger than they are, so none is ended early, and only a
   * sweep ends a late one.
   */
  now(): number {
    return this.#nextSweepAt;
  }

  exactNow(): number {
    return this.#clock();
  }

  /** Ends every connection that has waited too long. */
  sweep(): void {
    const now = this.#clock();
    for (const connection of this.#connections) connection.endIfLate(now);
    this.#nextSweepAt = now + SWEEP_MS;
  }

  /**
   * @param accepted paused since it was accepted; from now on owned by the lane
   * @returns the socket to read and write the connection through instead
   */
  take(accepted: Socket): Socket {
    const connection = new FastConnection(accepted, this);
    this.#connections.add(connection);
    this.#open.add(connection);
    return connection.socket;
  }

  forget(connection: FastConnection): void {
    this.#connections.delete(connection);
    this.#open.delete(connection);
  }

  /** Ends idle connections now, and the others with the answer they wait for. */
  close(): void {
    this.isClosing = true;
    clearInterval(this.#timer);
    for (const connection of this.#connections) connection.endIfIdle();
  }

  /** Cuts all remaining connections. */
  destroy(): void {
    for (const connection of this.#connections) connection.destroy();
  }
}
