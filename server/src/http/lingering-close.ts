import { Socket } from "node:net";
import { LINGER_MS_MAX, LINGER_STALLED_MS_MAX } from "./lane-limits.ts";

const SWEEP_MS = 1_000;

interface Wait {
  readonly since: number;
  /** `bytesRead` at the last sweep that saw progress, and the time of that sweep. */
  bytesRead: number;
  movedAt: number;
}

/**
 * Connections whose last answer is out while the client is still sending. If they were closed now, the
 * client's system would report it in mid-sending, and fail or drop the answer before the client reads it: of
 * uploads of 100 MiB with a wrong key, the official client received 58 of 80 refusals, and EPIPE instead of
 * the others. So the server ends only its own side and discards further bytes, never reading them as a
 * request, until the client closes too, pauses for a few seconds or has used up its time. (RFC 9112, 9.6; web
 * servers call it a lingering close.)
 */
export class LingeringCloses {
  readonly #waits = new Map<Socket, Wait>();
  /** Monotonic milliseconds. */
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #isClosing = false;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * From now on the connection lingers where its last answer would end it. Both lanes end a connection
   * through `destroySoon`: the fast lane calls it, and so does node:http.
   */
  prepare(socket: Socket): void {
    socket.destroySoon = () => {
      if (this.#isClosing) Socket.prototype.destroySoon.call(socket);
      else this.#begin(socket);
    };
  }

  /** Cuts the connections whose time is up. */
  sweep(): void {
    const now = this.#now();
    for (const [socket, wait] of this.#waits) {
      if (socket.bytesRead !== wait.bytesRead) {
        wait.bytesRead = socket.bytesRead;
        wait.movedAt = now;
      }
      const isStalled = now - wait.movedAt > LINGER_STALLED_MS_MAX;
      if (isStalled || now - wait.since > LINGER_MS_MAX) socket.destroy();
    }
  }

  /**
   * Cuts all lingering connections, and from now on every further one: a closing server does not wait for
   * clients.
   */
  close(): void {
    this.#isClosing = true;
    for (const socket of this.#waits.keys()) socket.destroy();
  }

  #begin(socket: Socket): void {
    socket.end();
    // A parser of node:http reads the connection until another listener replaces it. The parser must undo its
    // own pause first: nothing else can.
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
