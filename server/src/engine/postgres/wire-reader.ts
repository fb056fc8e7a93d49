/** Receives whole messages, lent until it returns. `start` is the first byte of the body, `end` the byte behind it. */
export type OnMessage = (code: number, bytes: Buffer, start: number, end: number) => void;

const HEADER_BYTES = 5;
/** A row of PostgreSQL is below 1 GiB; a larger length means that the stream is out of step. */
const MESSAGE_BYTES_MAX = 0x4000_0000;

/**
 * Cuts a byte stream into messages, however its chunks arrive. A message inside one chunk is passed on in
 * place; one that crosses chunks is first assembled in a buffer of its own size, so its bytes are copied once
 * however many chunks it spans.
 *
 * The receiver may call `pause`, even while it handles a message: a copy of the rest waits until `resume`.
 */
export class WireReader {
  readonly #onMessage: OnMessage;
  /** The first bytes of a message whose length is not known yet. */
  readonly #header = Buffer.alloc(HEADER_BYTES);
  #headerFilled = 0;
  /** A message being assembled: code, length and body. */
  #partial: Buffer | undefined;
  #partialFilled = 0;
  #paused = false;
  #waiting: Buffer[] = [];

  constructor(onMessage: OnMessage) {
    this.#onMessage = onMessage;
  }

  get isPaused(): boolean {
    return this.#paused;
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    while (!this.#paused) {
      const chunk = this.#waiting.shift();
      if (chunk === undefined) return;
      this.#read(chunk);
    }
  }

  /** @param chunk lent until this returns. @throws RangeError when the bytes cannot be messages. */
  push(chunk: Buffer): void {
    if (this.#paused) this.#waiting.push(Buffer.from(chunk));
    else this.#read(chunk);
  }

  #read(chunk: Buffer): void {
    let at = 0;
    if (this.#partial || this.#headerFilled > 0) {
      at = this.#completePartial(chunk);
      if (this.#partial || this.#headerFilled > 0) return;
    }
    for (;;) {
      if (this.#paused) {
        if (at < chunk.length) this.#waiting.unshift(Buffer.from(chunk.subarray(at)));
        return;
      }
      if (chunk.length - at < HEADER_BYTES) break;
      const end = at + 1 + messageLength(chunk, at + 1);
      if (end > chunk.length) {
        this.#partial = Buffer.allocUnsafeSlow(end - at);
        this.#partialFilled = chunk.copy(this.#partial, 0, at);
        return;
      }
      this.#onMessage(chunk[at]!, chunk, at + HEADER_BYTES, end);
      at = end;
    }
    this.#headerFilled = chunk.copy(this.#header, 0, at);
  }

  /** Adds what the message being assembled lacks; returns where in `chunk` the next one begins. */
  #completePartial(chunk: Buffer): number {
    let at = 0;
    if (!this.#partial) {
      at = chunk.copy(this.#header, this.#headerFilled);
      at = Math.min(at, HEADER_BYTES - this.#headerFilled);
      this.#headerFilled += at;
      if (this.#headerFilled < HEADER_BYTES) return at;
      this.#partial = Buffer.allocUnsafeSlow(1 + messageLength(this.#header, 1));
      this.#header.copy(this.#partial);
      this.#partialFilled = HEADER_BYTES;
      this.#headerFilled = 0;
    }
    const message = this.#partial;
    const copied = chunk.copy(message, this.#partialFilled, at);
    this.#partialFilled += copied;
    if (this.#partialFilled === message.length) {
      this.#partial = undefined;
      this.#onMessage(message[0]!, message, HEADER_BYTES, message.length);
    }
    return at + copied;
  }
}

function messageLength(bytes: Buffer, at: number): number {
  const length = bytes.readUInt32BE(at);
  if (length < 4 || length > MESSAGE_BYTES_MAX) {
    throw new RangeError(
      `The database sent a message with an impossible length of ${length} bytes.`,
    );
  }
  return length;
}
