import { connect, type Socket } from "node:net";
import type { Target } from "./request-writer.ts";

/**
 * A client that requests far more than the system buffers for it and reads the answers byte by byte, so that
 * its server always has an answer waiting to be written.
 */
export class SlowReader {
  bytesRead = 0;
  /** Whether the server closed the connection. */
  isCut = false;
  readonly #socket: Socket;
  readonly #timer: NodeJS.Timeout;

  constructor({ host, port }: Target, requests: readonly string[]) {
    this.#socket = connect({ host, port });
    this.#socket.on("error", () => {});
    this.#socket.on("close", () => {
      this.isCut = true;
    });
    // A stream with a `readable` listener is only read by `read`.
    this.#socket.on("readable", () => {});
    this.#socket.write(requests.join(""), "latin1");
    this.#timer = setInterval(() => {
      if (this.#socket.read(1) !== null) this.bytesRead++;
    }, BYTE_MS);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#socket.removeAllListeners("close");
    this.#socket.destroy();
  }
}

const BYTE_MS = 20;
