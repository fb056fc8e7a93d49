import type { LentBody, WireResponse } from "../operation.ts";

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

/** A copy of the body, whose memory its producer then has back. */
export function copyOf(body: LentBody): Uint8Array {
  const { memory, start, end } = body;
  const copy = Buffer.allocUnsafe(end - start);
  memory.copy(copy, 0, start, end);
  body.giveBack();
  return copy;
}
