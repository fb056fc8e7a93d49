import type { LentBody, WireResponse } from "../operation.ts";

type Body = WireResponse["body"];

/** How long the body of an answer is; undefined of one that comes in parts, whose headers say it. */
export function bodyBytesOf(body: Body): number | undefined {
  if (body === undefined) return 0;
  if (body instanceof Uint8Array) return body.length;
  if (typeof body === "string") return Buffer.byteLength(body);
  return isLent(body) ? body.end - body.start : undefined;
}

/** What the headers of an answer, names and values in turn, say of the length of its body. */
export function announcedBytes(headers: readonly string[]): number | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i] === "Content-Length") return Number(headers[i + 1]);
  }
  return undefined;
}

export function isLent(body: Body): body is LentBody {
  return typeof body === "object" && !(body instanceof Uint8Array) && "giveBack" in body;
}
