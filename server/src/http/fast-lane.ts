import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { LIMITS } from "@rowhouse/protocol/limits";
import { BeginningViews } from "../byte-views.ts";
import type { Awaitable } from "../engine/engine.ts";
import type { LentBody, WireResponse } from "../operation.ts";
import { ArrivingBody } from "./arriving-body.ts";
import { DirectWrites } from "./direct-writes.ts";
import { LentReads } from "./lent-reads.ts";
import {
  type Handle,
  KEEP_ALIVE_SECONDS,
  NODE_HTTP_OPTIONS,
  type OnFault,
  opens,
  plainAddress,
  STILL_MS_MAX,
  UNWANTED_BYTES_MAX,
  written,
} from "./node-listener.ts";
import { PLAIN_HEAD_BYTES_MAX, type PlainRequest, readPlainRequest } from "./plain-request.ts";
import { BodyAborted, type BodySource, WholeBody } from "./raw-request.ts";

/*
 * node:http is the largest single cost of a point query. This lane carries plain requests (see
 * `plain-request.ts`) straight between a socket and the handler, and hands a connection with all
 * bytes not yet answered to node:http at the first thing it does not know. It measured 1.6 times the
 * point queries of node:http with the same handler (`npm run bench -- point-query`).
 *
 * A connection is in one of these states:
 *   reading     waiting for bytes, or for the rest of a request
 *   answering   one request is with the handler, a long body perhaps still on its way; what comes behind
 *               it waits in the socket
 *   given away  node:http has it
 *   closed
 */

const IDLE_MS_MAX = KEEP_ALIVE_SECONDS * 1000;
const SWEEP_MS = 5_000;

const KEEP_ALIVE = `Connection: keep-alive\r\nKeep-Alive: timeout=${KEEP_ALIVE_SECONDS}\r\n\r\n`;
const CLOSE = "Connection: close\r\n\r\n";
/** What node:http says to the same. */
const BAD_REQUEST = `HTTP/1.1 400 Bad Request\r\n${CLOSE}`;
const REQUEST_TIMEOUT = `HTTP/1.1 408 Request Timeout\r\n${CLOSE}`;
const NOTHING = Buffer.alloc(0);

export interface FastLaneOptions {
  readonly handle: Handle;
  /** Takes a paused socket whose unread bytes are back in it. */
  readonly giveAway: (socket: Socket) => void;
  readonly onFault: OnFault;
  /** Longer bodies are handed over as they arrive. Default: all are handed over whole. */
  readonly wholeBytesMax?: number;
  /** Milliseconds that only grow. Default `performance.now`. */
  readonly now?: () => number;
}

/** All connections of one port that are still in the fast lane. */
export class FastLane {
  readonly #options: FastLaneOptions;
  readonly #connections = new Set<FastConnection>();
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  #closing = false;

  constructor(options: FastLaneOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    // One timer for all: a timer for each request costs more than reading it.
    this.#timer = setInterval(() => this.sweep(), SWEEP_MS);
    this.#timer.unref();
  }

  /** Ends every connection that has waited too long. */
  sweep(): void {
    const now = this.#now();
    for (const connection of this.#connections) connection.endIfLate(now);
  }

  /**
   * @param accepted paused since it was accepted; the lane's from now on
   * @returns what the connection is read and written through instead
   */
  take(accepted: Socket): Socket {
    const connection = new FastConnection(
      accepted,
      this.#options,
      this.#now,
      () => this.#closing,
      () => {
        this.#connections.delete(connection);
      },
    );
    this.#connections.add(connection);
    return connection.socket;
  }

  /** Ends idle connections now and the others with the answer they wait for. */
  close(): void {
    this.#closing = true;
    clearInterval(this.#timer);
    for (const connection of this.#connections) connection.endIfIdle();
  }

  /** Cuts what is left. */
  destroy(): void {
    for (const connection of this.#connections) connection.destroy();
  }
}

class FastConnection {
  readonly #reads: LentReads;
  readonly #socket: Socket;
  readonly #writes: DirectWrites | undefined;
  readonly #options: FastLaneOptions;
  readonly #now: () => number;
  readonly #isClosing: () => boolean;
  readonly #forget: () => void;
  readonly #remoteAddress: string;
  /** What has come of a request that is not whole, or of what is behind one that is with the handler. */
  #unread = new GrowingBytes();
  /** Length at which the request at hand is whole; 0 while its head is not. */
  #wanted = 0;
  #answering = false;
  /** The body of the request that is with the handler, unless it came with its head. */
  #arriving: ArrivingBody | undefined;
  /** Whether a request came before the one at hand. */
  #used = false;
  #ended = false;
  /** When the request at hand began to arrive, or the connection fell idle. */
  #since: number;

  constructor(
    accepted: Socket,
    options: FastLaneOptions,
    now: () => number,
    isClosing: () => boolean,
    forget: () => void,
  ) {
    this.#options = options;
    this.#now = now;
    this.#since = now();
    this.#isClosing = isClosing;
    this.#forget = forget;
    this.#reads = new LentReads(accepted, this.#onBytes);
    const { socket } = this.#reads;
    this.#socket = socket;
    this.#writes = DirectWrites.of(socket);
    this.#remoteAddress = plainAddress(socket.remoteAddress ?? "");
    socket.on("end", this.#onEnd);
    socket.on("error", this.#onError);
    socket.on("close", this.#onClose);
  }

  get socket(): Socket {
    return this.#socket;
  }

  #onBytes = (lent: Buffer): void => {
    if (this.#socket.writableEnded) return;
    if (this.#answering) {
      const arriving = this.#arriving;
      const behind = arriving?.take(lent) ?? lent;
      if (behind.length > 0) {
        // No more is taken from the client than there is time for; nor does its end come before this is read.
        this.#socket.pause();
        this.#unread.append(behind, 0);
      }
      if (arriving?.isUnwanted && arriving.isWhole) this.#settle();
    } else if (this.#unread.length === 0) {
      this.#since = this.#now();
      this.#read(lent, true);
    } else {
      this.#unread.append(lent, this.#wanted);
      if (this.#unread.length >= this.#wanted) this.#readOn();
    }
  };

  /** The client sends no more. What it sent whole is answered. */
  #onEnd = (): void => {
    this.#ended = true;
    if (!this.#answering) this.#leave();
    else if (this.#arriving?.isWhole === false) this.#socket.destroy();
  };

  #onClose = (): void => {
    this.#forget();
    this.#arriving?.abort();
  };

  /** Ends the connection to a client that sends no more, with a word if it stopped in mid-request. */
  #leave(): void {
    // Line breaks between requests are allowed, and so are some behind the last.
    const isBetween = this.#unread.bytes.every((byte) => byte === 13 || byte === 10);
    if (isBetween) this.#socket.end();
    else this.#socket.end(BAD_REQUEST);
  }

  #onError = (): void => {
    this.#socket.destroy();
  };

  /** Reads what was kept. */
  #readOn(): void {
    const kept = this.#unread.bytes;
    this.#unread = new GrowingBytes();
    this.#read(kept, false);
  }

  /**
   * Answers request after request until one is not whole, must be waited for, or is unknown.
   * @param lent whether the bytes are gone once this returns
   */
  #read(bytes: Buffer, lent: boolean): void {
    const { wholeBytesMax = LIMITS.bodyBytesMax } = this.#options;
    const streams = this.#options.wholeBytesMax !== undefined;
    let at = 0;
    this.#wanted = 0;
    while (at < bytes.length) {
      const read = readPlainRequest(bytes, at, wholeBytesMax, streams);
      if (read.kind === "request") {
        const { request } = read;
        const { bodyStart, end } = request;
        at = end;
        const body =
          end > bytes.length
            ? this.#receive(bytes.subarray(bodyStart), end - bodyStart)
            : wholeBody(bytes, request, lent);
        if (this.#answer(request, body) && !this.#mustWait()) continue;
        if (at < bytes.length) {
          this.#socket.pause();
          this.#unread.append(bytes.subarray(at), 0);
        }
        return;
      }
      // The next request, if it has begun, begins now.
      if (at > 0) this.#since = this.#now();
      const bytesMax = PLAIN_HEAD_BYTES_MAX + wholeBytesMax;
      if (read.kind === "unknown" || read.bytes > bytesMax) {
        this.#giveAway(bytes.subarray(at));
        return;
      }
      this.#wanted = read.bytes;
      this.#unread.append(bytes.subarray(at), read.bytes);
      if (this.#ended) this.#leave();
      return;
    }
    this.#since = this.#now();
    if (this.#ended) this.#leave();
  }

  /** A body that begins with these bytes, to be read as it arrives. */
  #receive(begin: Buffer, length: number): ArrivingBody {
    const body = new ArrivingBody(this.#reads, begin, length);
    this.#arriving = body;
    this.#socket.setTimeout(STILL_MS_MAX, this.#cutStill);
    return body;
  }

  #cutStill = (): void => {
    this.#socket.destroy();
  };

  /**
   * What nobody wanted of a body goes before the next request. A client that does not read its answers
   * gets no more of them until it does; behind the last come none.
   */
  #mustWait(): boolean {
    if (this.#socket.destroyed || this.#socket.writableEnded) return true;
    if (this.#arriving !== undefined) {
      this.#answering = true;
      if (!this.#arriving.isWhole) {
        this.#arriving.discard();
        return true;
      }
      this.#arriving = undefined;
      this.#reads.room = undefined;
      this.#socket.setTimeout(0, this.#cutStill);
    }
    const waits = this.#writes?.waits === true;
    if (!waits && !this.#socket.writableNeedDrain) return false;
    this.#answering = true;
    this.#socket.setTimeout(STILL_MS_MAX, this.#cutStill);
    if (waits) this.#writes?.whenTaken(this.#onDrained);
    else this.#socket.once("drain", this.#onDrained);
    return true;
  }

  #onDrained = (): void => {
    this.#socket.setTimeout(0, this.#cutStill);
    this.#goOn();
  };

  #settle(): void {
    if (!this.#mustWait()) this.#goOn();
  }

  /** Whether the answer went out at once; else the connection is "answering" until it does. */
  #answer(request: PlainRequest, body: BodySource): boolean {
    let answer: Awaitable<WireResponse>;
    try {
      answer = this.#options.handle({
        verb: request.verb,
        target: request.target,
        headers: request.headers,
        secure: false,
        remoteAddress: this.#remoteAddress,
        opensConnection: this.#takeFirst(),
        body,
      });
    } catch (error) {
      this.#cut(error);
      return true;
    }
    if (!(answer instanceof Promise)) return this.#send(request, answer);
    this.#answering = true;
    answer.then((known) => this.#resume(request, known)).catch((error) => this.#cut(error));
    return false;
  }

  #takeFirst(): boolean {
    if (this.#used) return false;
    this.#used = opens(this.#socket);
    return true;
  }

  #resume(request: PlainRequest, answer: WireResponse): void {
    if (this.#socket.destroyed) return;
    if (this.#send(request, answer)) this.#settle();
  }

  #goOn(): void {
    this.#answering = false;
    this.#since = this.#now();
    if (this.#socket.isPaused()) this.#socket.resume();
    if (this.#unread.length > 0) this.#readOn();
    else if (this.#ended) this.#leave();
  }

  /** The client learns no more than that nothing comes. */
  #cut(error: unknown): void {
    if (!(error instanceof BodyAborted)) this.#options.onFault(error);
    this.#socket.destroy();
  }

  /** Whether all of the answer is on its way; else the connection is "answering" until it is. */
  #send(request: PlainRequest, { status, headers, body }: WireResponse): boolean {
    const closes = this.#isClosing() || (this.#arriving?.left ?? 0) > UNWANTED_BYTES_MAX;
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "unknown"}\r\n`;
    let hasLength = false;
    for (let i = 0; i < headers.length; i += 2) {
      const value = headers[i + 1]!;
      // Values come from this server, but some repeat what a client sent.
      if (value.includes("\n") || value.includes("\r")) {
        this.#cut(new Error(`The value of ${headers[i]} holds a line break.`));
        return true;
      }
      head += `${headers[i]}: ${value}\r\n`;
      if (headers[i] === "Content-Length") hasLength = true;
    }
    const isHead = request.verb === "HEAD";
    if (typeof body === "object" && "giveBack" in body) {
      if (!hasLength) head += `Content-Length: ${body.end - body.start}\r\n`;
      this.#sendLent(head + (closes ? CLOSE : KEEP_ALIVE), body, closes);
      return true;
    }
    if (typeof body === "object" && !(body instanceof Uint8Array)) {
      if (!hasLength) throw new Error("Content that streams says how long it is.");
      head += closes ? CLOSE : KEEP_ALIVE;
      // Until the first part: a head sent alone costs as much as 100 KB behind it.
      this.#socket.cork();
      this.#socket.write(head, "latin1");
      this.#answering = true;
      void this.#pour(body, closes);
      return false;
    }
    const bodyBytes =
      body === undefined ? 0 : typeof body === "string" ? Buffer.byteLength(body) : body.length;
    if (!hasLength && (body !== undefined || (status !== 204 && status !== 304))) {
      head += `Content-Length: ${bodyBytes}\r\n`;
    }
    head += closes ? CLOSE : KEEP_ALIVE;

    if (isHead || body === undefined || bodyBytes <= JOINED_BYTES_MAX) {
      this.#put(joined(head, isHead ? undefined : body), closes);
      // What the system did not take at once is still to be read from there.
      if (this.#socket.writableLength > 0 || this.#writes?.waits) answerRoom = undefined;
    } else {
      this.#socket.cork();
      this.#socket.write(head, "latin1");
      this.#put(typeof body === "string" ? Buffer.from(body) : body, closes);
      this.#socket.uncork();
    }
    return true;
  }

  /** In one piece with its head, written in front of it: as two and a stream, a page of 100 KB took 302 µs instead of 260. */
  #sendLent(head: string, body: LentBody, closes: boolean): void {
    const socket = this.#socket;
    const { memory, start, end } = body;
    const from = start - head.length;
    if (from < 0) socket.write(head, "latin1");
    else memory.write(head, from, "latin1");
    socket.write(memory.subarray(Math.max(from, 0), end), (error) => {
      // What was broken off may still be read from there.
      if (!error) body.giveBack();
    });
    if (closes) this.#end(NOTHING);
  }

  #put(bytes: Uint8Array, closes: boolean): void {
    if (closes) this.#end(bytes);
    else if (this.#writes?.isFree) this.#writes.write(bytes);
    else this.#socket.write(bytes);
  }

  /** Not `end` alone: a client that never closes its own side would keep the server waiting. */
  #end(bytes: Uint8Array): void {
    this.#socket.end(bytes);
    this.#socket.destroySoon();
  }

  /** Sends a body part by part, as fast as the client reads it. */
  async #pour(body: AsyncIterable<Uint8Array>, closes: boolean): Promise<void> {
    const socket = this.#socket;
    socket.setTimeout(STILL_MS_MAX, this.#cutStill);
    try {
      for await (const part of body) {
        if (socket.destroyed) return;
        const gone = written(socket, part);
        socket.uncork();
        await gone;
      }
      socket.uncork();
    } catch (error) {
      // The status is out already; cutting the connection is the only way left to say that this failed.
      this.#cut(error);
      return;
    }
    socket.setTimeout(0, this.#cutStill);
    if (closes) this.#end(NOTHING);
    else this.#settle();
  }

  #giveAway(bytes: Buffer): void {
    const socket = this.#socket;
    socket.off("end", this.#onEnd);
    socket.off("error", this.#onError);
    socket.off("close", this.#onClose);
    this.#forget();
    this.#options.giveAway(this.#reads.giveBack(bytes));
  }

  endIfLate(now: number): void {
    if (this.#answering) return;
    const ms = now - this.#since;
    const { headersTimeout, requestTimeout } = NODE_HTTP_OPTIONS;
    if (this.#unread.length === 0) {
      if (ms > IDLE_MS_MAX) this.#socket.destroy();
    } else if (ms > (this.#wanted > 0 ? requestTimeout : headersTimeout)) {
      this.#socket.end(REQUEST_TIMEOUT);
      this.#socket.destroySoon();
    }
  }

  endIfIdle(): void {
    // Not `end`: a client that never closes its own side would keep the server waiting.
    if (this.#unread.length === 0 && !this.#answering) this.#socket.destroySoon();
  }

  destroy(): void {
    this.#socket.destroy();
  }
}

/**
 * One buffer, one write: a second write costs more than copying a kilobyte. The bytes are borrowed:
 * a socket mostly passes them on before `write` returns, and the next answer then takes their place.
 */
function joined(head: string, body: string | Uint8Array = NOTHING): Uint8Array {
  const bytesMax = head.length + JOINED_BYTES_MAX;
  if (answerRoom === undefined || answerRoom.bytes.length < bytesMax) {
    const bytes = Buffer.allocUnsafeSlow(2 * bytesMax);
    answerRoom = { bytes, views: new BeginningViews(bytes) };
  }
  const { bytes, views } = answerRoom;
  bytes.write(head, 0, "latin1");
  if (typeof body === "string") {
    return views.of(head.length + bytes.write(body, head.length, "utf8"));
  }
  bytes.set(body, head.length);
  return views.of(head.length + body.length);
}

/** Longer bodies are written from where they are. */
const JOINED_BYTES_MAX = 16 * 1024;
let answerRoom: { readonly bytes: Buffer; readonly views: BeginningViews } | undefined;

/** Bytes that come in parts. */
class GrowingBytes {
  #room: Buffer = NOTHING;
  length = 0;

  get bytes(): Buffer {
    return this.#room.subarray(0, this.length);
  }

  /** @param expected how many there will be in all, as far as known; room that no byte reaches costs nothing */
  append(bytes: Uint8Array, expected: number): void {
    const length = this.length + bytes.length;
    if (length > this.#room.length) {
      const room = Buffer.allocUnsafeSlow(Math.max(length, expected));
      room.set(this.bytes);
      this.#room = room;
    }
    this.#room.set(bytes, this.length);
    this.length = length;
  }
}

/** The body of a request among these bytes, as its own where they are `lent`. */
function wholeBody(bytes: Buffer, { bodyStart, end }: PlainRequest, lent: boolean): WholeBody {
  if (end === bodyStart) return EMPTY_BODY;
  const body = bytes.subarray(bodyStart, end);
  return new WholeBody(lent ? Buffer.from(body) : body);
}

const EMPTY_BODY = new WholeBody(NOTHING);
