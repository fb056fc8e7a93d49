import { createServer, connect as netConnect, type Server, type Socket } from "node:net";
import { WireReader } from "./wire-reader.ts";

/** What a relay does with one message of the server: "pass", "swallow" it, or "cut" the connection. */
export type Treatment = "pass" | "swallow" | "cut";

/** Stands between client and server and treats the server's messages as a test says. */
export class Relay {
  /** Called for each message of the server; may change the bytes of its body. */
  onAnswer: (code: string, body: Buffer) => Treatment = () => "pass";
  readonly #target: URL;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(target: string) {
    this.#target = new URL(target);
    this.#server = createServer((client) => this.#relay(client));
  }

  static async open(target: string): Promise<Relay> {
    const relay = new Relay(target);
    await new Promise<void>((resolve) => relay.#server.listen(0, "127.0.0.1", resolve));
    return relay;
  }

  /** The URL by which the target is reached through this relay. */
  get url(): string {
    const address = this.#server.address();
    const url = new URL(this.#target);
    if (address !== null && typeof address === "object") url.port = `${address.port}`;
    return url.toString();
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #relay(client: Socket): void {
    const server = netConnect(Number(this.#target.port), this.#target.hostname);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from);
      from.on("error", () => {});
      from.on("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
    client.on("data", (chunk) => server.write(chunk));
    const reader = new WireReader((code, bytes, start, end) => {
      const message = Buffer.from(bytes.subarray(start - 5, end));
      const treatment = this.onAnswer(String.fromCharCode(code), message.subarray(5));
      if (treatment === "pass") client.write(message);
      else if (treatment === "cut") client.destroy();
    });
    server.on("data", (chunk) => reader.push(chunk));
  }
}
