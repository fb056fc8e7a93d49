import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { Awaitable } from "../awaitable.ts";
import { announcedBytes, bodyBytesOf, kept } from "../wire/body-bytes.ts";
import { BodyAborted, type BodySource } from "../wire/body-source.ts";
import type { WireResponse } from "../wire/operation.ts";
import { PartsFiller } from "../wire/parts-filler.ts";
import { GrowingBytes } from "./growing-bytes.ts";
import {
  type Handle,
  HEAD_MS_MAX,
  isFirstUse,
  KEEP_ALIVE_SECONDS,
  type OnError,
  plainAddress,
  REQUEST_MS_MAX,
  UNWANTED_BYTES_MAX,
  written,
} from "./lane-limits.ts";
import type { LingeringCloses } from "./lingering-close.ts";
import { Holding, type PeerMemory } from "./peer-memory.ts";
import { HeaderList, type RawRequest } from "./raw-request.ts";

export const NODE_HTTP_OPTIONS = {
  maxHeaderSize: LIMITS.headersBytesMax,
  keepAliveTimeout: KEEP_ALIVE_SECONDS * 1000,
  headersTimeout: HEAD_MS_MAX,
  requestTimeout: REQUEST_MS_MAX,
} as const;

/** A large body takes its time: only `STALLED_MS_MAX` ends it. */
export const STREAMING_HTTP_OPTIONS = { ...NODE_HTTP_OPTIONS, requestTimeout: 0 } as const;

export interface NodeListenerOptions {
  readonly handle: Handle;
  readonly lingering: LingeringCloses;
  readonly memory: PeerMemory;
  readonly onError: OnError;
}

/** Carries requests between node:http and a handler that knows nothing of it. */
export function nodeListener({
  handle,
  lingering,
  memory,
  onError,
}: NodeListenerOptions): RequestListener {
  return (message, response) => {
    const headers = new HeaderList(message.rawHeaders);
    // A proxy in front may believe the other one, and cache one account's answer for another. RFC 9112, 3.2.
    if (headers.isRepeated("host")) {
      response.writeHead(400, { Connection: "close" }).end();
      return;
    }
    const peer = {
      remoteAddress: plainAddress(message.socket.remoteAddress ?? ""),
      account: "",
      get isGone() {
        return message.socket.destroyed;
      },
      destroy: () => message.socket.destroy(),
    };
    const holding = new Holding(memory, peer);
    const body = new NodeBody(message, holding);
    const give = (answer: WireResponse) => {
      try {
        holding.release();
        send(message, response, answer, { lingering, holding, onError });
        body.discard();
      } catch (error) {
        cut(error);
      }
    };
    const cut = (error: unknown) => {
      if (!(error instanceof BodyAborted)) onError(error);
      message.destroy();
    };
    const request: RawRequest = {
      verb: message.method ?? "",
      target: originForm(message.url ?? "/"),
      headers,
      secure: "encrypted" in message.socket,
      remoteAddress: peer.remoteAddress,
      opensConnection: isFirstUse(message.socket),
      peer,
      body,
    };
    response.once("close", () => holding.end());
    const serve = () => {
      let answer: Awaitable<WireResponse>;
      try {
        answer = handle(request);
      } catch (error) {
        return cut(error);
      }
      if (!(answer instanceof Promise)) return give(answer);
      answer.then(give, cut);
    };
    // Requests of one connection are handled one after the other: the next may read what this one writes. A
    // response gets its socket once the responses before it are out.
    if (response.socket === null) waitForTurn(message.socket, response, serve);
    else serve();
  };
}

/** Per connection, how many requests wait for the answers before theirs. */
const waiting = new WeakMap<Socket, number>();

/**
 * Pauses the connection while requests wait: pipelined requests would otherwise pile up without bound.
 * node:http resumes it for reasons of its own, for example at the end of a message.
 */
function waitForTurn(socket: Socket, response: ServerResponse, serve: () => void): void {
  const before = waiting.get(socket);
  if (before === undefined) {
    socket.on("resume", () => {
      if (waiting.get(socket) !== 0) socket.pause();
    });
  }
  waiting.set(socket, (before ?? 0) + 1);
  socket.pause();
  response.once("socket", () => {
    const left = waiting.get(socket)! - 1;
    waiting.set(socket, left);
    if (left === 0) socket.resume();
    serve();
  });
}

/** Proxies send the absolute form; only its path and query matter here. */
function originForm(target: string): string {
  if (target.startsWith("/")) return target;
  const scheme = /^https?:\/\/[^/?]*/i.exec(target);
  return scheme ? "/" + target.slice(scheme[0].length).replace(/^\//, "") : "/" + target;
}

/** Shorter answers are not counted: over TLS each of them waits for a moment. */
const COUNTED_BYTES_MIN = 64 << 10;

interface SendOptions {
  readonly lingering: LingeringCloses;
  readonly holding: Holding;
  readonly onError: OnError;
}

function send(
  message: IncomingMessage,
  response: ServerResponse,
  answer: WireResponse,
  { lingering, holding, onError }: SendOptions,
): void {
  if (response.destroyed) return;
  // The answer carries its own date.
  response.sendDate = false;
  const { status } = answer;
  const body = kept(answer.body);
  const headers = [...answer.headers];
  const bytes = bodyBytesOf(body);
  const isBare = body === undefined && (status === 204 || status === 304);
  if (bytes !== undefined && !isBare && announcedBytes(headers) === undefined) {
    headers.push("Content-Length", String(bytes));
  }
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) {
    if (passOver(message, response, lingering)) headers.push("Connection", "close");
    response.writeHead(status, headers).end(body);
    if (response.writableLength > COUNTED_BYTES_MIN) {
      holding.answer(response.writableLength, () => response.writableLength);
    }
  } else {
    response.writeHead(status, headers);
    void pour(holding.pouring(body), response, onError);
  }
}

/**
 * Handles the unread rest of a request that is answered early. If the rest is too long to be read, the answer
 * is the connection's last. A chunked body has no announced length, so it is counted as it arrives, and the
 * connection ends once it is too long.
 * @returns whether the answer is already known to be the last
 */
function passOver(
  message: IncomingMessage,
  response: ServerResponse,
  lingering: LingeringCloses,
): boolean {
  if (message.readableEnded || message.complete) return false;
  const { socket } = message;
  // The client asked for this to be the last answer: node:http would close the connection under a rest of any
  // length.
  if (!response.shouldKeepAlive) lingering.prepare(socket);
  if (message.headers["transfer-encoding"] === undefined) {
    const isLast = Number(message.headers["content-length"] ?? 0) > UNWANTED_BYTES_MAX;
    if (isLast) lingering.prepare(socket);
    return isLast;
  }
  let left = UNWANTED_BYTES_MAX;
  const count = (chunk: Buffer) => {
    left -= chunk.length;
    if (left >= 0) return;
    message.off("data", count);
    // The parser is still working on the bytes that arrived; they may hold the end of the body and the next
    // request.
    setImmediate(() => {
      if (message.complete || socket.destroyed) return;
      lingering.prepare(socket);
      socket.destroySoon();
    });
  };
  message.on("data", count);
  message.resume();
  return false;
}

async function pour(
  body: AsyncIterable<Uint8Array>,
  response: ServerResponse,
  onError: OnError,
): Promise<void> {
  try {
    for await (const chunk of body) {
      if (response.destroyed) return;
      await written(response, chunk);
    }
    response.end();
  } catch (error) {
    // The status has been sent; cutting the connection is the only way left to report the failure.
    onError(error);
    response.destroy();
  }
}

class NodeBody implements BodySource {
  readonly bytes: number | undefined;
  readonly #message: IncomingMessage;
  #filler: PartsFiller | undefined;
  /** The bytes that `read` has received so far, joined: chunks of one byte would take 400 times their length. */
  #arrived = new GrowingBytes();
  readonly #holding: Holding;

  constructor(message: IncomingMessage, holding: Holding) {
    this.#message = message;
    this.#holding = holding;
    const isChunked = message.headers["transfer-encoding"] !== undefined;
    this.bytes = isChunked ? undefined : Number(message.headers["content-length"] ?? 0);
  }

  read(bytesMax: number): Promise<Uint8Array | undefined> | Uint8Array | undefined {
    const message = this.#message;
    if (this.bytes === 0) return new Uint8Array(0);
    if (this.bytes !== undefined && this.bytes > bytesMax) return undefined;
    // The message may have ended between two calls.
    if (message.destroyed && !message.complete) return Promise.reject(new BodyAborted());
    this.#holding.waitsFor = "body";
    return new Promise((resolve, reject) => {
      const end = (body: Uint8Array | undefined) => {
        this.#holding.waitsFor = undefined;
        resolve(body);
      };
      const take = (chunk: Buffer) => {
        const { room } = this.#arrived;
        const length = this.#arrived.length + chunk.length;
        this.#arrived.append(chunk, this.bytes ?? 2 * length);
        this.#holding.moved(chunk.length);
        const hasRoom = this.#holding.take(this.#arrived.room - room);
        if (length <= bytesMax && hasRoom) return;
        message.off("data", take).pause();
        if (hasRoom) end(undefined);
        else reject(this.#holding.refusal());
      };
      message.on("data", take).resume();
      message.on("end", () => end(this.#arrived.bytes));
      message.on("error", () => reject(new BodyAborted()));
      message.on("close", () => {
        if (!message.complete) reject(new BodyAborted());
      });
    });
  }

  /** The reader is done. node:http itself skips a body that was never read. */
  discard(): void {
    this.#arrived = new GrowingBytes();
    // A client that leaves during the rest needs no answer.
    this.#filler?.discard().catch(() => {});
    // node:http skips only what nobody has begun to read.
    if (!this.#filler) this.#message.resume();
  }

  reserve(bytes: number): void {
    this.#holding.reserve(bytes);
  }

  async fill(memory: Uint8Array): Promise<number> {
    this.#filler ??= new PartsFiller(movedParts(this.#message, this.#holding));
    try {
      return await this.#filler.fill(memory);
    } catch (error) {
      if (this.#message.complete) throw error;
      throw new BodyAborted();
    }
  }
}

/** The parts of a message, each of which is waited for and counted as it arrives. */
async function* movedParts(
  message: AsyncIterable<Uint8Array>,
  holding: Holding,
): AsyncGenerator<Uint8Array, void, undefined> {
  holding.waitsFor = "body";
  for await (const part of message) {
    holding.waitsFor = undefined;
    holding.moved(part.length);
    yield part;
    holding.waitsFor = "body";
  }
  holding.waitsFor = undefined;
}
