import { ServiceError } from "@rowhouse/protocol/errors";
import {
  FRAME_BYTES_MAX,
  STRUCTURED_BODY,
  StructuredMessageReader,
} from "@rowhouse/protocol/structured-message";
import { type Awaitable, whenReady } from "../../awaitable.ts";
import type { BodySource } from "../../wire/body-source.ts";
import { md5Header, md5Mismatch } from "../../wire/content-md5.ts";
import { integerHeader, invalidHeader, missingHeader } from "../../wire/header-values.ts";
import type { RequestHead } from "../../wire/operation.ts";
import {
  beginDigest,
  type Digests,
  digestOf,
  type RunningDigest,
  type WantedDigests,
} from "./content-digest.ts";
import type { Part, UploadParts } from "./upload-parts.ts";

/** What a request's headers say about the content in its body. */
export interface IncomingContent {
  /** Length of the content itself. */
  readonly bytes: number;
  /** Length of the body, which may wrap the content in a frame. */
  readonly bodyBytes: number;
  readonly isStructured: boolean;
  /** Announced checksums, in base64. */
  readonly md5: string | undefined;
  readonly crc64: string | undefined;
}

/** Older versions return an MD5 instead, also one that the client did not send. */
export const CRC64_SINCE = "2019-02-02";

const CRC64 = /^[A-Za-z0-9+/]{11}=$/;

/**
 * @param bytesMax largest content that the operation accepts
 * @throws ServiceError MissingContentLengthHeader, RequestBodyTooLarge, BothCrc64AndMd5HeaderPresent,
 * InvalidMd5, InvalidHeaderValue, MissingRequiredHeader or UnsupportedHeader.
 */
export function incomingContent(head: RequestHead, bytesMax: number): IncomingContent {
  const bodyBytes = integerHeader(head, "content-length");
  if (bodyBytes === undefined) throw new ServiceError("MissingContentLengthHeader");
  const md5 = md5Header(head, "content-md5");
  const crc64 = head.header("x-ms-content-crc64") || undefined;
  if (md5 !== undefined && crc64 !== undefined) {
    throw new ServiceError("BothCrc64AndMd5HeaderPresent");
  }
  if (crc64 !== undefined && !CRC64.test(crc64)) throw invalidHeader("x-ms-content-crc64", crc64);
  const isStructured = isStructuredBody(head);
  // The frame has its own checksums; those in headers would cover the frame.
  if (isStructured && (md5 !== undefined || crc64 !== undefined)) {
    throw new ServiceError("UnsupportedHeader");
  }
  const bytes = isStructured ? structuredContentBytes(head, bodyBytes) : bodyBytes;
  if (bytes > bytesMax) {
    throw new ServiceError("RequestBodyTooLarge", { details: [["MaxLimit", String(bytesMax)]] });
  }
  return { bytes, bodyBytes, isStructured, md5, crc64 };
}

/** Whether `x-ms-structured-body` requests the only supported kind of frame. */
export function isStructuredBody(head: RequestHead): boolean {
  const kind = head.header("x-ms-structured-body");
  if (kind === undefined) return false;
  if (kind.replace(/\s/g, "").toLowerCase() === FRAME) return true;
  throw invalidHeader("x-ms-structured-body", kind);
}

const FRAME = STRUCTURED_BODY.replace(" ", "").toLowerCase();

function structuredContentBytes(head: RequestHead, bodyBytes: number): number {
  const name = "x-ms-structured-content-length";
  const bytes = integerHeader(head, name);
  if (bytes === undefined) throw missingHeader(name);
  // The length of the content decides whether the body is held whole: the body must not be much longer.
  if (bytes > bodyBytes || bodyBytes - bytes > FRAME_BYTES_MAX) {
    throw invalidHeader(name, String(bytes));
  }
  return bytes;
}

/**
 * Refuses a body that differs from its announcement. A refusal because of the blob itself takes precedence:
 * in the order of checks, the body comes last.
 */
export async function refuseBody(error: unknown, judge: () => Promise<void>): Promise<never> {
  if (error instanceof ServiceError) await judge();
  throw error;
}

/**
 * The content of a body that is read whole.
 * @throws ServiceError Md5Mismatch, Crc64Mismatch, InvalidInput, RequestBodyTooLarge; BodyAborted.
 */
export function receiveWhole(
  source: BodySource | undefined,
  expected: IncomingContent,
  wanted: Wanted,
): Awaitable<{ bytes: Uint8Array; digests: Digests }> {
  return whenReady(source?.read(expected.bodyBytes), (body) => {
    if (body === undefined) throw new ServiceError("RequestBodyTooLarge");
    const frame = expected.isStructured ? new StructuredMessageReader(body.length) : undefined;
    const bytes = frame ? unframe(frame, body) : body;
    const digests = digestOf(bytes, wantedOf(expected, wanted, frame));
    checkDigests(digests, expected);
    return { bytes, digests };
  });
}

/**
 * The content of a body as it arrives: unframed, counted, summed, in long parts lent as in
 * `UploadParts.gather`. The last part is yielded before its checksum is known, so that it can be stored in
 * the meantime.
 * @param whenWhole receives a promise that rejects if the content was not as announced, with a ServiceError:
 * Md5Mismatch, Crc64Mismatch, InvalidInput
 * @throws ServiceError InvalidInput of frames; BodyAborted from below.
 */
export async function* summedContent(
  body: Pick<BodySource, "fill" | "reserve">,
  expected: IncomingContent,
  wanted: Wanted,
  parts: UploadParts,
  whenWhole: (digests: Promise<Digests>) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  const frame = expected.isStructured ? new StructuredMessageReader(expected.bodyBytes) : undefined;
  const digest = beginDigest(expected.bytes, wantedOf(expected, wanted, frame));
  let isWhole = false;
  try {
    const contentOf = (bytes: Part) => (frame ? unframePart(frame, bytes) : bytes);
    yield* parts.gather(body, expected.bodyBytes, contentOf, digest);
    frame?.end();
    isWhole = true;
  } finally {
    if (!isWhole) digest.forget();
  }
  whenWhole(checkedDigests(digest, expected));
}

async function checkedDigests(digest: RunningDigest, expected: IncomingContent): Promise<Digests> {
  const digests = await digest.digest();
  checkDigests(digests, expected);
  return digests;
}

/** The content in a part of a framed message, moved to the beginning of the part's memory. */
function unframePart(frame: StructuredMessageReader, bytes: Part): Part {
  let length = 0;
  for (const content of frame.read(bytes)) {
    bytes.set(content, length);
    length += content.length;
  }
  return bytes.subarray(0, length);
}

interface Wanted {
  readonly md5: boolean;
}

/** The reader of a frame already computes the CRC64 of all content to check it. */
function wantedOf(
  { md5 }: IncomingContent,
  wanted: Wanted,
  frame: StructuredMessageReader | undefined,
): WantedDigests {
  return { md5: wanted.md5 || md5 !== undefined, crc64: frame?.sum };
}

function unframe(frame: StructuredMessageReader, message: Uint8Array): Uint8Array {
  const parts = [...frame.read(message)];
  frame.end();
  return Buffer.concat(parts);
}

function checkDigests(digests: Digests, expected: IncomingContent): void {
  if (digests.bytes !== expected.bytes) {
    throw new ServiceError("InvalidInput", {
      details: [["Reason", `The content has ${digests.bytes} bytes, not ${expected.bytes}.`]],
    });
  }
  if (expected.md5 !== undefined && digests.md5 !== expected.md5) {
    throw md5Mismatch(expected.md5, digests.md5 ?? "");
  }
  if (expected.crc64 !== undefined && digests.crc64 !== expected.crc64) {
    throw new ServiceError("Crc64Mismatch", {
      details: [
        ["UserSpecifiedCrc64", expected.crc64],
        ["ServerCalculatedCrc64", digests.crc64],
      ],
    });
  }
}
