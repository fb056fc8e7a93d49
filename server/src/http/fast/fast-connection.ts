import type { Socket } from "node:net";
import type { Awaitable } from "../../awaitable.ts";
import { takeBytes } from "../../byte-slab.ts";
import { bodyBytesOf } from "../../wire/body-bytes.ts";
import { BodyAborted, type BodySource } from "../../wire/body-source.ts";
import type { WireResponse } from "../../wire/operation.ts";
import { GrowingBytes } from "../growing-bytes.ts";
import {
  type Handle,
  HEAD_MS_MAX,
  isFirstUse,
  KEEP_ALIVE_SECONDS,
  type OnError,
  plainAddress,
  REQUEST_MS_MAX,
  STALLED_MS_MAX,
  UNWANTED_BYTES_MAX,
  WHOLE_BYTES_MAX,
} from "../lane-limits.ts";
import type { LingeringCloses } from "../lingering-close.ts";
import type { OpenConnection } from "../open-connections.ts";
import { Holding, type PeerConnection, type PeerMemory } from "../peer-memory.ts";
import { WholeBody } from "../raw-request.ts";
import type { Answered, CoalescedAnswers } from "./answer-coalescing.ts";
import { AnswerWriter } from "./answer-writer.ts";
import { ArrivingBody } from "./arriving-body.ts";
import { type PlainRequest, readPlainRequest } from "./plain-request.ts";
import { SharedReadBuffers } from "./shared-read-buffer.ts";

/** What a connection needs from its lane. */
export interface Lane {
  readonly handle: Handle;
  /** Passes on a paused socket, with its unread bytes put back. */
  readonly giveAway: (socket: Socket) => void;
  readonly onError: OnError;
  readonly lingering: LingeringCloses;
  readonly gathered: CoalescedAnswers;
  readonly memory: PeerMemory;
  /** How long a request, including its body, may take to arrive; 0: as long as bytes keep moving. */
  readonly requestMsMax: number;
  /** Monotonic milliseconds, to within a sweep. */
  now(): number;
  /** The same, exact and dearer. */
  exactNow(): number;
  /** Whether every answer is now the last of its connection. */
  readonly isClosing: boolean;
  /** Called when the connection is closed or given away. */
  forget(connection: FastConnection): void;
}

const IDLE_MS_MAX = KEEP_ALIVE_SECONDS * 1000;

/**
 * Reads the requests of one connection, has them handled one after the other, and waits while the client is
 * slow. It is in one of these states:
 *
 *   reading     waits for a request, or for the rest of one
 *   answering   one request is being handled, its long body may still be arriving, or its answer is not out
 *               yet; further bytes wait in the socket
 *   given away  node:http has the connection
 *   lingering   the last answer is out; `LingeringCloses` has the connection
 *   closed
 *
 * and moves between them:
 *
 *   reading → answering    the handler, or a client that is slow to read, makes the next request wait
 *   answering → reading    the answer is out, its request's body is over, and the client has read enough
 *   reading → given away   the bytes are not a plain request
 *   answering → lingering  too much of an unwanted body is left
 *   either → closed        the client ends or breaks the connection, a time limit passes, an answer fails, or
 *                          the lane closes
 */
export class FastConnection implements Answered, OpenConnection, PeerConnection {
  readonly #lane: Lane;
  readonly #reads: SharedReadBuffers;
  readonly #writer: AnswerWriter;
  readonly remoteAddress: string;
  /** The account of the request at hand, set by its handler. */
  account = "";
  /** Most connections never hold anything between two reads. */
  #holding: Holding | undefined;
  /** Bytes of an incomplete request, or bytes behind the request that is being handled. */
  #unread = new GrowingBytes();
  /** Length at which the current request is whole; 0 until its head is. */
  #wanted = 0;
  /** When the head of an incomplete request was complete; 0 for none. */
  #headAt = 0;
  #answering = false;
  /** An answer that is ready and is sent together with others of this turn. */
  #made: { readonly verb: string; readonly answer: WireResponse } | undefined;
  /** The body of the request being handled, unless it arrived with its head. */
  #arriving: ArrivingBody | undefined;
  /** Whether an earlier request came by this connection. */
  #used = false;
  #ended = false;
  /** When the current request began to arrive, or the connection became idle. */
  #since: number;
  /** Only `#writer` may write to it. */
  readonly socket: Socket;

  constructor(accepted: Socket, lane: Lane) {
    this.#lane = lane;
    this.#since = lane.now();
    this.#reads = new SharedReadBuffers(accepted, this.#onBytes);
    const { socket } = this.#reads;
    this.socket = socket;
    this.#writer = new AnswerWriter(socket);
    this.remoteAddress = plainAddress(socket.remoteAddress ?? "");
    socket.on("end", this.#onEnd);
    socket.on("error", this.#break);
    // No progress for too long.
    socket.on("timeout", this.#break);
    socket.on("close", this.#onClose);
  }

  endIfLate(now: number): void {
    const ms = now - this.#since;
    if (this.#answering) {
      const { requestMsMax } = this.#lane;
      if (this.#arriving?.isWhole === false && requestMsMax > 0 && ms > requestMsMax) {
        this.socket.destroy();
      }
      return;
    }
    if (this.#unread.length === 0) {
      if (ms > IDLE_MS_MAX) this.socket.destroy();
    } else if (ms > (this.#wanted > 0 ? REQUEST_MS_MAX : HEAD_MS_MAX)) {
      this.#writer.refuse(408);
      this.socket.destroySoon();
    }
  }

  /** To within a sweep. */
  get idleSince(): number | undefined {
    return this.#answering || this.#wanted > 0 ? undefined : this.#since;
  }

  endIfIdle(): void {
    // Not `end`: a client that never closes its own side would keep the connection open.
    if (this.#unread.length === 0 && !this.#answering) this.socket.destroySoon();
  }

  get isGone(): boolean {
    return this.socket.destroyed;
  }

  destroy(): void {
    this.socket.destroy();
  }

  // Bytes from the client.

  #onBytes = (lent: Buffer): void => {
    if (this.socket.writableEnded) return;
    if (this.#answering) {
      const arriving = this.#arriving;
      const behind = arriving?.take(lent) ?? lent;
      if (behind.length > 0) {
        // Stop reading: the server takes no more than it has time for, and the client's end is not reported
        // before these bytes are read.
        this.socket.pause();
        this.#unread.append(behind, 0);
      }
      if (arriving?.isUnwanted && arriving.isWhole) this.#settle();
    } else if (this.#unread.length === 0) {
      this.#since = this.#lane.now();
      this.#read(lent, true);
    } else {
      this.#holding?.moved(lent.length);
      if (!this.#keep(lent)) return;
      if (this.#unread.length >= this.#wanted) this.#readOn();
    }
  };

  /** The client has ended its side. Requests that arrived whole are still answered. */
  #onEnd = (): void => {
    this.#ended = true;
    if (!this.#answering) this.#leave();
    else if (this.#arriving?.isWhole === false) this.socket.destroy();
  };

  #onClose = (): void => {
    this.#lane.forget(this);
    this.#holding?.end();
    this.#arriving?.abort();
  };

  #break = (): void => {
    this.socket.destroy();
  };

  /** Ends the connection to a client that has ended its side; one that stopped inside a request gets a 400. */
  #leave(): void {
    // Line breaks are allowed between requests and after the last.
    const isBetween = this.#unread.bytes.every((byte) => byte === 13 || byte === 10);
    if (isBetween) this.socket.end();
    else this.#writer.refuse(400);
  }

  get #held(): Holding {
    this.#holding ??= new Holding(this.#lane.memory, this);
    return this.#holding;
  }

  /** Holds bytes of an incomplete request. @returns false if there is no room: the connection has ended then */
  #keep(bytes: Buffer): boolean {
    const { room } = this.#unread;
    this.#unread.append(bytes, this.#wanted);
    const holding = this.#held;
    if (holding.take(this.#unread.room - room)) {
      // A head has a time limit of its own, and an answer that says so.
      if (this.#wanted > 0) holding.waitsFor = "body";
      return true;
    }
    this.#writer.refuse(503);
    this.socket.destroySoon();
    return false;
  }

  /** Reads the bytes that were held. */
  #readOn(): void {
    this.#holding?.end();
    const kept = this.#unread.bytes;
    this.#unread = new GrowingBytes();
    this.#read(kept, false);
  }

  /**
   * Answers one request after another until one is incomplete, makes the next one wait, or is not plain.
   * @param lent whether the bytes are invalid once this returns
   */
  #read(bytes: Buffer, lent: boolean): void {
    let at = 0;
    this.#wanted = 0;
    while (at < bytes.length) {
      const read = readPlainRequest(bytes, at, WHOLE_BYTES_MAX);
      if (read.kind === "request") {
        const { request } = read;
        const { bodyStart, end } = request;
        at = end;
        const body =
          end > bytes.length
            ? this.#receive(bytes.subarray(bodyStart), end - bodyStart)
            : wholeBody(bytes, request, lent);
        if (this.#answer(request, body, at >= bytes.length) && !this.#mustWait()) continue;
        if (at < bytes.length) {
          this.socket.pause();
          this.#unread.append(bytes.subarray(at), 0);
        }
        return;
      }
      // The next request, if any of it is here, begins now.
      if (at > 0) this.#since = this.#lane.now();
      if (read.kind === "unknown") {
        this.#giveAway(bytes.subarray(at));
        return;
      }
      this.#wanted = read.bytes;
      if (read.bytes > 0) this.#headAt ||= this.#lane.exactNow();
      if (this.#keep(bytes.subarray(at)) && this.#ended) this.#leave();
      return;
    }
    this.#since = this.#lane.now();
    if (this.#ended) this.#leave();
  }

  /** A body that begins with these bytes and is read as it arrives. */
  #receive(begin: Buffer, length: number): ArrivingBody {
    const body = new ArrivingBody(this.#reads, begin, length, this.#held);
    this.#arriving = body;
    this.socket.setTimeout(STALLED_MS_MAX);
    return body;
  }

  #giveAway(bytes: Buffer): void {
    const { socket } = this;
    socket.off("end", this.#onEnd);
    socket.off("error", this.#break);
    socket.off("timeout", this.#break);
    socket.off("close", this.#onClose);
    this.#holding?.end();
    this.#lane.forget(this);
    this.#lane.giveAway(this.#reads.giveBack(bytes));
  }

  // Bytes to the client.

  /**
   * Returns whether the whole answer has been passed on; if not, the connection is "answering" until it is.
   * @param isLast whether no further request of the client has arrived
   */
  #answer(request: PlainRequest, body: BodySource, isLast: boolean): boolean {
    let answer: Awaitable<WireResponse>;
    this.account = "";
    try {
      answer = this.#lane.handle({
        verb: request.verb,
        target: request.target,
        headers: request.headers,
        secure: false,
        remoteAddress: this.remoteAddress,
        opensConnection: this.#takeFirst(),
        heldMs: this.#takeHeldMs(),
        peer: this,
        body,
      });
    } catch (error) {
      this.#cut(error);
      return true;
    }
    const { verb } = request;
    if (answer instanceof Promise) {
      this.#answering = true;
      answer.then((known) => this.#resume(verb, known)).catch((error) => this.#cut(error));
      return false;
    }
    const { gathered } = this.#lane;
    if (!isLast || this.#arriving || !gathered.holdsBack(answer)) return this.#send(verb, answer);
    this.#answering = true;
    this.#made = { verb, answer };
    gathered.add(this, answer);
    return false;
  }

  sendAnswer(): void {
    const { verb, answer } = this.#made!;
    this.#made = undefined;
    try {
      this.#resume(verb, answer);
    } catch (error) {
      this.#cut(error);
    }
  }

  /**
   * Whether this is the connection's first request. node:http may get the connection later and must not count
   * its requests from the start again.
   */
  #takeFirst(): boolean {
    if (this.#used) return false;
    this.#used = true;
    return isFirstUse(this.socket);
  }

  /** How long the request at hand was incomplete, counted from its head as node:http does. */
  #takeHeldMs(): number {
    if (this.#headAt === 0) return 0;
    const ms = this.#lane.exactNow() - this.#headAt;
    this.#headAt = 0;
    return ms;
  }

  #resume(verb: string, answer: WireResponse): void {
    if (this.socket.destroyed) return;
    if (this.#send(verb, answer)) this.#settle();
  }

  /** Returns the same as `#answer`. */
  #send(verb: string, answer: WireResponse): boolean {
    const lingers = (this.#arriving?.left ?? 0) > UNWANTED_BYTES_MAX;
    if (lingers) this.#lane.lingering.prepare(this.socket);
    const closes = lingers || this.#lane.isClosing;
    this.#holding?.release();
    let rest: Promise<void> | undefined;
    try {
      rest = this.#writer.write(isPoured(answer) ? this.#counted(answer) : answer, verb, closes);
    } catch (error) {
      this.#cut(error);
      return true;
    }
    if (rest === undefined) return true;
    this.#answering = true;
    this.socket.setTimeout(STALLED_MS_MAX);
    rest.then(
      () => {
        this.socket.setTimeout(0);
        this.#settle();
      },
      // The status has been sent; cutting the connection is the only way left to report the failure.
      (error) => this.#cut(error),
    );
    return false;
  }

  /** An answer whose body comes in parts, each of which counts until the client has taken it. */
  #counted(answer: PouredAnswer): WireResponse {
    return { ...answer, body: this.#held.pouring(answer.body) };
  }

  /** An answer is out: continue with the next request once it may be read. */
  #settle(): void {
    if (!this.#mustWait()) this.#goOn();
  }

  /**
   * Whether the next request must wait, either for the unwanted rest of this one's body or for the client to
   * read its answer. After the last answer there is no next request.
   */
  #mustWait(): boolean {
    if (this.socket.destroyed) return true;
    if (this.socket.writableEnded) {
      this.#arriving?.discard();
      return true;
    }
    if (this.#arriving !== undefined) {
      this.#answering = true;
      if (!this.#arriving.isWhole) {
        // An answer that streamed has reset the timeout.
        this.socket.setTimeout(STALLED_MS_MAX);
        this.#arriving.discard();
        return true;
      }
      this.#arriving = undefined;
      this.#holding?.end();
      this.#reads.room = undefined;
      this.socket.setTimeout(0);
    }
    if (!this.#writer.mustDrain) return false;
    this.#answering = true;
    this.socket.setTimeout(STALLED_MS_MAX);
    this.#held.answer(this.#writer.unreadBytes, this.#lookLeft);
    this.#writer.whenDrained(this.#onDrained);
    return true;
  }

  #lookLeft = (): number => this.#writer.unsentBytes;

  #onDrained = (): void => {
    this.#holding?.read();
    this.socket.setTimeout(0);
    this.#goOn();
  };

  #goOn(): void {
    this.#answering = false;
    this.#since = this.#lane.now();
    if (this.socket.isPaused()) this.socket.resume();
    if (this.#unread.length > 0) this.#readOn();
    else if (this.#ended) this.#leave();
    // An answer that was begun before may not have said that it is the last.
    else if (this.#lane.isClosing) this.socket.destroySoon();
  }

  /** Cuts the connection: the client gets no answer. */
  #cut(error: unknown): void {
    if (!(error instanceof BodyAborted)) this.#lane.onError(error);
    this.socket.destroy();
  }
}

type PouredAnswer = WireResponse & { readonly body: AsyncIterable<Uint8Array> };

function isPoured(answer: WireResponse): answer is PouredAnswer {
  return bodyBytesOf(answer.body) === undefined;
}

/** The body of a request among these bytes, copied if they are `lent`. */
function wholeBody(bytes: Buffer, { bodyStart, end }: PlainRequest, lent: boolean): WholeBody {
  if (end === bodyStart) return EMPTY_BODY;
  if (!lent) return new WholeBody(bytes.subarray(bodyStart, end));
  const body = takeBytes(end - bodyStart);
  bytes.copy(body, 0, bodyStart, end);
  return new WholeBody(body);
}

const EMPTY_BODY = new WholeBody(Buffer.alloc(0));
