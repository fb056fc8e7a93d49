import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import {
  STRUCTURED_BODY,
  StructuredMessageWriter,
  structuredBytes,
} from "@rowhouse/protocol/structured-message";
import { CallTime } from "../engine/call-time.ts";
import { invalidHeader } from "../wire/header-values.ts";
import type { Caller, RequestHead, WireRequest } from "../wire/operation.ts";
import { READ_ACCESS, readForCaller } from "./blob-access.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobContext, type BlobOperation, blobNameOf } from "./blob-operation.ts";
import { blobHeaders, checkNotArchived, checkOverrides } from "./blob-properties.ts";
import { type CommittedBlob, contentIdOf } from "./blob-record.ts";
import { type ByteRange, clipRange, rangeOf } from "./byte-range.ts";
import { type Conditions, checkReadConditions, readConditions } from "./conditions.ts";
import { type Digests, digestOf } from "./content-life/content-digest.ts";
import { gather } from "./content-life/contents.ts";
import { isStructuredBody } from "./content-life/incoming-content.ts";
import { checkLeaseForRead } from "./lease.ts";
import { leaseIdOf } from "./lease-request.ts";
import { refuseOwnKeys } from "./unsupported.ts";
import { etagOf, printTime } from "./validators.ts";

/** The input that all blob reads share. */
export interface ReadBlobInput {
  readonly caller: Caller;
  readonly name: BlobName;
  readonly leaseId: string | undefined;
  readonly conditions: Conditions;
}

interface GetBlobInput extends ReadBlobInput {
  readonly range: AskedRange | undefined;
  readonly isStructured: boolean;
}

interface AskedRange extends ByteRange {
  readonly checksum: "md5" | "crc64" | undefined;
  /** The value of If-Range. */
  readonly ifStill: string | undefined;
}

interface GetBlobOutput {
  readonly blob: CommittedBlob;
  readonly range: AskedRange | undefined;
  readonly isStructured: boolean;
  readonly start: number;
  readonly end: number;
  readonly content: Uint8Array | AsyncIterable<Uint8Array>;
  readonly digests: Digests | undefined;
}

/** Get Blob: the whole blob or a range, of one version however long the read takes. */
export const getBlob: BlobOperation<GetBlobInput, GetBlobOutput> = {
  name: "GetBlob",
  route: { method: "GET", resource: "blob" },
  access: READ_ACCESS,

  decode(request) {
    refuseOwnKeys(request);
    checkOverrides(request);
    return {
      ...readInputOf(request),
      range: askedRange(request),
      isStructured: isStructuredBody(request),
    };
  },

  async run(context, input) {
    const { isStructured } = input;
    for (const time = new CallTime(context.clock); ; time.assertLeft()) {
      const blob = await readBlob(context, input);
      checkNotArchived(blob.accessTier);
      const range = isStill(blob, input.range?.ifStill) ? input.range : undefined;
      const { start, end } = range ? clipRange(range, blob.size) : { start: 0, end: blob.size };
      if (range?.checksum !== undefined && end - start > LIMITS.checkedRangeBytesMax) {
        throw new ServiceError("OutOfRangeInput");
      }
      const content = await contentOf(context, blob, start, end);
      if (content === undefined) {
        // Replaced between the two reads: its row was deleted with it.
        await context.blobs.assertReleased(input.name, contentIdOf(blob) ?? "", "content");
        continue;
      }
      const read = { blob, range, isStructured, start, end };
      if (range?.checksum === undefined) return { ...read, content, digests: undefined };
      const bytes = content instanceof Uint8Array ? content : await gather(content, end - start);
      const digests = digestOf(bytes, { md5: range.checksum === "md5" });
      return { ...read, content: bytes, digests };
    }
  },

  encode({ blob, range, isStructured, start, end, content, digests }, request) {
    const headers = blobHeaders(blob, request);
    const { contentMd5 } = blob.properties;
    if (range) {
      headers.push("Content-Range", `bytes ${start}-${end - 1}/${blob.size}`);
      if (contentMd5 !== undefined) headers.push("x-ms-blob-content-md5", contentMd5);
      if (range.checksum === "md5") headers.push("Content-MD5", digests?.md5 ?? "");
      if (range.checksum === "crc64") headers.push("x-ms-content-crc64", digests?.crc64 ?? "");
    } else if (contentMd5 !== undefined) {
      headers.push("Content-MD5", contentMd5);
    }
    const status = range ? 206 : 200;
    const bytes = end - start;
    if (!isStructured) {
      headers.push("Content-Length", String(bytes));
      return { status, headers, body: content };
    }
    headers.push("Content-Length", String(structuredBytes(bytes)));
    headers.push("x-ms-structured-body", STRUCTURED_BODY);
    headers.push("x-ms-structured-content-length", String(bytes));
    return { status, headers, body: framed(content, bytes) };
  },
};

/** Get Blob Properties: the headers of Get Blob, without the content. */
export const getBlobProperties: BlobOperation<ReadBlobInput, CommittedBlob> = {
  name: "GetBlobProperties",
  route: { method: "HEAD", resource: "blob" },
  access: READ_ACCESS,

  decode(request) {
    refuseOwnKeys(request);
    checkOverrides(request);
    return readInputOf(request);
  },

  run: readBlob,

  encode(blob, request) {
    const headers = blobHeaders(blob, request);
    const { contentMd5 } = blob.properties;
    if (contentMd5 !== undefined) headers.push("Content-MD5", contentMd5);
    if (blob.type === "BlockBlob") {
      headers.push("x-ms-access-tier", blob.accessTier ?? "Hot");
      if (blob.accessTier === undefined) headers.push("x-ms-access-tier-inferred", "true");
      if (blob.tierChangedAt !== undefined) {
        headers.push("x-ms-access-tier-change-time", printTime(blob.tierChangedAt));
      }
    }
    headers.push("Content-Length", String(blob.size));
    return { status: 200, headers };
  },
};

export function readInputOf(request: WireRequest): ReadBlobInput {
  return {
    caller: request,
    name: blobNameOf(request),
    leaseId: leaseIdOf(request),
    conditions: readConditions(request),
  };
}

/** @throws ServiceError BlobNotFound and others, in the order of the reference. */
export async function readBlob(context: BlobContext, input: ReadBlobInput): Promise<CommittedBlob> {
  const { record } = await readForCaller(context, input.name, input.caller);
  const { blob } = record;
  if (blob === undefined) throw new ServiceError("BlobNotFound");
  checkReadConditions(input.conditions, blob.modified);
  checkLeaseForRead(blob.lease, input.leaseId, input.caller.arrivedAt, "blob");
  return blob;
}

function askedRange(head: RequestHead): AskedRange | undefined {
  const range = rangeOf(head);
  const checksum = checksumOf(head, range);
  return range && { ...range, checksum, ifStill: head.header("if-range") };
}

/**
 * Whether a range may be returned. If the blob has changed, a range of it would not fit the client's part of
 * the old version, so the client gets the whole blob, as HTTP requires. A date is too coarse: it misses
 * changes within its second.
 */
function isStill({ modified }: CommittedBlob, ifStill: string | undefined): boolean {
  return ifStill === undefined || ifStill === `"${etagOf(modified)}"`;
}

function checksumOf(head: RequestHead, range: ByteRange | undefined): AskedRange["checksum"] {
  const md5 = isWanted(head, "x-ms-range-get-content-md5");
  const crc64 = isWanted(head, "x-ms-range-get-content-crc64");
  if (md5 && crc64) throw invalidHeader("x-ms-range-get-content-crc64", "true");
  const checksum = md5 ? "md5" : crc64 ? "crc64" : undefined;
  if (checksum !== undefined && range === undefined) {
    throw invalidHeader(`x-ms-range-get-content-${checksum}`, "true");
  }
  return checksum;
}

function isWanted(head: RequestHead, name: string): boolean {
  const text = head.header(name)?.toLowerCase() ?? "false";
  if (text !== "true" && text !== "false") throw invalidHeader(name, text);
  return text === "true";
}

/** Content that is one row is read at once, or undefined if it is gone; other content is streamed. */
async function contentOf(
  { contents, engine }: BlobContext,
  blob: CommittedBlob,
  start: number,
  end: number,
): Promise<Uint8Array | AsyncIterable<Uint8Array> | undefined> {
  if (blob.content.in !== "row") return contents.read(blob, start, end);
  const [row] = await engine.get([contents.rowKey(blob.content.id)]);
  return row?.value.subarray(start, end);
}

async function* framed(
  content: Uint8Array | AsyncIterable<Uint8Array>,
  bytes: number,
): AsyncGenerator<Uint8Array> {
  const writer = new StructuredMessageWriter(bytes);
  yield writer.begin();
  if (content instanceof Uint8Array) yield* writer.write(content);
  else for await (const part of content) yield* writer.write(part);
  yield writer.end();
}
