import { Crc64 } from "./crc64.ts";
import { ServiceError } from "./errors.ts";

/**
 * Structured messages: content split into segments, each with its CRC64, in a frame of its own inside
 * a request or response body. All integers are little-endian.
 *
 *   message header, 13 bytes:  version 01 | length of the whole message (8) | flags 0001 (2) | segments (2)
 *   each segment:              number from 1 (2) | length of the content (8) | content | its CRC64 (8)
 *   message footer, 8 bytes:   CRC64 of all content
 */

/** The value of `x-ms-structured-body` in requests and responses. */
export const STRUCTURED_BODY = "XSM/1.0; properties=crc64";

const VERSION = 1;
const FLAG_CRC64 = 1;
const MESSAGE_HEADER_BYTES = 13;
const SEGMENT_HEADER_BYTES = 10;
const CRC_BYTES = 8;
const SEGMENTS_MAX = 0xffff;
/** The most that a message may be longer than its content. */
export const FRAME_BYTES_MAX =
  MESSAGE_HEADER_BYTES + SEGMENTS_MAX * (SEGMENT_HEADER_BYTES + CRC_BYTES) + CRC_BYTES;
/** The size that clients use. Content too long for `SEGMENTS_MAX` of them gets longer segments. */
const SEGMENT_BYTES = 4 * 1_048_576;

/** Length of the message that `StructuredMessageWriter` makes of content of this length. */
export function structuredBytes(contentBytes: number): number {
  const segments = segmentCount(contentBytes);
  return (
    MESSAGE_HEADER_BYTES + segments * (SEGMENT_HEADER_BYTES + CRC_BYTES) + contentBytes + CRC_BYTES
  );
}

/** Empty content is one empty segment: the JavaScript client finds no end in a message without any. */
function segmentCount(contentBytes: number): number {
  return Math.max(1, Math.ceil(contentBytes / segmentBytes(contentBytes)));
}

function segmentBytes(contentBytes: number): number {
  return Math.max(SEGMENT_BYTES, Math.ceil(contentBytes / SEGMENTS_MAX));
}

/** Frames content of a length known in advance, part by part. */
export class StructuredMessageWriter {
  readonly #contentBytes: number;
  readonly #segmentBytes: number;
  readonly #whole = new Crc64();
  #segment = new Crc64();
  #number = 0;
  #written = 0;
  #bytesInSegment = 0;
  #leftInSegment = 0;

  constructor(contentBytes: number) {
    this.#contentBytes = contentBytes;
    this.#segmentBytes = segmentBytes(contentBytes);
  }

  /** The bytes before all content. */
  begin(): Uint8Array {
    const bytes = new Uint8Array(MESSAGE_HEADER_BYTES);
    const view = new DataView(bytes.buffer);
    view.setUint8(0, VERSION);
    view.setBigUint64(1, BigInt(structuredBytes(this.#contentBytes)), true);
    view.setUint16(9, FLAG_CRC64, true);
    view.setUint16(11, segmentCount(this.#contentBytes), true);
    return bytes;
  }

  /** The content with the frame's bytes before, between and after it. The content is not copied. */
  *write(content: Uint8Array): Generator<Uint8Array, void, undefined> {
    for (let at = 0; at < content.length; ) {
      if (this.#leftInSegment === 0) yield this.#beginSegment();
      const part = content.subarray(at, at + this.#leftInSegment);
      this.#segment.update(part);
      at += part.length;
      this.#written += part.length;
      this.#leftInSegment -= part.length;
      yield part;
      if (this.#leftInSegment > 0) continue;
      this.#whole.append(this.#segment, this.#bytesInSegment);
      yield this.#segment.digest();
    }
  }

  /** The bytes after all content. */
  end(): Uint8Array {
    const sum = this.#whole.digest();
    if (this.#contentBytes > 0) return sum;
    return Uint8Array.of(...this.#beginSegment(), ...this.#segment.digest(), ...sum);
  }

  #beginSegment(): Uint8Array {
    this.#segment = new Crc64();
    this.#number++;
    this.#bytesInSegment = Math.min(this.#segmentBytes, this.#contentBytes - this.#written);
    this.#leftInSegment = this.#bytesInSegment;
    const bytes = new Uint8Array(SEGMENT_HEADER_BYTES);
    const view = new DataView(bytes.buffer);
    view.setUint16(0, this.#number, true);
    view.setBigUint64(2, BigInt(this.#leftInSegment), true);
    return bytes;
  }
}

/**
 * Takes the content out of a message as it arrives, checking the whole frame on the way.
 *
 *   header ──▶ segment header ──▶ content ──▶ segment CRC ──▶ … ──▶ message CRC ──▶ over
 */
export class StructuredMessageReader {
  readonly #messageBytes: number;
  readonly #whole = new Crc64();
  #segment = new Crc64();
  #expects: "header" | "segment" | "content" | "segment-crc" | "message-crc" | "over" = "header";
  /** A header or CRC received in part. */
  readonly #partial = new Uint8Array(MESSAGE_HEADER_BYTES);
  #partialBytes = 0;
  #segments = 0;
  #number = 0;
  #bytesInSegment = 0;
  #leftInSegment = 0;

  /** @param messageBytes length of the whole message, as announced outside it */
  constructor(messageBytes: number) {
    this.#messageBytes = messageBytes;
  }

  /**
   * The content in the next part of the message, not copied.
   * @throws ServiceError InvalidInput for a malformed message, Crc64Mismatch.
   */
  *read(bytes: Uint8Array): Generator<Uint8Array, void, undefined> {
    for (let at = 0; at < bytes.length; ) {
      if (this.#expects === "content") {
        const content = bytes.subarray(at, at + this.#leftInSegment);
        at += content.length;
        this.#leftInSegment -= content.length;
        this.#segment.update(content);
        if (this.#leftInSegment === 0) this.#expects = "segment-crc";
        yield content;
        continue;
      }
      if (this.#expects === "over") throw malformed("Bytes follow the end of the message.");
      const wanted = FIXED_BYTES[this.#expects];
      const part = bytes.subarray(at, at + wanted - this.#partialBytes);
      this.#partial.set(part, this.#partialBytes);
      this.#partialBytes += part.length;
      at += part.length;
      if (this.#partialBytes < wanted) return;
      this.#partialBytes = 0;
      this.#takeFixed();
    }
  }

  /** The sum of the complete segments; at the end, of all content. */
  get sum(): Pick<Crc64, "digest"> {
    return this.#whole;
  }

  /** @throws ServiceError InvalidInput if the message is incomplete. */
  end(): void {
    if (this.#expects !== "over") throw malformed("The message ends too early.");
  }

  #takeFixed(): void {
    const view = new DataView(this.#partial.buffer);
    switch (this.#expects) {
      case "header":
        this.#takeHeader(view);
        break;
      case "segment":
        this.#takeSegmentHeader(view);
        break;
      case "segment-crc":
        this.#checkDigest(this.#segment);
        this.#whole.append(this.#segment, this.#bytesInSegment);
        this.#expects = this.#number < this.#segments ? "segment" : "message-crc";
        break;
      case "message-crc":
        this.#checkDigest(this.#whole);
        this.#expects = "over";
    }
  }

  #takeHeader(view: DataView): void {
    if (view.getUint8(0) !== VERSION) throw malformed("The message is not of version 1.");
    if (view.getBigUint64(1, true) !== BigInt(this.#messageBytes)) {
      throw malformed("The message is not as long as announced.");
    }
    if (view.getUint16(9, true) !== FLAG_CRC64) throw malformed("The message has no CRC64.");
    this.#segments = view.getUint16(11, true);
    this.#expects = this.#segments > 0 ? "segment" : "message-crc";
  }

  #takeSegmentHeader(view: DataView): void {
    this.#number++;
    if (view.getUint16(0, true) !== this.#number) throw malformed("A segment is out of order.");
    const length = view.getBigUint64(2, true);
    if (length > BigInt(this.#messageBytes)) throw malformed("A segment outgrows the message.");
    this.#segment = new Crc64();
    this.#bytesInSegment = Number(length);
    this.#leftInSegment = this.#bytesInSegment;
    this.#expects = length > 0n ? "content" : "segment-crc";
  }

  #checkDigest(crc: Crc64): void {
    const calculated = crc.digest();
    if (calculated.every((byte, index) => byte === this.#partial[index])) return;
    throw new ServiceError("Crc64Mismatch", {
      details: [
        ["UserSpecifiedCrc64", base64(this.#partial.subarray(0, CRC_BYTES))],
        ["ServerCalculatedCrc64", base64(calculated)],
      ],
    });
  }
}

const FIXED_BYTES = {
  header: MESSAGE_HEADER_BYTES,
  segment: SEGMENT_HEADER_BYTES,
  "segment-crc": CRC_BYTES,
  "message-crc": CRC_BYTES,
} as const;

function malformed(reason: string): ServiceError {
  return new ServiceError("InvalidInput", { details: [["Reason", reason]] });
}

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}
