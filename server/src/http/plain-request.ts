import { HeaderList } from "./raw-request.ts";

/**
 * Reads the plain HTTP/1.1 request and nothing else: a method the services know, an origin-form
 * target, headers of tokens and visible text, at most one Content-Length. Whatever is not plainly
 * that is "unknown", and the connection then belongs to node:http with all its bytes, this request's
 * included. What two parsers could read differently is therefore read by one of them only.
 */
export type PlainRead =
  | { readonly kind: "request"; readonly request: PlainRequest }
  /** Not all of the request is here yet; `bytes` is how much is needed, once that is known. */
  | { readonly kind: "incomplete"; readonly bytes: number }
  | { readonly kind: "unknown" };

export interface PlainRequest {
  readonly verb: string;
  readonly target: string;
  readonly headers: HeaderList;
  readonly bodyStart: number;
  /** Where the next request begins. */
  readonly end: number;
}

export const PLAIN_HEAD_BYTES_MAX = 16 * 1024;

const UNKNOWN: PlainRead = { kind: "unknown" };
const VERBS = new Set(["GET", "POST", "PUT", "DELETE", "MERGE", "PATCH", "HEAD", "OPTIONS"]);
/** Headers that change how a message is framed or who answers it. */
const FRAMING = new Set([
  "transfer-encoding",
  "expect",
  "upgrade",
  "te",
  "trailer",
  "http2-settings",
  "proxy-connection",
]);

const HEAD_END = Buffer.from("\r\n\r\n", "latin1");
// One pass each over the whole head, which is faster than any look at single characters.
const SUSPECT = /[^\r\n\t\x20-\x7e]/;

/** @param bytesMax largest body to take; a longer one is unknown here */
export function readPlainRequest(bytes: Buffer, start: number, bytesMax: number): PlainRead {
  const headEnd = bytes.indexOf(HEAD_END, start);
  if (headEnd < 0) {
    return bytes.length - start > PLAIN_HEAD_BYTES_MAX ? UNKNOWN : { kind: "incomplete", bytes: 0 };
  }
  if (headEnd - start > PLAIN_HEAD_BYTES_MAX) return UNKNOWN;
  const head = bytes.toString("latin1", start, headEnd);
  if (SUSPECT.test(head)) return UNKNOWN;

  const lineEnd = head.indexOf("\r\n");
  const line = lineEnd < 0 ? head : head.slice(0, lineEnd);
  const verbEnd = line.indexOf(" ");
  const verb = line.slice(0, verbEnd);
  if (!VERBS.has(verb) || !line.endsWith(" HTTP/1.1")) return UNKNOWN;
  const target = line.slice(verbEnd + 1, -" HTTP/1.1".length);
  if (target.charCodeAt(0) !== 0x2f || !isToken(target, TARGET)) return UNKNOWN;

  const rawHeaders: string[] = [];
  const names: string[] = [];
  let contentLength = -1;
  let hasHost = false;
  for (let at = lineEnd < 0 ? head.length : lineEnd + 2; at < head.length; ) {
    let end = head.indexOf("\r\n", at);
    if (end < 0) end = head.length;
    const colon = head.indexOf(":", at);
    if (colon <= at || colon >= end) return UNKNOWN;
    const rawName = head.slice(at, colon);
    if (!isToken(rawName, NAME)) return UNKNOWN;
    const value = head.slice(colon + 1, end).trim();
    // A bare CR or LF would end the line for somebody else.
    if (value.includes("\r") || value.includes("\n")) return UNKNOWN;
    const name = rawName.toLowerCase();
    if (FRAMING.has(name)) return UNKNOWN;
    if (name === "host") {
      if (hasHost) return UNKNOWN;
      hasHost = true;
    } else if (name === "content-length") {
      if (contentLength >= 0 || !/^\d{1,8}$/.test(value)) return UNKNOWN;
      contentLength = Number(value);
    } else if (name === "connection" && value.toLowerCase() !== "keep-alive") {
      return UNKNOWN;
    }
    rawHeaders.push(rawName, value);
    names.push(name);
    at = end + 2;
  }
  if (!hasHost) return UNKNOWN;
  if (contentLength > bytesMax) return UNKNOWN;
  const bodyStart = headEnd + HEAD_END.length;
  const end = bodyStart + Math.max(contentLength, 0);
  if (end > bytes.length) return { kind: "incomplete", bytes: end - start };
  return {
    kind: "request",
    request: { verb, target, headers: new HeaderList(rawHeaders, names), bodyStart, end },
  };
}

/** Characters of a header name (RFC 9110 token). */
const NAME = tokenTable("!#$%&'*+-.^_`|~");
/** Characters of a target that node:http takes as they are. */
const TARGET = tokenTable("!#$%&'()*+,-./:;=?@[\\]^_`{|}~\"<>");

function tokenTable(marks: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const character of `${marks}0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ`) {
    table[character.charCodeAt(0)] = 1;
  }
  return table;
}

function isToken(text: string, table: Uint8Array): boolean {
  for (let i = 0; i < text.length; i++) if (table[text.charCodeAt(i)] !== 1) return false;
  return text.length > 0;
}
