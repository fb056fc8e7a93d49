import { takeBytes } from "../byte-slab.ts";
import type { LentBody, WireResponse } from "./operation.ts";

type Body = WireResponse["body"];

/** Length of an answer's body; undefined for one that comes in parts, whose headers announce it. */
export function bodyBytesOf(body: Body): number | undefined {
  if (body === undefined) return 0;
  if (body instanceof Uint8Array) return body.length;
  if (typeof body === "string") return Buffer.byteLength(body);
  return isLent(body) ? body.end - body.start : undefined;
}

/** The body length that an answer's headers, alternating names and values, announce. */
export function announcedBytes(headers: readonly string[]): number | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i] === "Content-Length") return Number(headers[i + 1]);
  }
  return undefined;
}

export function isLent(body: Body): body is LentBody {
  return typeof body === "object" && !(body instanceof Uint8Array) && "giveBack" in body;
}

/**
 * Lent bodies of this length are sent from where they are, whatever it takes; shorter ones are copied where
 * they would have to wait. Four times the `highWaterMark` of sockets in Node 20, equal to it from Node 22 on.
 */
export const LONG_BYTES = 64 * 1024;

/** The same body, in memory of its own if it is lent and short. */
export function kept(body: Body): Body {
  return isLent(body) && body.end - body.start < LONG_BYTES ? copyOf(body) : body;
}

/** A copy of the body, whose memory its producer then has back. */
export function copyOf(body: LentBody): Uint8Array {
  const { memory, start, end } = body;
  const copy = takeBytes(end - start);
  memory.copy(copy, 0, start, end);
  body.giveBack();
  return copy;
}
