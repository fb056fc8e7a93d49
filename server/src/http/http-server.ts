import { createServer as createHttpServer, type Server, type ServerResponse } from "node:http";
import { createServer as createHttpsServer, Server as HttpsServer } from "node:https";
import {
  type AddressInfo,
  createServer as createSocketServer,
  type Socket,
  type Server as SocketServer,
} from "node:net";
import { FastLane } from "./fast/fast-lane.ts";
import { type Handle, type OnError, STALLED_MS_MAX } from "./lane-limits.ts";
import { LingeringCloses } from "./lingering-close.ts";
import { NODE_HTTP_OPTIONS, nodeListener, STREAMING_HTTP_OPTIONS } from "./node-listener.ts";
import { type OpenConnection, OpenConnections } from "./open-connections.ts";
import { PeerMemory } from "./peer-memory.ts";
import { readRawTargets } from "./raw-target.ts";

export interface HttpServerOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly tls: TlsMaterial | undefined;
  /** How requests are read: by node:http alone, or by the fast lane in front of it, which does not speak TLS. */
  readonly lane: "node" | "fast";
  /** Whether a request may take as long as it needs, provided that bytes keep moving. */
  readonly carriesStreams?: boolean;
  /** Default: on the system's clock. */
  readonly lingering?: LingeringCloses;
  /** Shared by all ports. Default: of this port alone. */
  readonly memory?: PeerMemory;
  /** Shared by all ports. Default: of this port alone. */
  readonly open?: OpenConnections;
  /** The fast lane's monotonic milliseconds. Default `performance.now`. */
  readonly clock?: () => number;
  readonly onError: OnError;
}

/** PEM texts, or a PFX archive with its passphrase. */
export type TlsMaterial =
  | { readonly cert: string | Buffer; readonly key: string | Buffer; readonly passphrase?: string }
  | { readonly pfx: Buffer; readonly passphrase?: string };

/** @param host a name or an address */
export function serverUrl({
  host,
  port,
  isTls,
}: {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
}): string {
  return `${isTls ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** How long requests in flight may take to end once the server closes. */
const CLOSING_MS_MAX = 10_000;
const IDLE_LOOK_MS = 50;

/** One listening port. */
export class HttpServer {
  readonly #listening: SocketServer;
  readonly #http: Server;
  readonly #fastLane: FastLane | undefined;
  readonly #options: HttpServerOptions;
  readonly #lingering: LingeringCloses;
  readonly #memory: PeerMemory;
  /** All connections that node:http has. */
  readonly #sockets = new Set<Socket>();
  /** Those of them that have not sent a request yet, so that none can be in flight. */
  readonly #newcomers = new Set<Socket>();

  private constructor(options: HttpServerOptions, handle: Handle) {
    this.#options = options;
    const { onError, lingering = new LingeringCloses(), memory = new PeerMemory() } = options;
    const { open = new OpenConnections() } = options;
    this.#lingering = lingering;
    this.#memory = memory;
    const listener = nodeListener({ handle, lingering, memory, onError });
    const settings = options.carriesStreams ? STREAMING_HTTP_OPTIONS : NODE_HTTP_OPTIONS;
    this.#http = options.tls
      ? createHttpsServer({ ...settings, ...options.tls }, listener)
      : createHttpServer(settings, listener);
    // Also cuts a client that stops reading its answer, which would otherwise be held forever.
    this.#http.setTimeout(STALLED_MS_MAX);
    // A client that has ended its side is still answered.
    Object.assign(this.#http, { httpAllowHalfOpen: true });
    const ready = options.tls ? "secureConnection" : "connection";
    readRawTargets(this.#http, ready);
    this.#watch(this.#http, ready, open);
    if (options.lane === "node" || options.tls) {
      this.#listening = this.#http;
      return;
    }
    // This server never listens itself, and without the event it would not enforce time limits or close
    // connections.
    this.#http.emit("listening");
    const lane = new FastLane({
      handle,
      onError,
      lingering,
      memory,
      open,
      requestMsMax: settings.requestTimeout,
      ...(options.clock && { clock: options.clock }),
      // As if node:http had just accepted the connection.
      giveAway: (socket) => {
        this.#http.emit("connection", socket);
        socket.resume();
      },
    });
    this.#fastLane = lane;
    const settingsOfSockets = { allowHalfOpen: true, noDelay: true, pauseOnConnect: true };
    this.#listening = createSocketServer(settingsOfSockets, (socket) => lane.take(socket));
  }

  /** Starts listening. @throws the operating system's error: port taken, host unknown, not permitted. */
  static async listen(options: HttpServerOptions, handle: Handle): Promise<HttpServer> {
    const server = new HttpServer(options, handle);
    const listening = server.#listening;
    await new Promise<void>((resolve, reject) => {
      listening.once("error", reject);
      listening.listen(options.port, options.host, () => {
        listening.off("error", reject);
        resolve();
      });
    });
    return server;
  }

  /** `http://127.0.0.1:10002`, with the host as configured. */
  get url(): string {
    const { host, tls } = this.#options;
    return serverUrl({ host, port: this.port, isTls: tls !== undefined });
  }

  get port(): number {
    return (this.#listening.address() as AddressInfo).port;
  }

  /**
   * New connections get this certificate; existing ones keep theirs.
   * @throws Error if it cannot be used, or if this server does not speak TLS
   */
  replaceCertificate(tls: TlsMaterial): void {
    if (!(this.#http instanceof HttpsServer)) throw new Error("This server does not speak TLS.");
    this.#http.setSecureContext(tls);
  }

  /** Refuses new connections, lets requests in flight end except slow uploads, then cuts the remaining connections. */
  async close(): Promise<void> {
    const http = this.#http;
    const closed = new Promise<void>((resolve) => this.#listening.close(() => resolve()));
    this.#lingering.close();
    this.#fastLane?.close();
    // Connections become idle one by one as their answers go out, and no event reports it. An upload that trickles
    // would not end in time anyway.
    const idle = setInterval(() => {
      http.closeIdleConnections();
      this.#memory.cutSlowBodies();
    }, IDLE_LOOK_MS);
    const cut = setTimeout(() => {
      for (const socket of this.#sockets) socket.destroy();
      this.#fastLane?.destroy();
    }, CLOSING_MS_MAX);
    http.closeIdleConnections();
    // node:http calls a connection idle only once it has been used.
    for (const socket of this.#newcomers) socket.destroy();
    await closed;
    clearInterval(idle);
    clearTimeout(cut);
    // Its timer for slow requests runs whether or not it listens.
    if (this.#fastLane) http.close();
  }

  /** Tracks connections. Under TLS, a connection becomes a newcomer when its handshake is done. */
  #watch(http: Server, ready: "connection" | "secureConnection", open: OpenConnections): void {
    const connections = new Map<string, NodeConnection>();
    /** By the sockets that requests come from, which under TLS are not the accepted ones. */
    const ofRequests = new WeakMap<Socket, NodeConnection>();
    http.on("connection", (socket: Socket) => {
      // node:http gets a connection anew after a raw target.
      if (this.#sockets.has(socket)) return;
      this.#sockets.add(socket);
      const connection = new NodeConnection(socket);
      const peer = peerOf(socket);
      connections.set(peer, connection);
      open.add(connection);
      socket.once("close", () => {
        this.#sockets.delete(socket);
        connections.delete(peer);
        open.delete(connection);
      });
    });
    http.on(ready, (socket: Socket) => {
      const connection = connections.get(peerOf(socket));
      if (connection) ofRequests.set(socket, connection);
      this.#newcomers.add(socket);
      socket.once("close", () => this.#newcomers.delete(socket));
    });
    http.on("request", ({ socket }, response) => {
      this.#newcomers.delete(socket);
      ofRequests.get(socket)?.begin(response);
    });
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** A connection of node:http, which is idle once its responses have ended. */
class NodeConnection implements OpenConnection {
  readonly #socket: Socket;
  #responses = 0;
  #since = performance.now();

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get idleSince(): number | undefined {
    return this.#responses > 0 ? undefined : this.#since;
  }

  begin(response: ServerResponse): void {
    this.#responses++;
    response.once("close", () => {
      this.#responses--;
      this.#since = performance.now();
    });
  }

  destroy(): void {
    this.#socket.destroy();
  }
}
