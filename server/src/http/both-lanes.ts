import type { Socket } from "node:net";
import type { Writable } from "node:stream";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { Awaitable } from "../awaitable.ts";
import type { WireResponse } from "../operation.ts";
import type { RawRequest } from "./raw-request.ts";

/** What a lane gives its requests to. */
export type Handle = (request: RawRequest) => Awaitable<WireResponse>;

/** Told of errors that no answer can tell of any more. */
export type OnError = (error: unknown) => void;

/**
 * Longer bodies are handed over as they arrive: the handler asks for them once it knows who sends them,
 * so that a stranger cannot make the server hold more than this.
 */
export const WHOLE_BYTES_MAX = 256 * 1024;

/** Clients hold connections for a minute; closing earlier makes them meet ECONNRESET. */
export const KEEP_ALIVE_SECONDS = 75;

/** The head of a request must be here after this long, all of it after the other. */
export const HEAD_MS_MAX = 60_000;
export const REQUEST_MS_MAX = 300_000;

/** A connection on which nothing moves for so long, though it should, is cut. */
export const STILL_MS_MAX = 120_000;

/** So much of a body is read though nobody wants it; where more is left, the answer is the last of its connection. */
export const UNWANTED_BYTES_MAX = 4 * LIMITS.bodyBytesMax;

/**
 * Behind that answer, or one it asked to be the last, a client may send for so long, and pause for so long,
 * before it is cut: `LingeringCloses`.
 */
export const LINGER_MS_MAX = 30_000;
export const LINGER_STILL_MS_MAX = 5_000;

/** Connections that have carried a request. */
const used = new WeakSet<Socket>();

/** Whether nothing came by this connection yet; from now on something has. */
export function opens(socket: Socket): boolean {
  if (used.has(socket)) return false;
  used.add(socket);
  return true;
}

/**
 * IPv4 clients of a dual-stack socket, as everybody writes them. The very same string where the address is that
 * of the connection before: whoever watches compares the addresses of every two requests.
 */
export function plainAddress(address: string): string {
  const plain = address.startsWith("::ffff:") ? address.slice("::ffff:".length) : address;
  if (plain !== lastAddress) lastAddress = plain;
  return lastAddress;
}

let lastAddress = "";

/** Resolves when the system has taken the bytes, or nobody is left to write to: they may change then. */
export function written(stream: Writable, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      stream.off("close", go);
      resolve();
    };
    stream.on("close", go);
    stream.write(bytes, go);
  });
}
