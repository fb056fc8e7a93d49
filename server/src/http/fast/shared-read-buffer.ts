import { Socket } from "node:net";
import { BeginningViews } from "../../byte-views.ts";

/*
 * Reads a connection without a stream in between. A readable stream allocates 64 KB for each read, passes on
 * a part of it and leaves the rest to the garbage collector. Here all connections read into one buffer, which
 * is lent to the reader for the duration of one call. Without it a point query of one of 16
 * connections takes 1.2 times the server's CPU, and a page of 100 entities 1.09; pipelined queries gain nothing.
 *
 * Node.js offers this (`onread`) for sockets that a program connects, but not for those that a server
 * accepts. An accepted socket's handle is therefore moved to a socket created with `onread`. Where a runtime
 * has no such handle, the reader gets the same bytes from the stream.
 */

/** As much as the system returns at once, and as much as a stream would request. */
const LENT_BYTES = 64 * 1024;
const lent = Buffer.allocUnsafeSlow(LENT_BYTES);
const lentViews = new BeginningViews(lent);

/** The bytes are lent until the reader returns. */
export type Take = (bytes: Buffer) => void;

/** Memory to read into directly, for a reader that wants more bytes than the lent buffer holds. */
export interface Room {
  /**
   * Called before each read: the memory to fill, or undefined for the lent buffer. The read owns it until the
   * next call.
   */
  next(): Uint8Array | undefined;
  /** So many bytes were read into it. */
  filled(bytes: number): void;
}

/** The reads of one accepted connection. */
export class SharedReadBuffers {
  /** The socket to write to and to watch for end, error and close. Reads begin immediately. */
  readonly socket: Socket;
  /**
   * Bytes may reach `take` even while this is set: a read may already be in progress, and not every runtime
   * asks for room.
   */
  room: Room | undefined;
  #take: Take | undefined;
  /** Where the next read goes. */
  #memory: Uint8Array = lent;

  /** @param accepted paused since it was accepted; not to be used any more */
  constructor(accepted: Socket, take: Take) {
    this.#take = take;
    this.socket = onHandleOf(accepted, this.#next, this.#onRead) ?? accepted;
    if (this.socket === accepted) {
      accepted.on("data", take);
      accepted.resume();
    }
  }

  #next = (): Uint8Array => {
    this.#memory = this.room?.next() ?? lent;
    return this.#memory;
  };

  #onRead = (bytes: number): boolean => {
    if (this.#memory !== lent) {
      this.room?.filled(bytes);
      return true;
    }
    const part = lentViews.of(bytes);
    if (this.#take === undefined) return this.socket.push(Buffer.from(part));
    this.#take(part);
    return true;
  };

  /** Returns the socket as an ordinary paused stream that begins with these bytes. */
  giveBack(bytes: Buffer): Socket {
    const { socket } = this;
    if (this.#take) socket.off("data", this.#take);
    this.#take = undefined;
    socket.pause();
    socket.unshift(Buffer.from(bytes));
    return socket;
  }
}

function onHandleOf(
  accepted: Socket,
  buffer: () => Uint8Array,
  callback: (bytes: number) => boolean,
): Socket | undefined {
  const handle: unknown = Reflect.get(accepted, "_handle");
  if (!lends(handle) || !Reflect.set(accepted, "_handle", null)) return undefined;
  const options = { handle, allowHalfOpen: true, onread: { buffer, callback } };
  const socket = new Socket(options);
  // The server counts the socket that it accepted.
  socket.once("close", () => accepted.destroy());
  return socket;
}

function lends(handle: unknown): boolean {
  return (
    typeof handle === "object" &&
    handle !== null &&
    "useUserBuffer" in handle &&
    typeof handle.useUserBuffer === "function"
  );
}
