/**
 * Reads the fields of one DataRow message, one after the other. The same object serves every row of a
 * connection; `bytes` returns a view of the message, which the next read from the socket overwrites.
 *
 * Rows arrive in binary form. Text form, in which each byte string is twice as long, is the fallback for a
 * server or pooler whose binary answers proved wrong when the connection was opened.
 */
export class RowReader {
  readonly #isText: boolean;
  #buffer: Buffer = Buffer.alloc(0);
  #at = 0;

  constructor(options: { resultFormat: 0 | 1 }) {
    this.#isText = options.resultFormat === 0;
  }

  /** Begins the row whose message body starts at `start`. */
  begin(buffer: Buffer, start: number): void {
    this.#buffer = buffer;
    this.#at = start + 2; // The reader of a row knows the number of its fields.
  }

  /** Length of the next field in bytes, in its wire form; negative for null. */
  fieldBytes(): number {
    return this.#buffer.readInt32BE(this.#at);
  }

  /** A `bytea`. */
  bytes(): Buffer {
    const field = this.#field();
    return this.#isText ? Buffer.from(field.toString("latin1", 2), "hex") : field;
  }

  /** A `bigint`, exact up to 2^53. */
  int8(): number {
    if (this.#isText) return Number(this.#field().toString("latin1"));
    const at = this.#at + 4;
    this.#at = at + 8;
    const buffer = this.#buffer;
    const high =
      (buffer[at]! << 24) | (buffer[at + 1]! << 16) | (buffer[at + 2]! << 8) | buffer[at + 3]!;
    const low =
      buffer[at + 4]! * 0x100_0000 +
      ((buffer[at + 5]! << 16) | (buffer[at + 6]! << 8) | buffer[at + 7]!);
    return high * 0x1_0000_0000 + low;
  }

  /** A `text`, which has only one form; undefined for null. */
  text(): string | undefined {
    if (this.fieldBytes() < 0) {
      this.#at += 4;
      return undefined;
    }
    return this.#field().toString("utf8");
  }

  #field(): Buffer {
    const start = this.#at + 4;
    this.#at = start + this.#buffer.readInt32BE(this.#at);
    return this.#buffer.subarray(start, this.#at);
  }
}
