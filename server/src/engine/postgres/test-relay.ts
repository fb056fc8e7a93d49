import { createServer, connect as netConnect, type Server, type Socket } from "node:net";
import { WireReader } from "./wire-reader.ts";

/**
 * What a relay does with one message of the server: "pass" it on, "swallow" it, "cut" the connection, or send
 * other bytes in its place.
 */
export type Treatment = "pass" | "swallow" | "cut" | Buffer;

/** Sits between client and server, and changes the messages of each as a test requires. */
export class Relay {
  /**
   * Called for each message of a client but its first; returns the bytes to send instead. A message begins
   * with its code and length. Connections are numbered.
   */
  onRequest: (message: Buffer, connection: number) => Buffer = (message) => message;
  /** Called for each message of the server; may change the bytes of its body. */
  onAnswer: (code: string, body: Buffer, connection: number) => Treatment = () => "pass";
  /** Whether a client that ends its side keeps receiving bytes as long as it listens, instead of an end. */
  keepsOpen = false;
  readonly #target: URL;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #connections = 0;

  private constructor(target: string) {
    this.#target = new URL(target);
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#relay(client));
  }

  static async open(target: string): Promise<Relay> {
    const relay = new Relay(target);
    await new Promise<void>((resolve) => relay.#server.listen(0, "127.0.0.1", resolve));
    return relay;
  }

  /** The URL of the target through this relay. */
  get url(): string {
    const address = this.#server.address();
    const url = new URL(this.#target);
    if (address !== null && typeof address === "object") url.port = `${address.port}`;
    return url.toString();
  }

  /** Resolves once nothing is connected through it any more. */
  async whenLeft(): Promise<void> {
    for (const socket of this.#sockets) {
      await new Promise<void>((resolve) => socket.once("close", () => resolve()));
      return this.whenLeft();
    }
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #relay(client: Socket): void {
    const connection = this.#connections++;
    const server = netConnect(Number(this.#target.port), this.#target.hostname);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from);
      // Messages are written one by one: each would wait for the acknowledgement of the one before.
      from.setNoDelay(true);
      from.on("error", () => {});
      from.on("end", () => (from === client && this.keepsOpen ? sendOn(from) : from.end()));
      from.on("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
    // The first message has no code: the client's startup message.
    let isGreeted = false;
    const requests = new WireReader((_code, bytes, start, end) => {
      server.write(this.onRequest(Buffer.from(bytes.subarray(start - 5, end)), connection));
    });
    client.on("data", (chunk) => {
      if (isGreeted) requests.push(chunk);
      else server.write(chunk);
      isGreeted = true;
    });
    const reader = new WireReader((code, bytes, start, end) => {
      const message = Buffer.from(bytes.subarray(start - 5, end));
      const treatment = this.onAnswer(String.fromCharCode(code), message.subarray(5), connection);
      if (treatment === "pass") client.write(message);
      else if (treatment === "cut") client.destroy();
      else if (treatment !== "swallow") client.write(treatment);
    });
    server.on("data", (chunk) => reader.push(chunk));
  }
}

/** Writes until the client is gone: a system reports that only at the second write that no one receives. */
function sendOn(socket: Socket): void {
  if (!socket.destroyed) socket.write("?", () => setImmediate(sendOn, socket));
}
