import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { WireResponse } from "../operation.ts";
import { type Handle, KEEP_ALIVE_SECONDS, plainAddress } from "./node-listener.ts";
import { PLAIN_HEAD_BYTES_MAX, type PlainRequest, readPlainRequest } from "./plain-request.ts";
import type { BodySource } from "./raw-request.ts";

/*
 * node:http is the largest single cost of a point query. This lane carries plain requests (see
 * `plain-request.ts`) straight between a socket and the handler, and hands a connection with all
 * bytes not yet answered to node:http at the first thing it does not know. It measured 1.6 times the
 * point queries of node:http with the same handler (`npm run bench -- point-query`).
 *
 * A connection is in one of these states:
 *   reading     waiting for bytes, or for the rest of a request
 *   answering   one request is with the handler; bytes that arrive meanwhile wait, to a limit
 *   given away  node:http has it
 *   closed
 */

/** Bytes that may wait behind the request being answered before the socket is paused. */
const WAITING_BYTES_MAX = 256 * 1024;
const REQUEST_BYTES_MAX = PLAIN_HEAD_BYTES_MAX + LIMITS.bodyBytesMax;
/** A request that has begun must be whole after this long. */
const REQUEST_MS_MAX = 60_000;
const IDLE_MS_MAX = KEEP_ALIVE_SECONDS * 1000;
const SWEEP_MS = 5_000;

const KEEP_ALIVE = `Connection: keep-alive\r\nKeep-Alive: timeout=${KEEP_ALIVE_SECONDS}\r\n\r\n`;
const CLOSE = "Connection: close\r\n\r\n";
const NOTHING = Buffer.alloc(0);

export interface FastLaneOptions {
  readonly handle: Handle;
  /** Takes a paused socket whose unread bytes are back in it. */
  readonly giveAway: (socket: Socket) => void;
}

/** All connections of one port that are still in the fast lane. */
export class FastLane {
  readonly #options: FastLaneOptions;
  readonly #connections = new Set<FastConnection>();
  readonly #sweep: NodeJS.Timeout;
  #closing = false;

  constructor(options: FastLaneOptions) {
    this.#options = options;
    // One timer for all: a timer for each request costs more than reading it.
    this.#sweep = setInterval(() => {
      const now = performance.now();
      for (const connection of this.#connections) connection.endIfLate(now);
    }, SWEEP_MS);
    this.#sweep.unref();
  }

  take(socket: Socket): void {
    const connection = new FastConnection(
      socket,
      this.#options,
      () => this.#closing,
      () => {
        this.#connections.delete(connection);
      },
    );
    this.#connections.add(connection);
  }

  /** Ends idle connections now and the others with the answer they wait for. */
  close(): void {
    this.#closing = true;
    clearInterval(this.#sweep);
    for (const connection of this.#connections) connection.endIfIdle();
  }

  /** Cuts what is left. */
  destroy(): void {
    for (const connection of this.#connections) connection.destroy();
  }
}

class FastConnection {
  readonly #socket: Socket;
  readonly #options: FastLaneOptions;
  readonly #isClosing: () => boolean;
  readonly #forget: () => void;
  readonly #remoteAddress: string;
  #unread: Buffer = NOTHING;
  /** Length at which the request at hand is whole; 0 while its head is not. */
  #wanted = 0;
  #answering = false;
  #ended = false;
  /** When the state last changed, by `performance.now`. */
  #since = performance.now();

  constructor(
    socket: Socket,
    options: FastLaneOptions,
    isClosing: () => boolean,
    forget: () => void,
  ) {
    this.#socket = socket;
    this.#options = options;
    this.#isClosing = isClosing;
    this.#forget = forget;
    this.#remoteAddress = plainAddress(socket.remoteAddress ?? "");
    socket.setNoDelay(true);
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("error", this.#onError);
    socket.on("close", this.#forget);
  }

  #onData = (chunk: Buffer): void => {
    this.#unread = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk]);
    if (this.#answering) {
      if (this.#unread.length > WAITING_BYTES_MAX) this.#socket.pause();
      return;
    }
    if (this.#unread.length >= this.#wanted) this.#read();
  };

  /** The client sends no more. What it sent whole is answered; the rest nobody waits for. */
  #onEnd = (): void => {
    this.#ended = true;
    if (!this.#answering) this.#socket.end();
  };

  #onError = (): void => {
    this.#socket.destroy();
  };

  /** Answers request after request until one is not whole, must be waited for, or is unknown. */
  #read(): void {
    let at = 0;
    while (at < this.#unread.length) {
      const read = readPlainRequest(this.#unread, at, LIMITS.bodyBytesMax);
      if (read.kind === "request") {
        const { request } = read;
        const body = this.#unread.subarray(request.bodyStart, request.end);
        at = request.end;
        if (this.#answer(request, body) && !this.#mustDrain()) continue;
        this.#keep(at);
        return;
      }
      this.#keep(at);
      if (read.kind === "incomplete" && read.bytes <= REQUEST_BYTES_MAX && !this.#ended) {
        this.#wanted = read.bytes;
        return;
      }
      this.#giveAway();
      return;
    }
    this.#keep(at);
    if (this.#ended) this.#socket.end();
  }

  #keep(from: number): void {
    this.#unread = from === this.#unread.length ? NOTHING : this.#unread.subarray(from);
    this.#wanted = 0;
    this.#since = performance.now();
  }

  /** A client that does not read its answers gets no more of them until it does. */
  #mustDrain(): boolean {
    if (this.#socket.destroyed) return true;
    if (!this.#socket.writableNeedDrain) return false;
    this.#answering = true;
    this.#socket.once("drain", () => this.#goOn());
    return true;
  }

  /** Whether the answer went out at once; else the connection is "answering" until it does. */
  #answer(request: PlainRequest, body: Buffer): boolean {
    const answer = this.#options.handle({
      verb: request.verb,
      target: request.target,
      headers: request.headers,
      secure: false,
      remoteAddress: this.#remoteAddress,
      body: new WholeBody(body),
    });
    if (!(answer instanceof Promise)) {
      this.#send(request, answer);
      return true;
    }
    this.#answering = true;
    answer.then(
      (known) => this.#resume(request, known),
      () => this.#socket.destroy(),
    );
    return false;
  }

  #resume(request: PlainRequest, answer: WireResponse): void {
    if (this.#socket.destroyed) return;
    this.#send(request, answer);
    if (!this.#mustDrain()) this.#goOn();
  }

  #goOn(): void {
    this.#answering = false;
    this.#since = performance.now();
    if (this.#socket.isPaused()) this.#socket.resume();
    if (this.#unread.length > 0) this.#read();
    else if (this.#ended) this.#socket.end();
  }

  #send(request: PlainRequest, { status, headers, body }: WireResponse): void {
    const closes = this.#isClosing();
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "unknown"}\r\n`;
    let hasLength = false;
    for (let i = 0; i < headers.length; i += 2) {
      const value = headers[i + 1]!;
      // Values come from this server, but some repeat what a client sent.
      if (value.includes("\n") || value.includes("\r")) {
        this.#socket.destroy();
        throw new Error(`The value of ${headers[i]} holds a line break.`);
      }
      head += `${headers[i]}: ${value}\r\n`;
      if (headers[i] === "Content-Length") hasLength = true;
    }
    if (typeof body === "object" && !(body instanceof Uint8Array)) {
      throw new Error("Content that streams does not travel in the fast lane.");
    }
    const bodyBytes =
      body === undefined ? 0 : typeof body === "string" ? Buffer.byteLength(body) : body.length;
    if (!hasLength && (body !== undefined || (status !== 204 && status !== 304))) {
      head += `Content-Length: ${bodyBytes}\r\n`;
    }
    head += closes ? CLOSE : KEEP_ALIVE;

    // One buffer, one write: a second write costs more than copying a kilobyte.
    const isHead = request.verb === "HEAD";
    const bytes = Buffer.allocUnsafe(head.length + (isHead ? 0 : bodyBytes));
    bytes.write(head, 0, "latin1");
    if (!isHead && body !== undefined) {
      if (typeof body === "string") bytes.write(body, head.length, "utf8");
      else bytes.set(body, head.length);
    }
    if (closes) this.#socket.end(bytes);
    else this.#socket.write(bytes);
  }

  #giveAway(): void {
    const socket = this.#socket;
    socket.off("data", this.#onData);
    socket.off("end", this.#onEnd);
    socket.off("error", this.#onError);
    socket.off("close", this.#forget);
    this.#forget();
    socket.pause();
    if (this.#unread.length > 0) socket.unshift(this.#unread);
    this.#options.giveAway(socket);
  }

  endIfLate(now: number): void {
    if (this.#answering) return;
    const isIdle = this.#unread.length === 0;
    if (now - this.#since > (isIdle ? IDLE_MS_MAX : REQUEST_MS_MAX)) this.#socket.destroy();
  }

  endIfIdle(): void {
    if (!this.#answering && this.#unread.length === 0) this.#socket.end();
  }

  destroy(): void {
    this.#socket.destroy();
  }
}

/** A body that is all here. */
class WholeBody implements BodySource {
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  read(bytesMax: number): Uint8Array | undefined {
    return this.#bytes.length > bytesMax ? undefined : this.#bytes;
  }

  async *stream(): AsyncIterable<Uint8Array> {
    if (this.#bytes.length > 0) yield this.#bytes;
  }
}
