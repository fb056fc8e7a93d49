import { ServiceError } from "./errors.ts";
import { LIMITS } from "./limits.ts";

/** The content of a `$batch` body: one change set, or one query outside any. */
export type Batch =
  | { readonly kind: "changeset"; readonly operations: readonly BatchPart[] }
  | { readonly kind: "query"; readonly part: BatchPart };

/** One request inside the body. */
export interface BatchPart {
  /** In upper case, however it was sent; a tunnelled `X-HTTP-Method` is among the headers. */
  readonly method: string;
  /** As sent: absolute, root-relative or bare; may contain spaces. */
  readonly url: string;
  /**
   * The headers of the request, not of the MIME part, under lower-case names. If a name repeats,
   * its last value counts; but several `If-Match` or `X-HTTP-Method` are joined to a list, as HTTP
   * defines. Consecutive parts whose headers are the same bytes share one map.
   */
  readonly headers: ReadonlyMap<string, string>;
  /** `Content-ID` among the request's own headers; one among the MIME headers is not echoed. */
  readonly contentId: string | undefined;
  /** `Content-ID` among the headers of the MIME part. */
  readonly mimeId: string | undefined;
  /** Without the line breaks around it. A view of the parsed body, not a copy. */
  readonly body: Uint8Array;
}

/**
 * Parses a `$batch` body in the dialects of all known clients: CRLF or LF, blank lines where none
 * belong, text before the first and after the last boundary, a last boundary without its `--`.
 * Takes time linear in the size of the body.
 *
 * A change set has 1 to 101 operations: 101 stands for any number above the limit, because the
 * caller reports that error (`tooManyOperations`) inside the batch response.
 * Source: "Performing entity group transactions".
 * @throws ServiceError InvalidInput; RequestBodyTooLarge.
 */
export function parseBatch(contentType: string | undefined, body: Uint8Array): Batch {
  if (body.length > LIMITS.bodyBytesMax) throw new ServiceError("RequestBodyTooLarge");
  const boundary = boundaryOf(contentType ?? "");
  if (boundary === undefined) throw invalid("The content type is not multipart/mixed.");

  const open = findDelimiter(body, boundary, 0);
  if (open === undefined || open.closing) throw invalid("The batch has no parts.");
  const close = findDelimiter(body, boundary, open.next);
  checkLastPart(body, boundary, close);

  const part = body.subarray(open.next, close?.start ?? body.length);
  const headAt = skipLineBreaks(part, 0);
  const head = readHeaders(part, headAt);
  const innerBoundary = boundaryOf(head.headers.get("content-type") ?? "");
  // Only a boundary after a request proves that the request arrived whole. One that lost a header
  // such as If-Match would do something else.
  const isWhole = close !== undefined;
  if (innerBoundary !== undefined) {
    const content = part.subarray(headAt + head.bytes.length);
    return { kind: "changeset", operations: parseChangeset(content, innerBoundary, isWhole) };
  }
  if (!isWhole) throw invalid("The batch ends inside a request.");
  const query = new PartReader().read(part);
  if (query.method !== "GET") throw invalid(`${query.method} stands outside the change set.`);
  return { kind: "query", part: query };
}

/**
 * Parses the body of a batch without change sets, as the Blob service takes it: one part per request. Of more than
 * `partsMax` it returns one more.
 * Source: "Blob Batch".
 * @throws ServiceError InvalidInput; RequestBodyTooLarge.
 */
export function parseParts(
  contentType: string | undefined,
  body: Uint8Array,
  partsMax: number,
): BatchPart[] {
  if (body.length > LIMITS.bodyBytesMax) throw new ServiceError("RequestBodyTooLarge");
  const boundary = boundaryOf(contentType ?? "");
  if (boundary === undefined) throw invalid("The content type is not multipart/mixed.");
  return readParts(body, boundary, false, partsMax);
}

const LF = 10;
const CR = 13;
const HYPHEN = 45;
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

interface Delimiter {
  /** Where its line begins and the part before it ends. */
  readonly start: number;
  /** Where the next line begins. */
  readonly next: number;
  /** Whether `--` follows the boundary. */
  readonly closing: boolean;
}

/** The first delimiter at or after `line`, which must be the start of a line. */
function findDelimiter(
  bytes: Uint8Array,
  boundary: Uint8Array,
  line: number,
): Delimiter | undefined {
  for (let start = line; start < bytes.length; ) {
    const delimiter = bytes[start] === HYPHEN ? delimiterAt(bytes, boundary, start) : undefined;
    if (delimiter !== undefined) return delimiter;
    const feed = findLineFeed(bytes, start);
    if (feed < 0) return undefined;
    start = feed + 1;
  }
  return undefined;
}

/** -1 if there is none. `indexOf` alone took 165 ms for 4 MiB of very short lines. */
function findLineFeed(bytes: Uint8Array, from: number): number {
  const near = Math.min(from + 8, bytes.length);
  for (let at = from; at < near; at++) if (bytes[at] === LF) return at;
  return bytes.indexOf(LF, near);
}

function delimiterAt(
  bytes: Uint8Array,
  boundary: Uint8Array,
  start: number,
): Delimiter | undefined {
  for (let index = 0; index < boundary.length; index++) {
    if (bytes[start + index] !== boundary[index]) return undefined;
  }
  let at = start + boundary.length;
  const closing = bytes[at] === HYPHEN && bytes[at + 1] === HYPHEN;
  if (closing) at += 2;
  while (isBlank(bytes[at]) && bytes[at] !== LF) at++;
  if (at < bytes.length && bytes[at] !== LF) return undefined;
  return { start, next: Math.min(at + 1, bytes.length), closing };
}

/** Throws if a second part follows. An empty one may: some clients forget the last `--`. */
function checkLastPart(
  bytes: Uint8Array,
  boundary: Uint8Array,
  first: Delimiter | undefined,
): void {
  let open = first;
  while (open !== undefined && !open.closing) {
    const close = findDelimiter(bytes, boundary, open.next);
    if (!isBlankBetween(bytes, open.next, close?.start ?? bytes.length)) {
      throw invalid("The batch has more than one part.");
    }
    open = close;
  }
}

/**
 * `isWhole`: whether a boundary of the batch follows; it also ends a change set that has no closing
 * delimiter.
 */
function parseChangeset(bytes: Uint8Array, boundary: Uint8Array, isWhole: boolean): BatchPart[] {
  const operations = readParts(bytes, boundary, isWhole, LIMITS.transactionOperationsMax);
  for (const { method } of operations) {
    if (method === "GET") throw invalid("A query stands inside the change set.");
  }
  return operations;
}

/** Up to one part more than `partsMax`, which stands for any number above it. */
function readParts(
  bytes: Uint8Array,
  boundary: Uint8Array,
  isWhole: boolean,
  partsMax: number,
): BatchPart[] {
  const operations: BatchPart[] = [];
  const parts = new PartReader();
  let open = findDelimiter(bytes, boundary, 0);
  while (open !== undefined && !open.closing) {
    const close = findDelimiter(bytes, boundary, open.next);
    if (close === undefined && !isWhole) throw invalid("The batch ends inside its change set.");
    const end = close?.start ?? bytes.length;
    if (!isBlankBetween(bytes, open.next, end)) {
      operations.push(parts.read(bytes.subarray(open.next, end)));
      if (operations.length > partsMax) break;
    }
    open = close;
  }
  if (operations.length === 0) throw invalid("The change set has no operations.");
  return operations;
}

/**
 * Reads the parts of one batch. The head of a part is mostly the same bytes as the head of the
 * previous part and is then not parsed again: a transaction of 100 inserts takes 1.8 ms of CPU, not
 * 2.7.
 */
class PartReader {
  #mime: Head = NO_HEAD;
  /** Including its line feed. Empty before the first part. */
  #requestLine: Uint8Array = NOTHING;
  #method = "";
  #url = "";
  #request: Head = NO_HEAD;

  /** One `application/http` part, from its first header to the boundary after it. */
  read(part: Uint8Array): BatchPart {
    const bytes = part.subarray(0, endWithoutLineBreaks(part));
    const start = skipLineBreaks(bytes, this.#readMimeHead(bytes));
    const headersAt = this.#readRequestLine(bytes, start);
    if (!isRepeated(this.#request.bytes, bytes, headersAt)) {
      this.#request = readHeaders(bytes, headersAt);
    }
    const { headers } = this.#request;
    const end = headersAt + this.#request.bytes.length;
    if (end - start > LIMITS.headersBytesMax) throw tooLong();
    const body = bytes.subarray(skipLineBreaks(bytes, end));
    const contentId = headers.get("content-id");
    const mimeId = this.#mime.headers.get("content-id");
    return { method: this.#method, url: this.#url, headers, contentId, mimeId, body };
  }

  #readMimeHead(bytes: Uint8Array): number {
    const at = skipLineBreaks(bytes, 0);
    if (!isRepeated(this.#mime.bytes, bytes, at)) {
      this.#mime = readHeaders(bytes, at);
      const type = this.#mime.headers.get("content-type") ?? "";
      if (!/^application\/http *(;|$)/i.test(type)) throw invalid(`A part is "${type}".`);
    }
    return at + this.#mime.bytes.length;
  }

  #readRequestLine(bytes: Uint8Array, at: number): number {
    if (isRepeated(this.#requestLine, bytes, at)) return at + this.#requestLine.length;
    const feed = findLineFeed(bytes, at);
    const end = feed < 0 ? bytes.length : feed + 1;
    const line = splitLines(bytes.subarray(at, end))[0]!.trimEnd();
    const methodEnd = line.indexOf(" ");
    const urlEnd = line.lastIndexOf(" ");
    this.#method = line.slice(0, Math.max(methodEnd, 0)).toUpperCase();
    this.#url = line.slice(methodEnd, urlEnd).trim();
    if (!/^[A-Z]{1,20}$/.test(this.#method) || this.#url === "" || !/ HTTP\/1\.[01]$/.test(line)) {
      throw invalid("A part has no request line.");
    }
    this.#requestLine = bytes.subarray(at, end);
    return end;
  }
}

/** Whether `before` occurs again at `at`. */
function isRepeated(before: Uint8Array, bytes: Uint8Array, at: number): boolean {
  const { length } = before;
  if (length === 0 || before[length - 1] !== LF || at + length > bytes.length) return false;
  for (let i = 0; i < length; i++) if (bytes[at + i] !== before[i]) return false;
  return true;
}

interface Head {
  /** The whole head, including the blank line after it, if there is one. */
  readonly bytes: Uint8Array;
  readonly headers: ReadonlyMap<string, string>;
}

const NOTHING = new Uint8Array(0);
const NO_HEAD: Head = { bytes: NOTHING, headers: new Map() };

/** The headers from `from` to a blank line or the end. */
function readHeaders(bytes: Uint8Array, from: number): Head {
  let end = bytes.length;
  let next = bytes.length;
  for (let line = from; ; ) {
    const feed = findLineFeed(bytes, line);
    if (feed < 0) break;
    if (feed === line || (feed === line + 1 && bytes[line] === CR)) {
      end = line;
      next = feed + 1;
      break;
    }
    line = feed + 1;
  }
  const headers = parseHeaders(splitLines(bytes.subarray(from, end)));
  return { bytes: bytes.subarray(from, next), headers };
}

function splitLines(head: Uint8Array): string[] {
  if (head.length > LIMITS.headersBytesMax) throw tooLong();
  let text: string;
  try {
    text = UTF8.decode(head);
  } catch (cause) {
    throw new ServiceError("InvalidInput", { cause });
  }
  if (text.includes("\r")) text = text.replaceAll("\r\n", "\n");
  // Any other character that some reader takes for a line end would reach logs and responses.
  if (CONTROL.test(text)) throw invalid("A control character stands in the headers of a part.");
  return text.split("\n");
}

/** Control characters except tab and line feed. */
const CONTROL = /[^\t\n\P{Cc}]/u;
const LISTS: ReadonlySet<string> = new Set(["if-match", "x-http-method"]);
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

function parseHeaders(lines: readonly string[]): Map<string, string> {
  // A blank line after the headers leaves an empty text behind the last line break.
  const count = lines.at(-1) === "" ? lines.length - 1 : lines.length;
  if (count > LIMITS.batchPartHeadersMax) throw invalid("A part has too many headers.");
  const headers = new Map<string, string>();
  for (const line of lines) {
    if (line === "") continue;
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(colon, 0));
    if (!HEADER_NAME.test(name)) throw invalid("A line among the headers of a part is no header.");
    const lower = name.toLowerCase();
    const value = line.slice(colon + 1).trim();
    const before = LISTS.has(lower) ? headers.get(lower) : undefined;
    headers.set(lower, before === undefined ? value : `${before}, ${value}`);
  }
  return headers;
}

/** `--` and the boundary of a `multipart/mixed` content type; undefined for any other type. */
function boundaryOf(contentType: string): Uint8Array | undefined {
  if (!/^multipart\/mixed *(;|$)/i.test(contentType)) return undefined;
  const match = /; *boundary *= *(?:"([^"]*)"|([^ ;,"]+))/i.exec(contentType);
  const boundary = match?.[1] ?? match?.[2] ?? "";
  if (!/^[ -~]{0,69}[!-~]$/.test(boundary)) throw invalid("A boundary has 1 to 70 characters.");
  return new TextEncoder().encode(`--${boundary}`);
}

function skipLineBreaks(bytes: Uint8Array, from: number): number {
  let at = from;
  while (bytes[at] === LF || bytes[at] === CR) at++;
  return at;
}

function endWithoutLineBreaks(bytes: Uint8Array): number {
  let end = bytes.length;
  while (end > 0 && (bytes[end - 1] === LF || bytes[end - 1] === CR)) end--;
  return end;
}

function isBlankBetween(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (!isBlank(bytes[at])) return false;
  return true;
}

function isBlank(byte: number | undefined): boolean {
  return byte === LF || byte === CR || byte === 32 || byte === 9;
}

function tooLong(): ServiceError {
  return invalid("The headers of a part are too long.");
}

function invalid(reason: string): ServiceError {
  return new ServiceError("InvalidInput", { cause: reason });
}
