import type { Socket } from "node:net";
import type { Writable } from "node:stream";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { Awaitable } from "../awaitable.ts";
import type { WireResponse } from "../wire/operation.ts";
import type { RawRequest } from "./raw-request.ts";

/** Receives the requests of a lane. */
export type Handle = (request: RawRequest) => Awaitable<WireResponse>;

/** Receives errors that no answer can report any more. */
export type OnError = (error: unknown) => void;

/**
 * Longer bodies are passed on as they arrive. The handler reads them once it knows the caller, so that an
 * unauthenticated client cannot make the server hold more than this.
 */
export const WHOLE_BYTES_MAX = 64 * 1024;

/** Clients keep idle connections for a minute; a server that closes earlier makes them meet ECONNRESET. */
export const KEEP_ALIVE_SECONDS = 75;

/** Time limits for the head of a request and for all of it. */
export const HEAD_MS_MAX = 60_000;
export const REQUEST_MS_MAX = 300_000;

/** A connection that makes no progress for this long, though it should, is cut. */
export const STALLED_MS_MAX = 120_000;

/** How much of an unwanted body is still read. If more is left, the answer is the last of its connection. */
export const UNWANTED_BYTES_MAX = 4 * LIMITS.bodyBytesMax;

/**
 * After that answer, or after one that the client asked to be the last, how long the client may go on sending
 * and how long it may pause before it is cut: `LingeringCloses`.
 */
export const LINGER_MS_MAX = 30_000;
export const LINGER_STALLED_MS_MAX = 5_000;

/** Connections that have carried a request. */
const used = new WeakSet<Socket>();

/** Whether this is the first call for the connection, which marks it as used. */
export function isFirstUse(socket: Socket): boolean {
  if (used.has(socket)) return false;
  used.add(socket);
  return true;
}

/**
 * IPv4 clients of a dual-stack socket, in dotted notation. Returns the identical string while the address
 * does not change: observers compare the addresses of consecutive requests.
 */
export function plainAddress(address: string): string {
  const plain = address.startsWith("::ffff:") ? address.slice("::ffff:".length) : address;
  if (plain !== lastAddress) lastAddress = plain;
  return lastAddress;
}

let lastAddress = "";

/** Resolves when the system has taken the bytes, or the stream has closed. The bytes may change after that. */
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
