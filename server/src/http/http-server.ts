import { createServer as createHttpServer, type Server } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { type Handle, NODE_HTTP_OPTIONS, nodeListener } from "./node-listener.ts";

export interface HttpServerOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly tls: TlsMaterial | undefined;
}

/** PEM texts, or a PFX archive with its passphrase. */
export type TlsMaterial =
  | { readonly cert: string | Buffer; readonly key: string | Buffer }
  | { readonly pfx: Buffer; readonly passphrase: string };

/** How long requests under way may take to end once the server closes. */
const CLOSING_MS_MAX = 10_000;
const IDLE_LOOK_MS = 50;

/** One listening port. */
export class HttpServer {
  readonly #server: Server;
  readonly #options: HttpServerOptions;

  private constructor(server: Server, options: HttpServerOptions) {
    this.#server = server;
    this.#options = options;
  }

  /** Listens. @throws the operating system's error: port taken, host unknown, not permitted. */
  static async listen(options: HttpServerOptions, handle: Handle): Promise<HttpServer> {
    const listener = nodeListener(handle);
    const server = options.tls
      ? createHttpsServer({ ...NODE_HTTP_OPTIONS, ...options.tls }, listener)
      : createHttpServer(NODE_HTTP_OPTIONS, listener);
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(options.port, options.host, () => {
        server.off("error", reject);
        resolve();
      });
    });
    return new HttpServer(server, options);
  }

  /** `http://127.0.0.1:10002`, with the host as it was asked for. */
  get url(): string {
    const { host, tls } = this.#options;
    const shown = host.includes(":") ? `[${host}]` : host;
    return `${tls ? "https" : "http"}://${shown}:${this.port}`;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Refuses new connections, lets requests under way end, then cuts what is left. */
  async close(): Promise<void> {
    const server = this.#server;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    // Connections fall idle one by one as their answers go out; nobody tells when.
    const idle = setInterval(() => server.closeIdleConnections(), IDLE_LOOK_MS);
    const cut = setTimeout(() => server.closeAllConnections(), CLOSING_MS_MAX);
    server.closeIdleConnections();
    await closed;
    clearInterval(idle);
    clearTimeout(cut);
  }
}
