import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { BeginningViews } from "../../byte-views.ts";
import { bodyBytesOf, copyOf, isLent, LONG_BYTES } from "../../wire/body-bytes.ts";
import type { LentBody, WireResponse } from "../../wire/operation.ts";
import { KEEP_ALIVE_SECONDS, written } from "../lane-limits.ts";
import { DirectWrites } from "./direct-writes.ts";

const KEEP_ALIVE = `Connection: keep-alive\r\nKeep-Alive: timeout=${KEEP_ALIVE_SECONDS}\r\n\r\n`;
const CLOSE = "Connection: close\r\n\r\n";
const NOTHING = Buffer.alloc(0);

/** Writes answers to one connection of the fast lane, in as few writes as their bodies allow. */
export class AnswerWriter {
  readonly #socket: Socket;
  readonly #direct: DirectWrites | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    this.#direct = DirectWrites.of(socket);
  }

  /** Whether the client must read what was already sent before it gets more. */
  get mustDrain(): boolean {
    return this.#direct?.waits === true || this.#socket.writableNeedDrain;
  }

  /** The bytes of answers that the client must read, about. */
  get unreadBytes(): number {
    return this.#direct?.waits ? this.#direct.waitingBytes : this.#socket.writableLength;
  }

  /** How many of them the system has not taken yet. Those it has taken in part count as a whole in `unreadBytes`. */
  get unsentBytes(): number {
    const handle: unknown = Reflect.get(this.#socket, "_handle");
    const isCounting = typeof handle === "object" && handle !== null && "writeQueueSize" in handle;
    return isCounting ? Number(handle.writeQueueSize) : this.unreadBytes;
  }

  /** Calls `then` once `mustDrain` is over; never if the connection breaks first. */
  whenDrained(then: () => void): void {
    if (this.#direct?.waits) this.#direct.whenTaken(then);
    else this.#socket.once("drain", then);
  }

  /**
   * @param closes whether this is the connection's last answer
   * @returns undefined when all of it has been passed on; for content that comes in parts, a promise of that
   * @throws Error for an answer that must not be sent; nothing of it has been sent then
   */
  write(answer: WireResponse, verb: string, closes: boolean): Promise<void> | undefined {
    const { status, headers, body } = answer;
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "unknown"}\r\n`;
    let hasLength = false;
    for (let i = 0; i < headers.length; i += 2) {
      const value = headers[i + 1]!;
      // Values come from this server, but some repeat client input.
      if (value.includes("\n") || value.includes("\r")) {
        throw new Error(`The value of ${headers[i]} contains a line break.`);
      }
      head += `${headers[i]}: ${value}\r\n`;
      if (headers[i] === "Content-Length") hasLength = true;
    }
    const bodyBytes = bodyBytesOf(body);
    if (!hasLength && (body !== undefined || (status !== 204 && status !== 304))) {
      if (bodyBytes === undefined) throw new Error("A streamed body needs a Content-Length.");
      head += `Content-Length: ${bodyBytes}\r\n`;
    }
    head += closes ? CLOSE : KEEP_ALIVE;
    // HEAD, whichever operation answers it: the client would read a body as the next answer.
    const sent = verb === "HEAD" ? undefined : body;
    if (sent === undefined) {
      this.#writeJoined(head, undefined, closes);
      if (isLent(body)) body.giveBack();
    } else if (isLent(sent)) {
      this.#writeLent(head, sent, closes);
    } else if (typeof sent === "object" && !(sent instanceof Uint8Array)) {
      return this.#pour(head, sent, closes);
    } else if (bodyBytes! <= JOINED_BYTES_MAX) {
      this.#writeJoined(head, sent, closes);
    } else {
      this.#writeApart(head, typeof sent === "string" ? Buffer.from(sent) : sent, closes);
    }
    return undefined;
  }

  /** Ends the connection with a refusal that no operation wrote, as node:http would answer. */
  refuse(status: 400 | 408 | 503): void {
    this.#socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${CLOSE}`);
  }

  #writeJoined(head: string, body: string | Uint8Array | undefined, closes: boolean): void {
    this.#put(joined(head, body), closes);
    // The system has not taken everything yet and still reads from that memory.
    if (this.#socket.writableLength > 0 || this.#direct?.waits) answerRoom = undefined;
  }

  /**
   * Writes the head in front of the body and sends both in one piece, directly where possible. Copied and sent
   * by the stream, 50 entities of 1 KB took 60 µs instead of 43, and one of 40 KB 30 instead of 20.
   */
  #writeLent(head: string, body: LentBody, closes: boolean): void {
    const { memory, start, end } = body;
    const direct = this.#direct?.isFree && !closes ? this.#direct : undefined;
    const from = start - head.length;
    // A stream takes short bodies until it is full, and each would hold its whole memory.
    if (from < 0 || (!direct && end - start < LONG_BYTES)) {
      this.#writeApart(head, copyOf(body), closes);
      return;
    }
    memory.write(head, from, "latin1");
    const bytes = memory.subarray(from, end);
    if (direct) {
      direct.write(bytes, body);
      return;
    }
    this.#socket.write(bytes, (error) => {
      // After a failed write, the system may still read from the memory.
      if (!error) body.giveBack();
    });
    if (closes) this.#end(NOTHING);
  }

  #writeApart(head: string, body: Uint8Array, closes: boolean): void {
    this.#socket.cork();
    this.#socket.write(head, "latin1");
    this.#put(body, closes);
    this.#socket.uncork();
  }

  /** Writes part by part, as fast as the client reads. */
  async #pour(head: string, body: AsyncIterable<Uint8Array>, closes: boolean): Promise<void> {
    const socket = this.#socket;
    // Corked until the first part: sending the head alone costs as much as sending 100 KB with it.
    socket.cork();
    socket.write(head, "latin1");
    for await (const part of body) {
      if (socket.destroyed) return;
      const gone = written(socket, part);
      socket.uncork();
      await gone;
    }
    socket.uncork();
    if (closes) this.#end(NOTHING);
  }

  #put(bytes: Uint8Array, closes: boolean): void {
    if (closes) this.#end(bytes);
    else if (this.#direct?.isFree) this.#direct.write(bytes);
    else this.#socket.write(bytes);
  }

  /** `end` alone is not enough: a client that never closes its own side would keep the connection open. */
  #end(bytes: Uint8Array): void {
    this.#socket.end(bytes);
    this.#socket.destroySoon();
  }
}

/**
 * One buffer, one write: a second write costs more than copying a kilobyte. The bytes are lent. A socket
 * usually passes them on before `write` returns, and the next answer then overwrites them.
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

/** Longer bodies are written from their own memory. */
const JOINED_BYTES_MAX = 32 * 1024;
/** Shared by all connections. */
let answerRoom: { readonly bytes: Buffer; readonly views: BeginningViews } | undefined;
