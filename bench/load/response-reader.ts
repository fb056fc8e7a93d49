/**
 * Reads the answers on one keep-alive connection that has one request in flight at a time. It parses only the
 * status, the head as text, and the end of the body. Bodies are counted and, unless `keepsBodies` is set,
 * dropped; bodies of errors are always kept, for the message.
 */
export class ResponseReader {
  status = 0;
  /** Status line and headers of the answer being read. */
  head = "";
  bodyBytes = 0;
  body: Buffer[] = [];
  keepsBodies = false;
  #state: "head" | "body" | "chunk size" | "chunk" | "trailer" = "head";
  #remaining = 0;
  #line = "";

  /** Consumes bytes as they arrive; true once the answer is complete. Throws if it is not HTTP/1.1. */
  read(bytes: Buffer): boolean {
    let at = 0;
    while (at < bytes.length) {
      switch (this.#state) {
        case "head": {
          const end = this.#takeHead(bytes, at);
          if (end < 0) return false;
          at = end;
          if (this.#isBodyEmpty()) return this.#complete(bytes, at);
          break;
        }
        case "body":
          at = this.#takeBody(bytes, at);
          if (this.#remaining === 0) return this.#complete(bytes, at);
          break;
        case "chunk size": {
          const end = this.#takeLine(bytes, at);
          if (end < 0) return false;
          at = end;
          this.#remaining = Number.parseInt(this.#line, 16);
          if (Number.isNaN(this.#remaining)) throw new Error(`Not a chunk size: ${this.#line}`);
          this.#state = this.#remaining === 0 ? "trailer" : "chunk";
          this.#line = "";
          break;
        }
        case "chunk":
          at = this.#takeBody(bytes, at);
          // The empty line after a chunk is read as part of the next size: parseInt skips white space.
          if (this.#remaining === 0) this.#state = "chunk size";
          break;
        case "trailer": {
          const end = this.#takeLine(bytes, at);
          if (end < 0) return false;
          this.#line = "";
          return this.#complete(bytes, end);
        }
      }
    }
    return false;
  }

  /** The value of a header of the last answer; undefined if it has none. */
  header(name: string): string | undefined {
    const at = this.head.toLowerCase().indexOf(`\r\n${name}:`);
    if (at < 0) return undefined;
    const start = at + name.length + 3;
    return this.head.slice(start, this.head.indexOf("\r\n", start)).trim();
  }

  #takeHead(bytes: Buffer, at: number): number {
    const carried = this.#line;
    const text =
      carried + bytes.toString("latin1", at, Math.min(bytes.length, at + HEAD_BYTES_MAX));
    const end = text.indexOf("\r\n\r\n");
    if (end < 0) {
      if (text.length > HEAD_BYTES_MAX) throw new Error("The head of an answer never ends.");
      this.#line = text;
      return -1;
    }
    this.head = text.slice(0, end + 2);
    this.#line = "";
    this.#startBody();
    return at + end + 4 - carried.length;
  }

  #startBody(): void {
    const { head } = this;
    if (!head.startsWith("HTTP/1.1 ")) throw new Error(`Not an answer: ${head.slice(0, 80)}`);
    this.status = Number(head.slice(9, 12));
    this.bodyBytes = 0;
    if (this.body.length > 0) this.body = [];
    const length = CONTENT_LENGTH.exec(head);
    if (length === null && this.status !== 204 && this.status !== 304) {
      if (!CHUNKED.test(head)) throw new Error(`An answer without a length: ${head}`);
      this.#state = "chunk size";
    } else {
      this.#state = "body";
      this.#remaining = length === null ? 0 : Number(length[1]);
    }
  }

  #isBodyEmpty(): boolean {
    return this.#state === "body" && this.#remaining === 0;
  }

  #takeBody(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#remaining);
    if (this.keepsBodies || this.status >= 400)
      this.body.push(Buffer.from(bytes.subarray(at, end)));
    this.bodyBytes += end - at;
    this.#remaining -= end - at;
    return end;
  }

  /** Collects a line that is not empty or, in the trailer, ends at the first line that is. */
  #takeLine(bytes: Buffer, at: number): number {
    for (let end = bytes.indexOf(LF, at); end >= 0; end = bytes.indexOf(LF, at)) {
      this.#line += bytes.toString("latin1", at, end);
      at = end + 1;
      const empty = this.#line.trim() === "";
      if (empty === (this.#state === "trailer")) return at;
      this.#line = "";
    }
    this.#line += bytes.toString("latin1", at);
    return -1;
  }

  #complete(bytes: Buffer, at: number): boolean {
    if (at !== bytes.length) throw new Error("Bytes after the end of an answer.");
    this.#state = "head";
    return true;
  }
}

const LF = 10;
const HEAD_BYTES_MAX = 16_384;
const CONTENT_LENGTH = /\r\ncontent-length: *(\d+)/i;
const CHUNKED = /\r\ntransfer-encoding: *chunked/i;
