import { type Headers, KNOWN_VERBS } from "../raw-request.ts";
import { escapeRaw } from "../raw-target.ts";

/** The result of reading at some position in a connection's bytes. */
export type PlainRead =
  | { readonly kind: "request"; readonly request: PlainRequest }
  /** Part of the request is missing; `bytes` is how much is needed in all, 0 until that is known. */
  | { readonly kind: "incomplete"; readonly bytes: number }
  | { readonly kind: "unknown" };

export interface PlainRequest {
  readonly verb: string;
  readonly target: string;
  readonly headers: Headers;
  readonly bodyStart: number;
  /** Where the next request begins. */
  readonly end: number;
}

const PLAIN_HEAD_BYTES_MAX = 16 * 1024;
/** Clients send about fifteen. The limit of node:http differs between versions. */
const PLAIN_HEADERS_MAX = 200;

const UNKNOWN: PlainRead = { kind: "unknown" };
/** The end of the request line. */
const VERSION = " HTTP/1.1";
/** The same with the carriage return in front of the line feed. */
const LINE_END = `${VERSION}\r`;
const HEAD_END = Buffer.from("\r\n\r\n", "latin1");

/**
 * Reads plain HTTP/1.1 requests and nothing else: a method the services know, an origin-form target, headers
 * of tokens and visible text, at most one Content-Length. Anything else is "unknown", and the connection then
 * belongs to node:http with all its bytes, including this request's. So input that two parsers could read
 * differently is read by one of them only.
 *
 * @param wholeBytesMax longest body that must be present with its head. A longer body may still be arriving,
 * in which case the request's `end` lies beyond `bytes`.
 */
export function readPlainRequest(bytes: Buffer, start: number, wholeBytesMax: number): PlainRead {
  const headEnd = bytes.indexOf(HEAD_END, start);
  if (headEnd < 0) {
    if (bytes.length - start > PLAIN_HEAD_BYTES_MAX || !mayBecomePlain(bytes, start))
      return UNKNOWN;
    return { kind: "incomplete", bytes: 0 };
  }
  if (headEnd - start > PLAIN_HEAD_BYTES_MAX) return UNKNOWN;
  const head = bytes.toString("latin1", start, headEnd);
  const verbEnd = head.indexOf(" ");
  const verb = head.slice(0, verbEnd);
  if (!KNOWN_VERBS.has(verb)) return UNKNOWN;
  if (verbEnd + 1 >= head.length || head.charCodeAt(verbEnd + 1) !== SLASH) return UNKNOWN;
  let targetEnd = endOf(TARGET, head, verbEnd + 1);
  const isRaw = targetEnd < head.length && head.charCodeAt(targetEnd) > ASCII_MAX;
  if (isRaw) targetEnd = endOf(RAW_TARGET, head, targetEnd);
  if (!head.startsWith(VERSION, targetEnd)) return UNKNOWN;
  let at = targetEnd + VERSION.length;
  const spans: number[] = [];
  let contentLength = -1;
  let hasHost = false;
  while (at < head.length) {
    if (at + 2 >= head.length || head.charCodeAt(at) !== CR || head.charCodeAt(at + 1) !== LF) {
      return UNKNOWN;
    }
    const nameStart = at + 2;
    const nameEnd = endOf(NAME, head, nameStart);
    if (nameEnd === nameStart || nameEnd === head.length || head.charCodeAt(nameEnd) !== COLON) {
      return UNKNOWN;
    }
    const valueStart = endOf(BLANK, head, nameEnd + 1);
    at = endOf(VALUE, head, valueStart);
    let valueEnd = at;
    while (valueEnd > valueStart && BLANK[head.charCodeAt(valueEnd - 1)] === 1) valueEnd--;
    spans.push(nameStart, nameEnd, valueStart, valueEnd);
    if (!mayFrame(head.charCodeAt(nameStart), nameEnd - nameStart)) continue;
    const name = head.slice(nameStart, nameEnd).toLowerCase();
    if (!FRAMING.has(name)) continue;
    switch (name) {
      case "host":
        if (hasHost) return UNKNOWN;
        hasHost = true;
        break;
      case "content-length": {
        const value = head.slice(valueStart, valueEnd);
        if (contentLength >= 0 || !/^\d{1,12}$/.test(value)) return UNKNOWN;
        contentLength = Number(value);
        break;
      }
      case "connection":
        if (head.slice(valueStart, valueEnd).toLowerCase() !== "keep-alive") return UNKNOWN;
        break;
      default:
        return UNKNOWN;
    }
  }
  if (!hasHost || spans.length > 4 * PLAIN_HEADERS_MAX) return UNKNOWN;
  const bodyStart = headEnd + HEAD_END.length;
  const end = bodyStart + Math.max(contentLength, 0);
  if (end > bytes.length && contentLength <= wholeBytesMax) {
    return { kind: "incomplete", bytes: end - start };
  }
  const sent = head.slice(verbEnd + 1, targetEnd);
  const target = isRaw ? escapeRaw(sent) : sent;
  const headers = new PlainHeaders(head, spans);
  return { kind: "request", request: { verb, target, headers, bodyStart, end } };
}

/**
 * Whether the beginning of a head can still become a plain request. A TLS greeting never ends as heads do:
 * waiting for the rest would hold a client that used the wrong scheme until the time limit.
 */
function mayBecomePlain(bytes: Buffer, start: number): boolean {
  const lineEnd = bytes.indexOf(LF, start);
  if (lineEnd < 0) return bytes.length === start || isCapital(bytes[start]!);
  const lineStart = Math.max(start, lineEnd - LINE_END.length);
  if (bytes.toString("latin1", lineStart, lineEnd) !== LINE_END) return false;
  for (let at = lineEnd; at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at - 1] !== CR) return false;
  }
  return true;
}

function isCapital(byte: number): boolean {
  return byte >= 0x41 && byte <= 0x5a;
}

/**
 * The headers of a plain request, as positions in the head. About ten headers of a request are looked up, so
 * names are compared in place and only requested values are cut out.
 */
class PlainHeaders implements Headers {
  readonly #head: string;
  /** Four positions per header: start and end of its name, start and end of its value. */
  readonly #spans: readonly number[];
  #raw: string[] | undefined;

  constructor(head: string, spans: readonly number[]) {
    this.#head = head;
    this.#spans = spans;
  }

  /** Built on first use. */
  get raw(): readonly string[] {
    this.#raw ??= this.#cutOut();
    return this.#raw;
  }

  #cutOut(): string[] {
    const spans = this.#spans;
    const raw: string[] = [];
    for (let i = 0; i < spans.length; i += 2) raw.push(this.#head.slice(spans[i], spans[i + 1]));
    return raw;
  }

  get(name: string): string | undefined {
    const spans = this.#spans;
    for (let i = spans.length - 4; i >= 0; i -= 4) {
      const start = spans[i]!;
      if (spans[i + 1]! - start === name.length && this.#isNamed(name, start)) {
        return this.#head.slice(spans[i + 2], spans[i + 3]);
      }
    }
    return undefined;
  }

  /** `name` is in lower case. */
  #isNamed(name: string, start: number): boolean {
    const head = this.#head;
    for (let i = 0; i < name.length; i++) {
      const unit = head.charCodeAt(start + i);
      const lower = unit >= 0x41 && unit <= 0x5a ? unit | 0x20 : unit;
      if (lower !== name.charCodeAt(i)) return false;
    }
    return true;
  }
}

/**
 * The end of the run of characters that `table` contains. Never reads beyond the text: a single NaN from
 * `charCodeAt` deoptimizes this loop, at a third of the lane's time.
 */
function endOf(table: Uint8Array, text: string, start: number): number {
  let at = start;
  while (at < text.length && table[text.charCodeAt(at)] === 1) at++;
  return at;
}

const CR = 13;
const LF = 10;
const SLASH = 0x2f;
const COLON = 0x3a;
const ASCII_MAX = 0x7f;

/** Headers that frame a message, or request more than an answer. */
const FRAMING = new Set([
  "host",
  "content-length",
  "connection",
  "transfer-encoding",
  "expect",
  "upgrade",
  "te",
  "trailer",
  "http2-settings",
  "proxy-connection",
]);

/**
 * Indexed by name length: one bit for each first letter of a framing header. Names that miss need no further
 * look.
 */
const FRAMING_LETTERS = new Int32Array(64);
for (const name of FRAMING) FRAMING_LETTERS[name.length]! |= letterBit(name.charCodeAt(0));

function mayFrame(firstUnit: number, length: number): boolean {
  return length < FRAMING_LETTERS.length && (FRAMING_LETTERS[length]! & letterBit(firstUnit)) !== 0;
}

/** The same bit for both cases of a letter. */
function letterBit(unit: number): number {
  return 1 << (unit & 31);
}

/** Characters of a header name (RFC 9110 token). */
const NAME = tokenTable("!#$%&'*+-.^_`|~");
/** Characters of a target that node:http passes on unchanged. */
const TARGET = tokenTable("!#$%&'()*+,-./:;=?@[\\]^_`{|}~\"<>");

/** The same and bytes above ASCII; see `raw-target.ts`. */
const RAW_TARGET = TARGET.slice().fill(1, 0x80);

function tokenTable(marks: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const character of `${marks}0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ`) {
    table[character.charCodeAt(0)] = 1;
  }
  return table;
}

const BLANK = new Uint8Array(256);
BLANK[9] = BLANK[32] = 1;
/** Visible ASCII and blanks: the characters of a plain value. */
const VALUE = BLANK.slice().fill(1, 32, 127);
