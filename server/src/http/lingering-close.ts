import { Socket } from "node:net";
import { LINGER_MS_MAX, LINGER_STILL_MS_MAX } from "./both-lanes.ts";

const SWEEP_MS = 1_000;

interface Wait {
  readonly since: number;
  /** What had come when the last sweep looked that found more than the one before, and when that was. */
  bytesRead: number;
  movedAt: number;
}

/**
 * Connections whose last answer is out while their client still sends. Were they closed now, the client's
 * system would learn of it in mid-sending, and fail or throw away the answer before it was read: of uploads
 * of 100 MiB with a wrong key the official client heard 58 of 80 refusals, and EPIPE instead of the others. So
 * our side alone is ended, and what comes is thrown away, never read as a request, until the client closes too,
 * is still for a few seconds or has had its time. (RFC 9112, 9.6; web servers call it a lingering close.)
 */
export class LingeringCloses {
  readonly #waits = new Map<Socket, Wait>();
  /** Milliseconds that only grow. */
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #isClosing = false;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * From now on the connection lingers where its last answer would end it. Both lanes end it by
   * `destroySoon`: the fast lane calls that, and so does node:http.
   */
  prepare(socket: Socket): void {
    socket.destroySoon = () => {
      if (this.#isClosing) Socket.prototype.destroySoon.call(socket);
      else this.#begin(socket);
    };
  }

  /** Ends who has had its time. */
  sweep(): void {
    const now = this.#now();
    for (const [socket, wait] of this.#waits) {
      if (socket.bytesRead !== wait.bytesRead) {
        wait.bytesRead = socket.bytesRead;
        wait.movedAt = now;
      }
      const isStill = now - wait.movedAt > LINGER_STILL_MS_MAX;
      if (isStill || now - wait.since > LINGER_MS_MAX) socket.destroy();
    }
  }

  /** Cuts all of them, and those to come: a server that closes waits for no one's rest. */
  close(): void {
    this.#isClosing = true;
    for (const socket of this.#waits.keys()) socket.destroy();
  }

  #begin(socket: Socket): void {
    socket.end();
    // A parser of node:http has the connection until another listens. It must have taken back its own pause
    // before that: nobody else can.
    socket.once("resume", () => socket.removeAllListeners("data").on("data", () => {}));
    socket.pause().resume();
    socket.once("end", () => socket.destroy());
    socket.once("close", () => this.#forget(socket));
    const now = this.#now();
    this.#waits.set(socket, { since: now, bytesRead: socket.bytesRead, movedAt: now });
    this.#timer ??= setInterval(() => this.sweep(), SWEEP_MS).unref();
  }

  #forget(socket: Socket): void {
    this.#waits.delete(socket);
    if (this.#waits.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
