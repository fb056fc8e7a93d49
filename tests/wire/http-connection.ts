import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { type HttpAnswer, readAnswer } from "./http-answer.ts";

/** One socket to a server: sends any bytes, reads answer after answer. */
export class HttpConnection {
  readonly socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #ended = false;
  #changed: () => void = () => {};

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    const change = () => this.#changed();
    socket.on("data", (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      change();
    });
    const end = () => {
      this.#ended = true;
      change();
    };
    socket.on("end", end).on("close", end).on("error", end);
  }

  /** @param ca the certificate to trust, for https */
  static open(url: URL, ca?: string): Promise<HttpConnection> {
    return new Promise((resolve, reject) => {
      const place = { host: url.hostname, port: Number(url.port), allowHalfOpen: true };
      const isTls = url.protocol === "https:";
      const socket: Socket = isTls ? connectTls({ ...place, ...(ca && { ca }) }) : connect(place);
      socket.once("error", reject);
      socket.once(isTls ? "secureConnect" : "connect", () => {
        socket.off("error", reject);
        resolve(new HttpConnection(socket));
      });
    });
  }

  get hasEnded(): boolean {
    return this.#ended;
  }

  write(bytes: string | Uint8Array): void {
    if (!this.socket.destroyed) this.socket.write(bytes);
  }

  /** Ends the sending side and keeps receiving. */
  end(): void {
    this.socket.end();
  }

  destroy(): void {
    this.socket.destroy();
  }

  /** The next answer. Rejects if the server closes the connection before it. */
  async answer({ head = false }: { readonly head?: boolean } = {}): Promise<HttpAnswer> {
    for (;;) {
      const read = readAnswer(this.#received, { head, ended: this.#ended });
      if (read) {
        this.#received = this.#received.subarray(read.length);
        return read.answer;
      }
      if (this.#ended) {
        throw new Error(`The connection ended after "${this.#received.toString("latin1")}".`);
      }
      await this.#change();
    }
  }

  /** Everything that the server sends until it closes the connection. */
  async rest(): Promise<Buffer> {
    while (!this.#ended) await this.#change();
    return this.#received;
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#changed = resolve;
    });
  }
}

/** One connection after another: a new one if the server has closed the last, as it does when it has been idle. */
export class KeptConnection {
  readonly #url: URL;
  readonly #ca: string | undefined;
  #connection: Promise<HttpConnection> | undefined;

  /** @param ca the certificate to trust, for https */
  constructor(url: URL, ca?: string) {
    this.#url = url;
    this.#ca = ca;
  }

  async open(): Promise<HttpConnection> {
    if ((await this.#connection)?.hasEnded) this.#connection = undefined;
    this.#connection ??= HttpConnection.open(this.#url, this.#ca);
    return this.#connection;
  }

  close(): void {
    this.#connection?.then(
      (connection) => connection.destroy(),
      () => {},
    );
    this.#connection = undefined;
  }
}
